"""The routes of the API, each with the shape of what it takes and gives. The contract is written
from this table, so that it cannot say anything else than the code does."""

import re

SHOW = {"id": "integer", "title": "string", "starts": "string", "seats": "integer", "free": "integer"}
BOOKING = {"id": "integer", "show": "integer", "seat": "integer", "name": "string"}
KINDS = {"integer": int, "string": str, "boolean": bool, "array": list}

ROUTES = []


class BadRequest(Exception):
    """The body is not what the route takes."""


class Route:
    """A method and a path with `{names}`, and the function that answers."""

    def __init__(self, method, path, status, takes, gives, answer):
        self.method, self.path, self.status = method, path, status
        self.takes, self.gives, self.answer = takes, gives, answer
        self.pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>\\d+)", path) + r"\Z")


def route(method, path, gives, takes=None, status=200):
    """Enters a function in the table."""

    def enter(answer):
        ROUTES.append(Route(method, path, status, takes or {}, gives, answer))
        return answer

    return enter


@route("GET", "/api/health", gives={"status": "string"})
def health(store, body):
    """Says that the service and its database answer."""
    store.shows()
    return {"status": "ok"}


@route("GET", "/api/shows", gives={"shows": "array"})
def shows(store, body):
    """All shows with the number of free seats."""
    return {"shows": store.shows()}


@route("GET", "/api/shows/{show}", gives={**SHOW, "taken": "array"})
def show(store, body, show):
    """One show and its taken seats."""
    return store.show(show)


@route("POST", "/api/shows/{show}/bookings", takes={"seat": "integer", "name": "string"}, gives=BOOKING, status=201)
def book(store, body, show):
    """Books a seat."""
    return store.book(show, body["seat"], body["name"].strip())


@route("DELETE", "/api/bookings/{booking}", gives={"id": "integer", "cancelled": "boolean"})
def cancel(store, body, booking):
    """Gives a seat back."""
    return store.cancel(booking)


def find(method, path):
    """The route for a request and the numbers in its path; or the methods that the path has."""
    allowed = []
    for candidate in ROUTES:
        match = candidate.pattern.match(path)
        if match and candidate.method == method:
            return candidate, {name: int(value) for name, value in match.groupdict().items()}, []
        if match:
            allowed.append(candidate.method)
    return None, {}, allowed


def check(takes, body):
    """Holds a body against the shape that a route takes."""
    if not isinstance(body, dict):
        raise BadRequest("the body has to be an object")
    for name, kind in takes.items():
        value = body.get(name)
        if not isinstance(value, KINDS[kind]) or isinstance(value, bool) != (kind == "boolean"):
            raise BadRequest(f"`{name}` has to be of type {kind}")
        if kind == "string" and not value.strip():
            raise BadRequest(f"`{name}` may not be empty")
    for name in body:
        if name not in takes:
            raise BadRequest(f"`{name}` is not known here")


def contract():
    """The table as a document in the manner of OpenAPI."""

    def shape(fields):
        properties = {name: {"type": kind} for name, kind in fields.items()}
        return {"type": "object", "required": list(fields), "properties": properties}

    paths = {}
    for entry in ROUTES:
        operation = {"summary": entry.answer.__doc__, "operationId": entry.answer.__name__}
        if entry.takes:
            operation["requestBody"] = {"content": {"application/json": {"schema": shape(entry.takes)}}}
        answer = {"application/json": {"schema": shape(entry.gives)}}
        operation["responses"] = {str(entry.status): {"content": answer}}
        paths.setdefault(entry.path, {})[entry.method.lower()] = operation
    return {"openapi": "3.1.0", "info": {"title": "Box office", "version": "1"}, "paths": paths}
