"""Starts the demo by a command, as a person would, and ends it. Usage: start.py NAME SECONDS COMMAND...

The command gets `demo` and its ports as further arguments. It runs on a terminal of its own. Prints how long it takes until
the first suggestion is served, which may be SECONDS, and until Ctrl-C has ended it. The command has to drain and end with
status 0, and no process of it may be left. It does the same with SIGTERM to the command alone, without the limit of time.

npx ends by the signal, as shells do, and does not always wait for the program. For the name npx that is right too.
"""

import json
import os
import pty
import select
import signal
import socket
import sys
import time
import urllib.request

NAME, SECONDS, COMMAND = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
START_TIMEOUT, STOP_TIMEOUT = 60, 20


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def is_listening(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class Demo:
    def __init__(self):
        self.port = free_port()
        arguments = ["demo", "--listen", f"127.0.0.1:{self.port}", "--admin-listen", f"127.0.0.1:{free_port()}"]
        self.output = b""
        self.started = time.monotonic()
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execvp(COMMAND[0], COMMAND + arguments)
        self.status = None

    def look(self, seconds):
        """Reads what the command prints, for at most this long, and whether it has ended."""
        if select.select([self.terminal], [], [], seconds)[0]:
            try:
                self.output += os.read(self.terminal, 65536)
            except OSError:  # The terminal has no process any more.
                time.sleep(seconds)
        if self.status is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if process else None

    def fail(self, reason):
        if self.status is None:
            os.killpg(self.process, signal.SIGKILL)
        sys.exit(f"{NAME}: {reason}\n{' '.join(COMMAND)}\n{self.output.decode(errors='replace')}")

    def wait_for_suggestion(self):
        url = f"http://127.0.0.1:{self.port}/v1/ethereum/gas-suggestion"
        while time.monotonic() < self.started + START_TIMEOUT:
            self.look(0.02)
            if self.status is not None:
                self.fail(f"ended with status {self.status}")
            try:
                with urllib.request.urlopen(url, timeout=5) as response:
                    suggestion = json.load(response)
                assert int(suggestion["medium"]["max_fee_per_gas"]) > 0, suggestion
                return time.monotonic() - self.started
            except OSError:
                continue
        self.fail("no suggestion")

    def wait_for_end(self, number):
        start = time.monotonic()
        while time.monotonic() < start + STOP_TIMEOUT:
            self.look(0.02)
            # A program that outlives its starter still has its port.
            if self.status is not None and (NAME != "npx" or not is_listening(self.port)):
                if self.status != 0 and (NAME != "npx" or self.status != -number):
                    self.fail(f"ended with status {self.status} instead of 0")
                if is_listening(self.port):
                    self.fail("the program still runs")
                if b"stopped" not in self.output and b"shut" not in self.output:
                    self.fail("the program does not say that it shuts down")
                return time.monotonic() - start
        self.fail("did not end")


def main():
    demo = Demo()
    first = demo.wait_for_suggestion()
    if first > SECONDS:
        demo.fail(f"the first suggestion took {first:.1f} s")
    os.write(demo.terminal, b"\x03")
    ended = demo.wait_for_end(signal.SIGINT)
    again = Demo()
    warm = again.wait_for_suggestion()
    os.kill(again.process, signal.SIGTERM)
    terminated = again.wait_for_end(signal.SIGTERM)
    print(f"{NAME:12}  first suggestion {first:.2f} s (again {warm:.2f} s), Ctrl-C {ended:.2f} s, SIGTERM {terminated:.2f} s")


main()
