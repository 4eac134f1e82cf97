"""A JSON-RPC node of the benches: an HTTP server on a free loopback port."""

import http.server
import json
import socket


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Refused(Exception):
    """Makes the node respond with an HTTP status and headers, without a body."""

    def __init__(self, status, headers):
        super().__init__(status)
        self.status, self.headers = status, headers


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_):
        """Ignores clients that have disconnected."""


def node(answer):
    """Returns a server that does not serve yet. `answer` gets the path without slashes and the call, and returns the
    result. It may raise `Refused`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def do_POST(self):
            call = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, headers, body = 200, {}, b""
            try:
                result = answer(self.path.strip("/"), call)
                body = json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode()
            except Refused as refused:
                status, headers = refused.status, refused.headers
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Server(("127.0.0.1", 0), Handler)
