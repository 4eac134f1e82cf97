"""The time until subscribers of one chain have a new value, and the memory that they take.

A node in this process has a new block for each poll. The kernel notes when an event reaches a subscriber's socket, and the
subscribers read between two blocks, so that they take no time from the service. The time starts before the node's reply.
Two processes that send as many bytes to as many sockets, and do nothing else, show what the system takes for that.
Fails if one of a hundred events takes longer than 30 ms, and than three times as long as theirs, or a subscriber 20 KB, or
if one misses a value.
Usage: benches/streams.sh [subscribers] [values]
"""

import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import json_rpc_node

SERVICE, SUBSCRIBERS, VALUES = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
MAX_MS, MAX_OVER_BARE, MAX_BYTES = 30, 3, 20_000
EVENT_BYTES, ROUNDS = 650, 10
# Python has no name for it. A timestamp is two numbers of 64 bits: seconds and nanoseconds.
SO_TIMESTAMPNS = 35
# A client has 1,024 connections and a burst of 1,000 requests.
STREAMS_PER_ADDRESS = 900
FIRST_BLOCK, BLOCKS = 1000, 20

sent_at = [0]
is_running, has_sent = threading.Event(), threading.Event()


def answer(_, call):
    method, params = call["method"], call["params"]
    if method == "eth_chainId":
        return "0x7e4"
    if method != "eth_feeHistory":
        return None
    # Readings of rewards ask for more blocks. They are no polls.
    if is_running.is_set() and int(params[0], 16) == BLOCKS and len(params[2]) == 1:
        sent_at.append(time.time_ns())
        has_sent.set()
    newest = FIRST_BLOCK + len(sent_at) - 1
    return {
        "oldestBlock": hex(newest - BLOCKS + 1),
        "baseFeePerGas": [hex(2 * 10**9 + newest)] * (BLOCKS + 1),
        "gasUsedRatio": [0.5] * BLOCKS,
        "reward": [[hex(30 * 10**9)] * len(params[2])] * BLOCKS,
    }


def start(folder, node):
    """Starts the service; returns the process and its address."""
    config = os.path.join(folder, "config.toml")
    with open(config, "w") as file:
        file.write(
            '[server]\nlisten = "127.0.0.1:0"\nadmin_listen = "127.0.0.1:0"\n[history]\nrefill = false\n[log]\nformat = "json"\n'
            f'[chains.ronin]\nchain_id = 2020\nblock_time = "1s"\nrpc_urls = ["http://127.0.0.1:{node.server_port}"]\n'
        )
    process = subprocess.Popen([SERVICE, "--config", config], stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        address = re.search(r'"address":"127.0.0.1:(\d+)"', line)
        if address:
            break
    # What is logged later has to go somewhere.
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return process, ("127.0.0.1", int(address[1]))


def connect(address, number):
    stream = socket.socket()
    stream.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    stream.bind((f"127.0.0.{2 + number // STREAMS_PER_ADDRESS}", 0))
    stream.connect(address)
    return stream


def subscribe(address, number):
    stream = connect(address, number)
    stream.sendall(b"GET /v1/ronin/gas-suggestion/stream HTTP/1.1\r\nHost: a\r\n\r\n")
    return stream


def receive(stream):
    """Returns the block of the last event that the subscriber has, and when it arrived, in nanoseconds since 1970."""
    text, control, _, _ = stream.recvmsg(65536, 64)
    assert text, "the service has ended a stream"
    seconds, nanoseconds = struct.unpack("qq", control[0][2])
    blocks = re.findall(rb"\nid: (\d+)-", text)
    return int(blocks[-1]) if blocks else None, seconds * 10**9 + nanoseconds


def send_bare(listener, turns):
    """Sends an event to half of the subscribers for each byte of `turns`."""
    streams = [listener.accept()[0] for _ in range(SUBSCRIBERS // 2)]
    while os.read(turns, 1):
        for stream in streams:
            stream.send(b"-" * EVENT_BYTES)
    os._exit(0)


def measure_bare():
    """Returns the milliseconds of each event that two processes send."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=SUBSCRIBERS)
    turns = [os.pipe() for _ in range(2)]
    for reader, _ in turns:
        if os.fork() == 0:
            for _, writer in turns:
                os.close(writer)
            send_bare(listener, reader)
    streams = [connect(listener.getsockname(), number) for number in range(SUBSCRIBERS // 2 * 2)]
    times = []
    for _ in range(ROUNDS):
        time.sleep(0.4)
        began = time.time_ns()
        for _, writer in turns:
            os.write(writer, b"-")
        time.sleep(0.4)
        times += [(receive(stream)[1] - began) / 1e6 for stream in streams]
    for reader, writer in turns:
        os.close(reader)
        os.close(writer)
        os.wait()
    for stream in streams:
        stream.close()
    return sorted(times)


def resident(process):
    with open(f"/proc/{process.pid}/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def measure(process, address):
    """Returns the milliseconds of each event, the bytes of a subscriber, and how many events were missed."""
    # The first subscriber makes allocations that are made once.
    streams = [subscribe(address, 0)]
    receive(streams[0])
    before = resident(process)
    streams += [subscribe(address, number) for number in range(1, SUBSCRIBERS)]
    for stream in streams[1:]:
        while receive(stream)[0] is None:
            pass
    times, missed = [], 0
    is_running.set()
    for value in range(1, VALUES + 1):
        assert has_sent.wait(10), "the service does not poll"
        has_sent.clear()
        time.sleep(0.4)
        for stream in streams:
            stream.setblocking(False)
            try:
                block, arrived_at = receive(stream)
            except BlockingIOError:
                block = None
            # A poll that the service repeats has a further block.
            if block is not None and block >= FIRST_BLOCK + value:
                times.append((arrived_at - sent_at[block - FIRST_BLOCK]) / 1e6)
            else:
                missed += 1
    return sorted(times), (resident(process) - before) // SUBSCRIBERS, missed


def print_row(name, times):
    """Prints a row of the table; returns the 99th percentile."""
    median, late = (times[len(times) * percent // 100] for percent in (50, 99))
    print(f"| {name} | {median:.1f} ms | {late:.1f} ms | {times[-1]:.1f} ms |")
    return late


bare = measure_bare()
node = json_rpc_node.node(answer)
threading.Thread(target=node.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory() as folder:
    process, address = start(folder, node)
    try:
        times, bytes_each, missed = measure(process, address)
    finally:
        process.terminate()
        process.wait()
assert times, "no subscriber has a value"
print(f"| {SUBSCRIBERS} subscribers | Median | 99 % | Maximum |\n|---|---|---|---|")
late, bare_late = print_row(f"the service, {VALUES} values", times), print_row("two processes that only send", bare)
print(f"\n{late / bare_late:.2f} times as long. {missed} events were missed. A subscriber takes {bytes_each} bytes.")
is_quick = late <= max(MAX_MS, MAX_OVER_BARE * bare_late)
sys.exit(0 if is_quick and bytes_each <= MAX_BYTES and not missed else "A limit is exceeded.")
