"""Checks what the migration left: every row is there, in the new form, and still opens."""

import sqlite3
import sys

from passwords import matches
from seed import ROWS


def problems(database):
    if database.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        yield "the file is not a sound database any more"
    count = database.execute("SELECT count(*) FROM account").fetchone()[0]
    if count != ROWS:
        yield f"{count} accounts are left of {ROWS}"
    old = database.execute(
        "SELECT count(*) FROM account WHERE password NOT LIKE 'pbkdf2-sha1$%'"
    ).fetchone()[0]
    if old:
        yield f"{old} accounts still have the old form"
    if database.execute("SELECT count(DISTINCT password) FROM account").fetchone()[0] != count:
        yield "two accounts share a digest: the salts are not random"
    sample = database.execute("SELECT id, password FROM account WHERE id % 97 = 1").fetchall()
    for account, stored in sample:
        if not matches(f"secret-{account}", stored):
            yield f"account {account} no longer opens with its own password"
        if matches("something else", stored):
            yield f"account {account} opens with any password"


def main():
    database = sqlite3.connect(sys.argv[1])
    found = list(problems(database))
    for problem in found:
        print(f"problem: {problem}", file=sys.stderr)
    if not found:
        print(f"verified: {ROWS} accounts, all in the new form, a sample opened")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
