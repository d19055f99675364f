"""Wraps every legacy password digest in a slow one, batch by batch.

Each batch is one transaction, and a row says by its own form whether it has been done, so a job
that was ended half-way goes on where it stopped.
"""

import os
import sqlite3
import sys
import time

from passwords import wrap

BATCH = 250


def confirm(rows):
    """Asks; anything but a yes, and a terminal that is gone, is a no."""
    try:
        answer = input(f"About to rewrite {rows} rows. Continue? [y/N] ")
    except EOFError:
        print()
        return False
    return answer.strip().lower() in ("y", "yes")


def migrate(database, rows):
    started = time.monotonic()
    done = 0
    while True:
        batch = database.execute(
            "SELECT id, password FROM account WHERE instr(password, '$') = 0 ORDER BY id LIMIT ?",
            (BATCH,),
        ).fetchall()
        if not batch:
            return time.monotonic() - started
        with database:
            database.executemany(
                "UPDATE account SET password = ? WHERE id = ?",
                [(wrap(digest, os.urandom(16)), account) for account, digest in batch],
            )
        done += len(batch)
        print(f"migrated {done:>5} of {rows} rows ({done * 100 // rows:>3} %)", flush=True)


def main():
    database = sqlite3.connect(sys.argv[1])
    query = "SELECT count(*) FROM account WHERE instr(password, '$') = 0"
    rows = database.execute(query).fetchone()[0]
    if rows == 0:
        print("nothing to migrate")
        return 0
    if not confirm(rows):
        print("no change was made", file=sys.stderr)
        return 1
    seconds = migrate(database, rows)
    database.close()
    print(f"done: {rows} rows in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
