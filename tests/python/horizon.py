"""Compares `kept` of `/v1/{chain}/fees` with one that is computed from the served matrices and the recorded blocks.

`python horizon.py RECORDING SERVED`: SERVED has a line with the newest block and the response of `/fees` for each head.
Each reply of the node had the newest 20 blocks, with rewards at percentile 10.
"""

import sys

from score import recorded_blocks, served_heads

# Below, a share says nothing.
LEAST_JUDGED = 100
PERCENTILE = 10


def ask(block):
    return 0 if block["ratio"] == 0 else block["rewards"][PERCENTILE]


def includes(cell, block):
    max_fee, tip = int(cell["max_fee_per_gas"]), int(cell["max_priority_fee_per_gas"])
    room = max_fee - block["base_fee"]
    return room >= 0 and min(tip, room) >= ask(block)


def main(recording, served):
    recorded = recorded_blocks(recording)
    quotes, seen = served_heads(served)
    last = quotes[max(quotes)]
    assert last["percentile"] == PERCENTILE, last["percentile"]
    shares = 0
    for index, cell in enumerate(last["cells"]):
        within = cell["within"]
        judged = kept = 0
        for head, fees in quotes.items():
            after = range(head + 1, head + within + 1)
            if not seen.issuperset(after):
                continue
            # A block without an ask neither includes nor refuses.
            asking = [recorded[number] for number in after if ask(recorded[number])]
            judged += bool(asking)
            kept += any(includes(fees["cells"][index], block) for block in asking)
        share = kept / judged if judged >= LEAST_JUDGED else None
        shares += share is not None
        found = (cell["judged"], cell["kept"])
        assert found == (judged, share), f"{within} {cell['probability']}: {found}, expected {(judged, share)}"
    print(f"{last['chain_name']}: {len(quotes)} heads, {len(last['cells'])} cells, {shares} shares")


if __name__ == "__main__":
    main(*sys.argv[1:])
