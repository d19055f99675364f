"""The service: the API from the table of routes, everything else from the folder of built pages."""

import argparse
import errno
import http.server
import json
import pathlib
import signal
import sys
import threading
import urllib.parse

from . import routes, store

BODY_BYTES_MAX = 64 * 1024
# EX_TEMPFAIL of sysexits.h: the machine is not free for it, nothing is wrong with the code.
TEMPORARY_FAILURE = 75
STATUS = {store.NotFound: 404, store.SeatTaken: 409, routes.BadRequest: 400}


class Handler(http.server.SimpleHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments, office, site, **rest):
        self.office = office
        super().__init__(*arguments, directory=str(site), **rest)

    def do_GET(self):
        if self.path.startswith("/api/"):
            return self.answer()
        return super().do_GET()

    def do_POST(self):
        self.answer()

    def do_DELETE(self):
        self.answer()

    def list_directory(self, path):
        """A folder without an index is nobody's business."""
        self.send_error(404)

    def answer(self):
        """Finds the route, holds the body against its shape, and answers in JSON."""
        try:
            body = self.body()
            path = urllib.parse.urlsplit(self.path).path
            route, numbers, allowed = routes.find(self.command, path)
            if route is None and allowed:
                return self.reply(405, {"error": f"only {', '.join(allowed)} here"})
            if route is None:
                return self.reply(404, {"error": f"no route {path}"})
            routes.check(route.takes, body)
            self.reply(route.status, route.answer(self.office, body, **numbers))
        except tuple(STATUS) as error:
            self.reply(STATUS[type(error)], {"error": str(error)})

    def body(self):
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_BYTES_MAX:
            self.close_connection = True
            raise routes.BadRequest("the body is too long")
        try:
            return json.loads(self.rfile.read(length) or b"{}")
        except ValueError as error:
            raise routes.BadRequest("the body is not JSON") from error

    def reply(self, status, document):
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(http.server.ThreadingHTTPServer):
    """Threads end with the process, and many may knock at once."""

    daemon_threads = True
    request_queue_size = 128


def serve(port, database, site):
    """A server that is bound and listens; `serve_forever` is the caller's."""
    office = store.Store(database)

    def handler(*arguments, **rest):
        return Handler(*arguments, office=office, site=site, **rest)

    return Server(("127.0.0.1", port), handler)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="box_office", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--database", type=pathlib.Path, required=True)
    parser.add_argument("--site", type=pathlib.Path, required=True)
    options = parser.parse_args(arguments)
    for path in (options.database, options.site):
        if not path.exists():
            parser.error(f"{path} is not there")
    try:
        server = serve(options.port, options.database, options.site)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        print(f"error: port {options.port} is taken by another program", file=sys.stderr)
        return TEMPORARY_FAILURE

    def stop(signum, frame):
        # `shutdown` waits for the loop that this very signal interrupted, so it needs a thread.
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"listening on http://127.0.0.1:{options.port}/", flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    print("closed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
