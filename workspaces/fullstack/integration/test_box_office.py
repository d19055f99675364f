"""The running service, from outside: its API against the contract, its pages, and two at one seat."""

import concurrent.futures
import json
import os
import pathlib
import re
import unittest
import urllib.error
import urllib.request

BASE = os.environ["BASE_URL"]
CONTRACT = json.loads(pathlib.Path(os.environ["CONTRACT"]).read_text(encoding="utf-8"))
KINDS = {"integer": int, "string": str, "boolean": bool, "array": list}
# The service is on this machine: no proxy has a say.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(method, path, body=None):
    """The status, the kind of content and the content of an answer."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(BASE + path, data=data, method=method)
    try:
        with OPENER.open(asked, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def api(method, path, body=None):
    status, kind, content = request(method, path, body)
    assert kind == "application/json", f"{method} {path} answered with {kind}"
    return status, json.loads(content)


def shape(path, method, status):
    content = CONTRACT["paths"][path][method]["responses"][str(status)]["content"]
    return content["application/json"]["schema"]


class ApiTest(unittest.TestCase):
    def fits(self, document, schema):
        self.assertEqual(sorted(document), sorted(schema["required"]))
        for name, field in schema["properties"].items():
            self.assertIsInstance(document[name], KINDS[field["type"]], name)

    def test_it_is_in_good_health(self):
        self.assertEqual(api("GET", "/api/health"), (200, {"status": "ok"}))

    def test_every_documented_get_answers_as_the_contract_says(self):
        asked = 0
        for path, operations in CONTRACT["paths"].items():
            if "get" in operations:
                with self.subTest(path=path):
                    status, document = api("GET", re.sub(r"\{\w+\}", "1", path))
                    self.assertEqual(status, 200)
                    self.fits(document, shape(path, "get", 200))
                    asked += 1
        self.assertGreaterEqual(asked, 3)

    def test_a_booking_from_beginning_to_end(self):
        _, before = api("GET", "/api/shows/1")
        status, booking = api("POST", "/api/shows/1/bookings", {"seat": 12, "name": "Prospero"})
        self.assertEqual(status, 201)
        self.fits(booking, shape("/api/shows/{show}/bookings", "post", 201))
        self.assertIn(12, api("GET", "/api/shows/1")[1]["taken"])
        self.assertEqual(api("POST", "/api/shows/1/bookings", {"seat": 12, "name": "Ariel"})[0], 409)
        self.assertEqual(api("DELETE", f"/api/bookings/{booking['id']}")[0], 200)
        self.assertEqual(api("DELETE", f"/api/bookings/{booking['id']}")[0], 404)
        self.assertEqual(api("GET", "/api/shows/1")[1], before)

    def test_of_many_who_want_the_last_seat_one_gets_it(self):
        def ask(n):
            return api("POST", "/api/shows/3/bookings", {"seat": 1, "name": f"caller {n}"})

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, range(16)))
        winners = [answer for status, answer in answers if status == 201]
        self.assertEqual([status for status, _ in answers].count(409), 15)
        self.assertEqual(len(winners), 1)
        api("DELETE", f"/api/bookings/{winners[0]['id']}")

    def test_what_is_wrong_is_refused(self):
        table = [
            ("POST", "/api/shows/1/bookings", {"seat": "1", "name": "Ariel"}, 400),
            ("POST", "/api/shows/1/bookings", {"seat": 1, "name": ""}, 400),
            ("POST", "/api/shows/1/bookings", {"seat": 99, "name": "Ariel"}, 404),
            ("GET", "/api/shows/99", None, 404),
            ("GET", "/api/nothing", None, 404),
            ("DELETE", "/api/shows", None, 405),
        ]
        for method, path, body, wanted in table:
            with self.subTest(method=method, path=path, body=body):
                status, answer = api(method, path, body)
                self.assertEqual(status, wanted)
                self.assertIn("error", answer)


class PagesTest(unittest.TestCase):
    def test_every_page_and_what_it_links_to_is_served(self):
        seen, wanted = {}, ["/"]
        while wanted:
            path = wanted.pop()
            if path not in seen:
                status, kind, content = request("GET", path)
                self.assertEqual(status, 200, path)
                seen[path] = kind
                if kind.startswith("text/html"):
                    wanted += re.findall(r'(?:href|src)="(/[^"]*)"', content.decode())
        kinds = sorted({kind.split(";")[0].split("/")[1] for kind in seen.values()})
        self.assertGreaterEqual(len(seen), 5)
        self.assertIn("html", kinds)
        self.assertIn("css", kinds)

    def test_nothing_outside_the_site_is_served(self):
        for path in ("/../office.db", "/%2e%2e/office.db", "/assets/", "/nothing.html"):
            with self.subTest(path=path):
                self.assertEqual(request("GET", path)[0], 404)


if __name__ == "__main__":
    unittest.main()
