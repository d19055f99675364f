"""Says how the accounts are kept now, and in how many bytes."""

import os
import sqlite3
import sys

FORM = "CASE WHEN instr(password, '$') THEN substr(password, 1, instr(password, '$') - 1) ELSE 'sha1' END"


def main():
    path = sys.argv[1]
    database = sqlite3.connect(path)
    for form, count in database.execute(f"SELECT {FORM}, count(*) FROM account GROUP BY 1 ORDER BY 1"):
        print(f"{form:<12} {count:>6} accounts")
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
