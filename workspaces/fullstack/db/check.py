"""Checks that a migrated database is sound and holds what the others build on."""

import sqlite3
import sys

WANTED = {"show", "booking", "house", "booking_seat", "migration"}


def main():
    database = sqlite3.connect(sys.argv[1])
    sound = database.execute("PRAGMA integrity_check").fetchone()[0]
    there = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    missing = sorted(WANTED - there)
    if sound != "ok" or missing:
        print(f"error: integrity {sound}, missing {missing}", file=sys.stderr)
        return 1
    print(f"schema is sound: {', '.join(sorted(WANTED))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
