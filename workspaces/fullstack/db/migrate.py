"""Brings a SQLite database to the newest schema: each file of `migrations/` once, in order, in a
transaction of its own. A file that was applied may not change afterwards."""

import hashlib
import pathlib
import sqlite3
import sys

MIGRATIONS = pathlib.Path(__file__).parent / "migrations"


def apply(database, name, script, digest):
    """Runs a script and records it, both or neither."""
    statements = [part for part in split(script) if part]
    database.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements:
            database.execute(statement)
        database.execute("INSERT INTO migration (name, digest) VALUES (?, ?)", (name, digest))
    except sqlite3.Error:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def split(script):
    """The statements of a script; `executescript` would commit before it begins."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
    yield statement.strip()


def main():
    path = pathlib.Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, digest TEXT NOT NULL)"
    )
    applied = dict(database.execute("SELECT name, digest FROM migration"))
    fresh = 0
    for file in sorted(MIGRATIONS.glob("*.sql")):
        script = file.read_text(encoding="utf-8")
        digest = hashlib.sha256(script.encode()).hexdigest()
        if file.name not in applied:
            apply(database, file.name, script, digest)
            print(f"applied {file.name}")
            fresh += 1
        elif applied[file.name] != digest:
            print(f"error: {file.name} has changed since it was applied", file=sys.stderr)
            return 1
    database.close()
    print(f"{path}: {fresh} applied, {len(applied)} were there before")
    return 0


if __name__ == "__main__":
    sys.exit(main())
