"""The store against the schema that the migrations make."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from box_office.store import NotFound, SeatTaken, Store

MIGRATE = pathlib.Path(__file__).parents[2] / "db" / "migrate.py"


class StoreTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "office.db"
        subprocess.run([sys.executable, str(MIGRATE), str(path)], check=True, stdout=subprocess.DEVNULL)
        self.store = Store(path)

    def test_shows_are_in_order_of_their_dates(self):
        starts = [show["starts"] for show in self.store.shows()]
        self.assertEqual(starts, sorted(starts))
        self.assertGreaterEqual(len(starts), 3)

    def test_a_booking_takes_a_seat_and_its_end_gives_it_back(self):
        before = self.store.show(1)
        booking = self.store.book(1, 7, "Ariel")
        self.assertEqual(self.store.show(1)["taken"], [7])
        self.assertEqual(self.store.show(1)["free"], before["free"] - 1)
        self.store.cancel(booking["id"])
        self.assertEqual(self.store.show(1), before)

    def test_a_seat_is_sold_once(self):
        self.store.book(1, 7, "Ariel")
        with self.assertRaises(SeatTaken):
            self.store.book(1, 7, "Caliban")

    def test_what_is_not_there_cannot_be_booked_or_cancelled(self):
        for show, seat in ((99, 1), (1, 0), (1, 41)):
            with self.subTest(show=show, seat=seat), self.assertRaises(NotFound):
                self.store.book(show, seat, "Ariel")
        with self.assertRaises(NotFound):
            self.store.cancel(99)
