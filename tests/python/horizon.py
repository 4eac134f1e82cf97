"""Grades what `/fees` serves, independently: `python horizon.py URL CHAIN HEADS NODE`.

Start it before the service, so that it sees the first head. It reads `GET /v1/CHAIN/fees` until it has seen so many heads, then the rewards of the blocks from the NODE, and
computes `kept` and `judged` of each cell by the words of docs/pricing.md. The output is JSON: the cells of the service and
those found here, and the number of heads that were not seen. A head that was not seen makes the two differ.
"""

import json
import sys
import time
import urllib.error
import urllib.request

url, chain, heads, node = sys.argv[1:5]


def fees():
    try:
        with urllib.request.urlopen(f"{url}/v1/{chain}/fees", timeout=5) as response:
            return json.load(response)
    except urllib.error.URLError:
        # It has no fees yet, or has not started.
        return None


def fee_history(newest, count, percentile):
    call = {"jsonrpc": "2.0", "id": 1, "method": "eth_feeHistory", "params": [hex(count), hex(newest), [percentile]]}
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(node, json.dumps(call).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)["result"]


served = {}
last = None
while len(served) < int(heads):
    found = fees()
    if found:
        # What was served last at a head counts.
        served[found["newest_block"]] = found["cells"]
        last = found
    time.sleep(0.02)

newest = last["newest_block"]
history = fee_history(newest, newest - min(served), last["percentile"])
oldest = int(history["oldestBlock"], 16)
blocks = {}
for index, ratio in enumerate(history["gasUsedRatio"]):
    base_fee, reward = int(history["baseFeePerGas"][index], 16), int(history["reward"][index][0], 16)
    blocks[oldest + index] = (base_fee, None if ratio == 0 else reward)


def includes(cell, number):
    base_fee, required = blocks[number]
    tip, max_fee = int(cell["max_priority_fee_per_gas"]), int(cell["max_fee_per_gas"])
    return max_fee >= base_fee and (required is None or min(tip, max_fee - base_fee) >= required)


cells = []
for index, cell in enumerate(last["cells"]):
    within = cell["within"]
    judged = [head for head in served if head + within <= last["rewards_to"]]
    kept = [head for head in judged
            if any(includes(served[head][index], head + step) for step in range(1, within + 1))]
    share = len(kept) / len(judged) if len(judged) >= 100 else None
    cells.append({"within": within, "probability": cell["probability"], "kept": share, "judged": len(judged)})
missing = newest - min(served) + 1 - len(served)
names = ["within", "probability", "kept", "judged"]
print(json.dumps({
    "served": [{name: cell[name] for name in names} for cell in last["cells"]],
    "found": cells,
    "missing": missing,
}))
