"""Resident memory of 200 chains with a block every 2 s, without and with 7 days of history.

The history is read from a file that has every bucket of a week and all blocks of the current hour. Both services poll
the same node, in turn, for a minute each.
Usage: benches/history.py [binary]
"""

import json
import os
import subprocess
import sys
import tempfile
import time

SERVICE = sys.argv[1] if len(sys.argv) > 1 else "target/dist/gas-suggestion"
CHAINS, BLOCK_TIME, ROUNDS = 200, 2, 3
HOUR = 3600


def trend():
    now = int(time.time())
    open_hour = now - now % HOUR
    # Amounts as they are on a busy chain.
    fees = [1_234_567_890, 2_345_678_901, 3_456_789_012]

    def buckets(width, seconds):
        starts = range(open_hour - seconds, open_hour, width)
        return [[start, width // BLOCK_TIME, fees, fees, [0.1, 0.5, 1.0], 2 * fees[1]] for start in starts]

    head = now // BLOCK_TIME
    times = range(open_hour, now - 1, BLOCK_TIME)
    samples = [[head - len(times) + index, at, fees[0], fees[1], 0.5] for index, at in enumerate(times)]
    return {
        "newest_block": samples[-1][0],
        "newest_time": samples[-1][1],
        "minutes": buckets(60, HOUR),
        "ten_minutes": buckets(600, 24 * HOUR),
        "hours": buckets(HOUR, 7 * 24 * HOUR),
        "before": {"start": 0, "stride": 1, "samples": [], "dropped": []},
        "open": {"start": open_hour, "stride": 1, "samples": samples, "dropped": []},
    }


def measure(folder, node, has_history):
    """Returns the resident bytes after a minute."""
    path = os.path.join(folder, "history.json")
    chains = [{"chain_id": 70_000 + number, "trend": trend()} for number in range(CHAINS)]
    with open(path, "w") as file:
        json.dump({"format": "gas-suggestion fee trend", "version": 2, "chains": chains}, file)
    config = os.path.join(folder, "config.toml")
    with open(config, "w") as file:
        file.write('[server]\nlisten = "127.0.0.1:0"\nadmin_listen = "127.0.0.1:0"\n[history]\nrefill = false\n')
        file.write(f'path = "{path}"\n' if has_history else "")
        for number in range(CHAINS):
            file.write(f'[chains.c{number}]\nchain_id = {70_000 + number}\nblock_time = "{BLOCK_TIME}s"\n')
            file.write(f'rpc_urls = ["http://{node}/{70_000 + number}"]\n')
    service = subprocess.Popen([SERVICE, "--config", config], stderr=subprocess.DEVNULL)
    try:
        time.sleep(60)
        with open(f"/proc/{service.pid}/status") as file:
            return 1024 * next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    finally:
        service.terminate()
        service.wait()


node = subprocess.Popen([sys.executable, "benches/recorded_node.py"], stdout=subprocess.PIPE, text=True)
try:
    address = f"127.0.0.1:{node.stdout.readline().strip()}"
    with tempfile.TemporaryDirectory() as folder:
        rounds = [[measure(folder, address, has) / 1e6 for has in (False, True)] for _ in range(ROUNDS)]
finally:
    node.terminate()
    node.wait()
for without, with_history in rounds:
    print(f"without {without:.1f} MB, with {with_history:.1f} MB, "
          f"{(with_history - without) / CHAINS * 1e3:.0f} KB per chain")
