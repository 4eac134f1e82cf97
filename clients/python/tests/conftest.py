"""Anvil, and a stand-in for the service that can send anything."""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).parents[3]
ANVIL = os.environ.get("ANVIL", ROOT / "tests/node/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil")
GWEI = 10**9


class Service:
    """Answers each request with `reply`, which is bytes or an iterable of bytes. `sent` counts them."""

    def __init__(self):
        self.paths = []
        self.sent = 0
        self.reply = suggestion()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._listener.accept()[:1], daemon=True).start()

    def _serve(self, connection):
        # A client that has enough closes the connection.
        with connection, contextlib.suppress(OSError):
            path = connection.makefile().readline().split()[1]
            self.paths.append(path)
            reply = self.reply(path) if callable(self.reply) else self.reply
            for part in [reply] if isinstance(reply, bytes) else reply:
                connection.sendall(part)
                self.sent += len(part)

    def stop(self):
        # Without the shutdown, a thread that accepts keeps the socket.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def response(body, headers="", status="200 OK"):
    body = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"
    return head.encode() + body


def suggestion(headers="Age: 1\r\n", type="eip-1559", **more):
    tier = lambda max_fee, tip: {"max_priority_fee_per_gas": str(tip * GWEI), "max_fee_per_gas": str(max_fee * GWEI)}
    tiers = {"medium": tier(22, 20), "high": tier(26, 24)} if type == "eip-1559" else {"medium": tier(9, 9), "high": tier(10, 10)}
    return response({"chain_name": "ronin", "type": type, "base_fee_per_gas": "0", **tiers, **more}, headers)


@pytest.fixture
def service():
    service = Service()
    yield service
    service.stop()


@pytest.fixture(scope="session")
def node():
    """URL of a node of chain 2020 whose base fee is 3 gwei."""
    command = [ANVIL, "--chain-id", "2020", "--port", "0", "--base-fee", str(3 * GWEI)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = next(filter(None, (re.match(r"Listening on .*:(\d+)", line) for line in process.stdout)))[1]
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
