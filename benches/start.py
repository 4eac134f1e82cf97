"""Startup time of the service (listening, first suggestion) and the cost of 200 chains.

A node that takes 100 ms for every response stands for a distant one. Processor time and memory are measured with 200
chains of 2 s blocks, each from a local node with recorded blocks, with every suggestion graded. Fails if the service
does not listen within 50 ms, has no suggestion within 15 ms from a node that answers at once, or within a round trip plus
20 ms, or takes 64 MB or 5 % of a core for 200 chains.
Usage: benches/start.sh [starts] [seconds of 200 chains] [seconds per block]

With a block every 0.5 s and 560 s, the 1,024 blocks that a chain remembers and the 1,000 grades of its score are full,
and its trend has 1,000 blocks. Then the limit is 80 MB, and the processor time has none.
"""

import http.client
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import json_rpc_node

SERVICE, RECORDED_NODE = sys.argv[1], sys.argv[2]
STARTS, SECONDS = int(sys.argv[3]), int(sys.argv[4])
BLOCK_TIME = float(sys.argv[5])
ROUND_TRIP = 0.1


def start(folder, chains):
    port, admin = json_rpc_node.free_port(), json_rpc_node.free_port()
    config = os.path.join(folder, "config.toml")
    with open(config, "w") as file:
        file.write(f'[server]\nlisten = "127.0.0.1:{port}"\nadmin_listen = "127.0.0.1:{admin}"\n{chains}')
    began = time.monotonic()
    return subprocess.Popen([SERVICE, "--config", config], stderr=subprocess.DEVNULL), port, began


def end(process):
    process.terminate()
    process.wait()


def measure_start(folder, chains):
    """Returns the seconds until it listens, and until it has a suggestion."""
    process, port, began = start(folder, chains)
    try:
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                assert time.monotonic() < began + 10, "the service does not listen"
        listens = time.monotonic() - began
        connection.close()
        client = http.client.HTTPConnection("127.0.0.1", port)
        while True:
            client.request("GET", "/v1/far/gas-suggestion")
            response = client.getresponse()
            response.read()
            if response.status == 200:
                return listens, time.monotonic() - began
            assert time.monotonic() < began + 10, "the service has no suggestion"
            time.sleep(0.001)
    finally:
        end(process)


def measure_many_chains(folder):
    """Returns the resident bytes and the share of a core with 200 chains."""
    # Ids without a preset.
    chains = "[history]\nrefill = false\n" + "".join(
        f'[chains.c{number}]\nchain_id = {70_000 + number}\nblock_time = "{round(1000 * BLOCK_TIME)}ms"\n'
        f'rpc_urls = ["http://{RECORDED}/{70_000 + number}"]\npricing.reward_percentiles = [10, 60]\n'
        for number in range(200)
    )
    process, _, _ = start(folder, chains)

    def ticks():
        with open(f"/proc/{process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    try:
        # Time for the service to learn the block schedule.
        time.sleep(60)
        before, since = ticks(), time.monotonic()
        time.sleep(SECONDS)
        cpu_share = (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - since)
        with open(f"/proc/{process.pid}/status") as file:
            resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        return resident * 1024, cpu_share
    finally:
        end(process)


def print_row(name, values, limit):
    values = sorted(values)
    print(f"| {name} | {statistics.median(values):.1f} ms | {values[0]:.1f} to {values[-1]:.1f} ms | {limit:.0f} ms |")
    return statistics.median(values) <= limit


def recorded_node(*arguments):
    """Starts a node; returns the process and its address."""
    node = subprocess.Popen([sys.executable, RECORDED_NODE, *arguments], stdout=subprocess.PIPE, text=True)
    return node, "127.0.0.1:" + node.stdout.readline().strip()


far, FAR = recorded_node(str(ROUND_TRIP))
recorded, RECORDED = recorded_node("0", str(BLOCK_TIME))
try:
    with tempfile.TemporaryDirectory() as folder:
        chain = f'[chains.far]\nchain_id = 2020\nrpc_urls = ["http://{FAR}/2020"]\n'
        starts = [measure_start(folder, chain) for _ in range(STARTS)]
        print("| From the start of the process | Median | From, to | Allowed |\n|---|---|---|---|")
        passed = print_row("listening", [1000 * listens for listens, _ in starts], 50)
        near = [measure_start(folder, chain.replace(FAR, RECORDED))[1] for _ in range(STARTS)]
        passed &= print_row("first suggestion, node that answers at once", [1000 * first for first in near], 15)
        passed &= print_row(
            f"first suggestion, node {1000 * ROUND_TRIP:.0f} ms away",
            [1000 * first for _, first in starts],
            1000 * ROUND_TRIP + 20,
        )
        resident, share = measure_many_chains(folder)
        print(f"\n200 chains, a block every {BLOCK_TIME:g} s each: {resident / 1e6:.1f} MB resident, {100 * share:.2f} % of a core.")
        passed &= share < 0.05 and resident < 64e6 if BLOCK_TIME >= 2 else resident < 80e6
finally:
    for node in (far, recorded):
        end(node)
sys.exit(0 if passed else "A limit is exceeded.")
