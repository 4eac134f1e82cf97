"""Runs the attacks of memory_attacks.sh. Usage: memory_attacks.py seconds pause [attack ...]"""

import json
import os
import pathlib
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

import json_rpc_node

LIMIT = 512 * 1024 * 1024
ADDRESSES = [f"127.0.0.{number}" for number in range(10, 30)]
CONNECTIONS_PER_ADDRESS = 1024
CHAINS = 100
LONG_HISTORY = 65536
PROGRAM = os.environ.get("PROGRAM", "target/release/gas-suggestion")

HEAD = "Host: a\r\n"
HISTORY = "GET /v1/t/fee-history?blocks={blocks} HTTP/1.1\r\n" + HEAD
DOCUMENT = "GET /openapi.json HTTP/1.1\r\n" + HEAD
GZIP, BROTLI = "Accept-Encoding: gzip\r\n", "Accept-Encoding: br\r\n"
# What each connection sends, without reading a response.
ATTACKS = {
    "idle": "",
    "headers": "GET / HTTP/1.1\r\n" + HEAD + "X-A: " + 15900 * "a",
    "rpc-bodies": "POST /rpc/t HTTP/1.1\r\n" + HEAD + "Content-Length: 262144\r\n\r\n" + 260000 * " ",
    "history": HISTORY + "\r\n",
    "history-gzip": HISTORY + GZIP + "\r\n",
    "history-br": HISTORY + BROTLI + "\r\n",
    "openapi": DOCUMENT + "\r\n",
    "openapi-gzip": DOCUMENT + GZIP + "\r\n",
    "openapi-br": DOCUMENT + BROTLI + "\r\n",
    "pipelined": 64 * ("GET /v1/t/fee-market HTTP/1.1\r\n" + HEAD + "\r\n"),
    "streams": "GET /v1/gas-suggestions/stream HTTP/1.1\r\n" + HEAD + "\r\n",
}
ALL = [*ATTACKS, "all", "long-history"]


def request(kind):
    text = ATTACKS["history" if kind == "long-history" else kind]
    low, high = (LONG_HISTORY - 2000, LONG_HISTORY) if kind.startswith("long") else (824, 1024)
    return text.replace("{blocks}", str(random.randint(low, high))).encode()


def run_node(blocks_per_second):
    """Serves chain N at /N. Chain 1 may make hundreds of blocks per second, so that its history fills."""

    def answer(chain, call):
        if call["method"] == "eth_chainId":
            return hex(int(chain))
        count = int(call["params"][0], 16)
        head = 10_000_000 + int(time.time() * (float(blocks_per_second) if chain == "1" else 0.5))
        fees = [hex(20_000_000_000 + number * 7919 % 10_000_000_000) for number in range(head - count, head + 1)]
        ratios = [number * 31 % 100 / 100 for number in range(head - count, head)]
        rewards = [fees[index : index + 1] for index in range(count)]
        return {"oldestBlock": hex(head - count + 1), "baseFeePerGas": fees, "gasUsedRatio": ratios, "reward": rewards}

    server = json_rpc_node.node(answer)
    print(server.server_port, flush=True)
    server.serve_forever()


def run_attack(port, seconds, addresses, kinds):
    """Keeps as many connections open from each address as it may have. Prints the number of opened and closed ones."""
    poll = select.epoll()
    gone = select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP
    connections = {}
    per_address = dict.fromkeys(addresses, 0)
    opened = closed = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # A pace that leaves processor time to the service.
        for address in addresses:
            for _ in range(min(20, CONNECTIONS_PER_ADDRESS - per_address[address])):
                client = socket.socket()
                client.setblocking(False)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
                client.bind((address, 0))
                client.connect_ex(("127.0.0.1", port))
                data = request(random.choice(kinds))
                connections[client.fileno()] = [client, address, data]
                poll.register(client, gone | (select.EPOLLOUT if data else 0))
                per_address[address] += 1
                opened += 1
        for number, event in poll.poll(0.1, 4096):
            client, address, data = connections[number]
            if not event & gone:
                try:
                    sent = client.send(data)
                except OSError:
                    continue
                connections[number][2] = data[sent:]
                if sent == len(data):
                    poll.modify(client, gone)
                continue
            poll.unregister(client)
            client.close()
            del connections[number]
            per_address[address] -= 1
            closed += 1
        time.sleep(0.02)
    print(json.dumps({"opened": opened, "closed": closed}), flush=True)


