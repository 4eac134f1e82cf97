"""Freshness of the suggestion while clients send as many reads as they may to a node with a quota.

The node has a block every 2 s and answers 300 requests in any 60 s, polls and reads together. It returns 429 with a
Retry-After of 60 s to the others. Four clients (127.0.0.2 to 127.0.0.5) send batches of new reads at the default limits
of a client. Another client looks at the suggestion twice a second. Fails if less than 99 % of the looks are fresh.
`reads_per_minute` 0 shows what happens without a budget.
Usage: benches/quota_attack.sh [seconds] [reads per minute]
"""

import collections
import http.client
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

import json_rpc_node

SERVICE, SECONDS, READS_PER_MINUTE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
QUOTA, WINDOW, BLOCK_TIME, BLOCKS = 300, 60, 2, 20
CLIENTS = [f"127.0.0.{number}" for number in range(2, 6)]
ADDRESS = "0x" + 40 * "1"
MIN_FRESH = 0.99

lock = threading.Lock()
answered_at = collections.deque()
# By kind of request and status.
counts = collections.Counter()
stopped = threading.Event()
slots = itertools.count()


def within_quota():
    now = time.monotonic()
    while answered_at and answered_at[0] <= now - WINDOW:
        answered_at.popleft()
    if len(answered_at) >= QUOTA:
        return False
    answered_at.append(now)
    return True


def answer(_, call):
    method = call["method"]
    kind = "polls" if method in ("eth_feeHistory", "eth_chainId") else "reads"
    with lock:
        status = 200 if within_quota() else 429
        counts[kind, status] += 1
    if status == 429:
        raise json_rpc_node.Refused(status, {"retry-after": str(WINDOW)})
    if method == "eth_chainId":
        return "0x7e4"
    if method != "eth_feeHistory":
        return "0x" + 64 * "0"
    head = int(time.time() / BLOCK_TIME)
    return {
        "oldestBlock": hex(head - BLOCKS + 1),
        "baseFeePerGas": [hex(10**9)] * (BLOCKS + 1),
        "gasUsedRatio": [0.5] * BLOCKS,
        "reward": [[hex(20 * 10**9)]] * BLOCKS,
    }


def send_reads(port, address):
    """Sends batches of 100 reads, each as soon as the client's limit allows it."""
    client = http.client.HTTPConnection("127.0.0.1", port, source_address=(address, 0))
    while not stopped.is_set():
        batch = [
            {"jsonrpc": "2.0", "id": 1, "method": "eth_getStorageAt", "params": [ADDRESS, hex(next(slots)), "latest"]}
            for _ in range(100)
        ]
        try:
            client.request("POST", "/rpc/a", json.dumps(batch))
            response = client.getresponse()
            response.read()
        except OSError:
            client.close()
            continue
        with lock:
            counts["batches", response.status] += 1
        if response.status == 429:
            stopped.wait(0.05)


def main():
    node = json_rpc_node.node(answer)
    threading.Thread(target=node.serve_forever, daemon=True).start()
    port, admin = json_rpc_node.free_port(), json_rpc_node.free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.toml")
        with open(config, "w") as file:
            file.write(
                f'[server]\nlisten = "127.0.0.1:{port}"\nadmin_listen = "127.0.0.1:{admin}"\n[chains.a]\nchain_id = 2020\njson_rpc = true\n'
                f'block_time = "{BLOCK_TIME}s"\nrpc_urls = ["http://127.0.0.1:{node.server_port}"]\n'
                f"reads_per_minute = {READS_PER_MINUTE}\n"
            )
        service = subprocess.Popen([SERVICE, "--config", config], stderr=subprocess.DEVNULL)
        try:
            looks = watch(port)
        finally:
            stopped.set()
            service.terminate()
            service.wait()
    fresh = looks["fresh"] / looks.total()
    print(f"looks: {dict(looks)}, {100 * fresh:.2f} % fresh")
    for kind in ("polls", "reads"):
        print(f"{kind} at the node: {counts[kind, 200]} answered, {counts[kind, 429]} refused")
    print(f"batches of 100 reads by clients: {counts['batches', 200]} accepted, {counts['batches', 429]} refused")
    if fresh < MIN_FRESH:
        sys.exit(f"less than {100 * MIN_FRESH:.0f} % of the looks were fresh")


def watch(port):
    """Counts fresh, stale and failed looks while the clients send reads."""
    looks, began, attack = collections.Counter(), time.monotonic(), []
    while time.monotonic() < began + SECONDS:
        try:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            client.request("GET", "/v1/a/gas-suggestion")
            response = client.getresponse()
            response.read()
            client.close()
            is_stale = response.headers.get("x-stale") is not None
            outcome = str(response.status) if response.status != 200 else "stale" if is_stale else "fresh"
        except OSError:
            outcome = "failed"
        if outcome == "fresh" and not attack:
            attack = [threading.Thread(target=send_reads, args=(port, address), daemon=True) for address in CLIENTS]
            for thread in attack:
                thread.start()
            began = time.monotonic()
        if attack:
            looks[outcome] += 1
        time.sleep(0.5 if attack else 0.05)
    return looks


main()
