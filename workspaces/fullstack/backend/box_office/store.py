"""Shows and bookings in SQLite. A connection a call: the server answers on many threads."""

import contextlib
import sqlite3


class NotFound(Exception):
    """There is no such show or booking."""


class SeatTaken(Exception):
    """Somebody else has the seat."""


class Store:
    """The tables that `db/migrations` makes."""

    def __init__(self, path):
        self.path = str(path)

    @contextlib.contextmanager
    def _open(self):
        database = sqlite3.connect(self.path, timeout=10)
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA foreign_keys = ON")
        try:
            with database:
                yield database
        finally:
            database.close()

    def shows(self):
        """All shows with the number of free seats, by date."""
        with self._open() as database:
            return [dict(row) for row in database.execute("SELECT * FROM house ORDER BY starts")]

    def show(self, show):
        """One show and its taken seats."""
        with self._open() as database:
            row = database.execute("SELECT * FROM house WHERE id = ?", (show,)).fetchone()
            if row is None:
                raise NotFound(f"no show {show}")
            taken = database.execute("SELECT seat FROM booking WHERE show = ? ORDER BY seat", (show,))
            return {**dict(row), "taken": [seat for (seat,) in taken]}

    def book(self, show, seat, name):
        """Books a seat. The unique index decides between two who ask at once."""
        house = self.show(show)
        if not 1 <= seat <= house["seats"]:
            raise NotFound(f"no seat {seat} in show {show}")
        try:
            with self._open() as database:
                cursor = database.execute(
                    "INSERT INTO booking (show, seat, name) VALUES (?, ?, ?)", (show, seat, name)
                )
                return {"id": cursor.lastrowid, "show": show, "seat": seat, "name": name}
        except sqlite3.IntegrityError as error:
            raise SeatTaken(f"seat {seat} of show {show} is taken") from error

    def cancel(self, booking):
        """Gives a seat back."""
        with self._open() as database:
            gone = database.execute("DELETE FROM booking WHERE id = ?", (booking,)).rowcount
        if not gone:
            raise NotFound(f"no booking {booking}")
        return {"id": booking, "cancelled": True}
