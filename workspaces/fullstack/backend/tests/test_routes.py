"""The table of routes and the contract that is written from it."""

import unittest

from box_office import routes


class RoutesTest(unittest.TestCase):
    def test_paths_are_found_with_their_numbers(self):
        table = [
            ("GET", "/api/shows", "shows", {}),
            ("GET", "/api/shows/12", "show", {"show": 12}),
            ("POST", "/api/shows/3/bookings", "book", {"show": 3}),
            ("DELETE", "/api/bookings/5", "cancel", {"booking": 5}),
        ]
        for method, path, name, numbers in table:
            with self.subTest(path=path):
                route, found, _ = routes.find(method, path)
                self.assertEqual((route.answer.__name__, found), (name, numbers))

    def test_other_paths_are_not(self):
        for path in ("/api", "/api/shows/", "/api/shows/x", "/api/shows/1/bookings/2", "/api/shows\n"):
            with self.subTest(path=path):
                self.assertEqual(routes.find("GET", path), (None, {}, []))

    def test_another_method_says_which_would_do(self):
        self.assertEqual(routes.find("PUT", "/api/shows"), (None, {}, ["GET"]))

    def test_bodies_are_held_against_their_shape(self):
        takes = {"seat": "integer", "name": "string"}
        routes.check(takes, {"seat": 1, "name": "Ariel"})
        wrong = [
            {}, [], {"seat": 1}, {"seat": "1", "name": "Ariel"}, {"seat": True, "name": "Ariel"},
            {"seat": 1, "name": " "}, {"seat": 1, "name": "Ariel", "row": 2},
        ]
        for body in wrong:
            with self.subTest(body=body), self.assertRaises(routes.BadRequest):
                routes.check(takes, body)

    def test_the_contract_has_every_route(self):
        paths = routes.contract()["paths"]
        listed = {(method.upper(), path) for path, operations in paths.items() for method in operations}
        self.assertEqual(listed, {(route.method, route.path) for route in routes.ROUTES})
