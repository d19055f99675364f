"""Makes a database of 5,000 accounts whose passwords are kept the old way."""

import pathlib
import sqlite3
import sys

from passwords import legacy_digest

ROWS = 5_000


def main():
    path = pathlib.Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    with database:
        database.execute(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
            " password TEXT NOT NULL)"
        )
        database.executemany(
            "INSERT INTO account (id, name, password) VALUES (?, ?, ?)",
            ((n, f"player-{n:04}", legacy_digest(f"secret-{n}")) for n in range(1, ROWS + 1)),
        )
    database.close()
    print(f"seeded {ROWS} accounts in {path}")


if __name__ == "__main__":
    main()