def run_good_client(port, seconds):
    """Asks for a suggestion every 20 ms, on a new and on the same connection in turn. Prints times and failures."""

    def connect():
        client = socket.socket()
        client.settimeout(5)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.bind(("127.0.1.1", 0))
        client.connect(("127.0.0.1", port))
        return client

    kept, times, failures = None, [], {}
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        number += 1
        start = time.monotonic()
        is_kept = number % 2 == 0
        client = None
        try:
            if is_kept:
                kept = kept or connect()
            client = kept if is_kept else connect()
            client.sendall(b"GET /v1/t/gas-suggestion HTTP/1.1\r\nHost: a\r\n\r\n")
            response = client.recv(65536)
            if not response.startswith(b"HTTP/1.1 200 "):
                raise OSError(response[9:12].decode() or "closed")
            times.append((time.monotonic() - start) * 1000)
            if not is_kept:
                client.close()
        except OSError as error:
            reason = ("kept: " if is_kept else "new: ") + str(error)
            failures[reason] = failures.get(reason, 0) + 1
            if client:
                client.close()
            if is_kept:
                kept = None
        time.sleep(max(0.0, start + 0.02 - time.monotonic()))
    print(json.dumps({"times": times, "failures": failures}), flush=True)


class Cgroup:
    """A memory cgroup of either version."""

    def __init__(self):
        version_1 = pathlib.Path("/sys/fs/cgroup/memory")
        controllers = pathlib.Path("/sys/fs/cgroup/cgroup.controllers")
        name = f"memory-attacks-{os.getpid()}"
        if (version_1 / "memory.limit_in_bytes").exists():
            self.path, limit = version_1 / name, "memory.limit_in_bytes"
            self.usage_file = "memory.usage_in_bytes"
        elif controllers.exists() and "memory" in controllers.read_text().split():
            self.path, limit = controllers.parent / name, "memory.max"
            self.usage_file = "memory.current"
        else:
            sys.exit("there is no memory controller below /sys/fs/cgroup")
        try:
            self.path.mkdir()
            (self.path / limit).write_text(str(LIMIT))
        except OSError as error:
            sys.exit(f"cannot make a memory cgroup, which needs root: {error}")

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def usage(self):
        return int((self.path / self.usage_file).read_text())

    def oom_kills(self):
        for name in ("memory.oom_control", "memory.events"):
            file = self.path / name
            lines = file.read_text().splitlines() if file.exists() else []
            for line in lines:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def remove(self):
        self.path.rmdir()


class Service:
    """The service with `CHAINS` chains in a cgroup, and its node."""

    def __init__(self, history_blocks):
        is_long = history_blocks > 1024
        rate = 400 if is_long else 0.5
        self.node = subprocess.Popen([sys.executable, __file__, "node", str(rate)], stdout=subprocess.PIPE, text=True)
        node = f"http://127.0.0.1:{self.node.stdout.readline().strip()}"
        chains = [
            f'[chains.t]\nchain_id = 1\njson_rpc = true\nrpc_urls = ["{node}/1"]\nhistory_blocks = {history_blocks}\n'
            f'block_time = "{"100ms" if is_long else "2s"}"\n'
            f'[chains.t.pricing]\nwindow_blocks = 1024\n'
        ]
        for number in range(2, 2 if is_long else CHAINS + 1):
            chains.append(
                f'[chains.c{number}]\nchain_id = {number}\njson_rpc = true\nrpc_urls = ["{node}/{number}"]\nblock_time = "60s"\n'
                f'max_age = "1h"\npoll_timeout = "5s"\n'
            )
        self.cgroup = Cgroup()
        self.log = tempfile.TemporaryFile("w+")
        config = tempfile.NamedTemporaryFile("w", suffix=".toml")
        config.write(
            '[server]\nlisten = "127.0.0.1:0"\nadmin_listen = "127.0.0.1:0"\n'
            # Fewer files are set aside for nodes, of which there are many here.
            '[rpc]\nmax_in_flight = 16\n'
            '[log]\nformat = "json"\nfilter = "info,gas_suggestion::requests=warn"\n' + "".join(chains)
        )
        config.flush()
        self.process = subprocess.Popen(
            [PROGRAM, "--config", config.name], stderr=self.log, preexec_fn=self.cgroup.enter
        )
        deadline = time.monotonic() + 30
        while True:
            self.log.seek(0)
            lines = [json.loads(line) for line in self.log if line.startswith("{")]
            found = [line for line in lines if "listening" in json.dumps(line)]
            if found:
                fields = found[0].get("fields", found[0])
                self.port = int(fields["address"].rsplit(":", 1)[1])
                break
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.log.seek(0)
                sys.exit("the service did not start: " + self.log.read())
            time.sleep(0.05)
        for line in lines:
            text = json.dumps(line)
            if "limits derived" in text or "lowered" in text:
                print(text)
        time.sleep(3)

    def resident(self):
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        found = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS")]
        return found[0] if found else 0

    def open_files(self):
        try:
            return len(os.listdir(f"/proc/{self.process.pid}/fd"))
        except OSError:
            return 0

    def is_alive(self):
        return self.process.poll() is None

    def stop(self):
        for process in (self.process, self.node):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        time.sleep(0.2)
        self.cgroup.remove()


def sample(service, seconds, found):
    """Looks at the service until the time is over."""
    end = time.monotonic() + seconds
    looks = 0
    while time.monotonic() < end and service.is_alive():
        resident = service.resident()
        found["peak"] = max(found.get("peak", 0), resident)
        found["usage"] = max(found.get("usage", 0), service.cgroup.usage())
        if looks % 10 == 0:
            files = service.open_files()
            if files > found.get("files", 0):
                found["files"], found["resident_then"] = files, resident
        looks += 1
        time.sleep(0.05)


def mib(count):
    return f"{count / 1048576:.0f}"


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def attack(service, kind, seconds, pause):
    """Runs one attack and prints its row. Returns true if everything is as it must be."""
    kinds = list(ATTACKS) if kind == "all" else [kind]
    before, files_before = service.resident(), service.open_files()
    good = subprocess.Popen(
        [sys.executable, __file__, "good", str(service.port), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    # A process may not open as many files as all addresses together.
    halves = [ADDRESSES[::2], ADDRESSES[1::2]]
    attackers = [
        subprocess.Popen(
            [sys.executable, __file__, "attack", str(service.port), str(seconds), ",".join(half), ",".join(kinds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for half in halves
    ]
    found = {}
    sample(service, seconds, found)
    outcomes = [json.loads(process.communicate()[0] or "{}") for process in attackers]
    client = json.loads(good.communicate()[0])
    ended = time.monotonic()
    while service.is_alive() and service.resident() >= before * 1.3 and time.monotonic() < ended + pause:
        time.sleep(0.1)
    back, after = time.monotonic() - ended, service.resident()
    files = max(1, found.get("files", 0) - files_before)
    per_connection = (found.get("resident_then", 0) - before) / files / 1024
    p99 = percentile(client["times"], 0.99)
    print(
        f"| {kind} | {sum(o.get('opened', 0) for o in outcomes)} | {files} | {per_connection:.1f} | {mib(before)} "
        f"| {mib(found['peak'])} | {mib(found['usage'])} | {mib(after)} after {back:.0f} s | {service.cgroup.oom_kills()} "
        f"| {percentile(client['times'], 0.5):.1f} | {p99:.1f} | {len(client['times'])} "
        f"| {sum(client['failures'].values())} {client['failures'] or ''} |",
        flush=True,
    )
    return service.is_alive() and p99 < 100 and after < before * 1.3


def main(seconds, pause, wanted):
    unknown = set(wanted) - set(ALL)
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(ALL)}")
    print(f"{seconds:g} s per attack, up to {pause:g} s until memory is back; {len(ADDRESSES)} addresses, {LIMIT >> 20} MiB")
    is_good, service = True, None
    try:
        for kind in wanted or ALL:
            is_long = kind.startswith("long")
            if service is None or service.is_long != is_long or not service.is_alive():
                if service:
                    service.stop()
                service = Service(LONG_HISTORY if is_long else 1024)
                service.is_long = is_long
                if is_long:
                    # Until the history is full.
                    time.sleep(LONG_HISTORY / 400 + 10)
                print(
                    "| attack | connections tried | open at most | KiB each | MiB before | peak RSS | peak cgroup "
                    "| back to | OOM kills | p50 ms | p99 ms | served | failed |"
                )
                print("|" + 13 * "---|")
            is_good &= attack(service, kind, seconds, pause)
    finally:
        if service:
            service.stop()
    print("passed" if is_good else "failed: a dead process, a p99 of 100 ms or more, or memory that does not come back")
    sys.exit(not is_good)


match sys.argv[1:]:
    case ["node", rate]:
        run_node(rate)
    case ["attack", port, seconds, addresses, kinds]:
        run_attack(int(port), float(seconds), addresses.split(","), kinds.split(","))
    case ["good", port, seconds]:
        run_good_client(int(port), float(seconds))
    case [seconds, pause, *wanted]:
        main(float(seconds), float(pause), wanted)
