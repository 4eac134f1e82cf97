"""Compares a score of the service with one that is computed from the served suggestions and the recorded blocks.

`python score.py RECORDING SERVED SCORE`: SERVED has a line with the newest block and the suggestion for each head, SCORE
the answer of /v1/{chain}/score after the last one. Each reply of the node had the newest 20 blocks.
"""

import gzip
import json
import sys
from math import ceil

DISTANCES = [1, 5, 25]
WINDOW = 20


def recorded_blocks(path):
    """Base fee, fullness and rewards by percentile, by number."""
    with gzip.open(path) as file:
        recording = json.load(file)
    recording = recording.get("result", recording)
    number = lambda value: int(value, 16) if isinstance(value, str) else value
    oldest = number(recording["oldestBlock"])
    percentiles = recording["rewardPercentiles"]
    blocks = {}
    for index, rewards in enumerate(recording["reward"]):
        blocks[oldest + index] = {
            "base_fee": number(recording["baseFeePerGas"][index]),
            "ratio": recording["gasUsedRatio"][index],
            "rewards": dict(zip(map(float, percentiles), map(number, rewards))),
        }
    return blocks


def served_heads(path):
    """Returns what was served at each head, and the blocks that the replies of the node had by then."""
    quotes = {}
    with open(path) as file:
        for line in file:
            head, _, body = line.partition(" ")
            quotes[int(head)] = json.loads(body)
    return quotes, {number for head in quotes for number in range(head - WINDOW + 1, head + 1)}


def nearest_rank(values, percent):
    return sorted(values)[max(ceil(len(values) * percent / 100) - 1, 0)] if values else None


def score_tier(tier, quotes, blocks):
    newest = max(quotes)
    share = lambda outcomes: sum(outcomes) / len(outcomes) if outcomes else None
    covered = {}
    for distance in DISTANCES:
        covered[str(distance)] = share([
            int(quote[tier]["max_fee_per_gas"]) >= blocks[head + distance]["base_fee"]
            for head, quote in quotes.items()
            if head + distance in blocks
        ])
    judged, prices, overpaid, gaps = {10: [], 50: []}, [], [], 0
    for head, quote in quotes.items():
        block = blocks.get(head + 1)
        if not block:
            gaps += head < newest
        # A block without an ask says nothing.
        if not block or block["ratio"] == 0 or block["rewards"][10] == 0:
            continue
        tip, max_fee = (int(quote[tier][name]) for name in ("max_priority_fee_per_gas", "max_fee_per_gas"))
        room = max_fee - block["base_fee"]
        paid = min(tip, room)
        for percentile, outcomes in judged.items():
            outcomes.append(room >= 0 and paid >= block["rewards"][percentile])
        if judged[10][-1]:
            fair = block["rewards"][10]
            overpaid.append(paid - fair)
            prices.append((block["base_fee"] + paid) / (block["base_fee"] + fair))
    wei = lambda percent: str(nearest_rank(overpaid, percent)) if overpaid else None
    return {
        "target": None,
        "calibration_error": None,
        "calibration_interval": None,
        "covered": covered,
        "outbid": {str(percentile): share(outcomes) for percentile, outcomes in judged.items()},
        "price_over_fair": {"p50": nearest_rank(prices, 50), "p95": nearest_rank(prices, 95)},
        "overpaid_per_gas": {"p50": wei(50), "p95": wei(95), "mean": str(sum(overpaid) // len(overpaid)) if overpaid else None},
        "floor_decided": 0.0,
        "judged": len(judged[10]),
        "unjudged": {
            "no_rewards": 0,
            "gap": gaps,
            "no_quote": newest - min(quotes) + 1 - len(quotes),
        },
        "null_reasons": {
            "calibration_error": "strategy_without_target",
            "target": "strategy_without_target",
        },
    }


def main(recording, served, score):
    recorded = recorded_blocks(recording)
    quotes, seen = served_heads(served)
    blocks = {number: block for number, block in recorded.items() if number in seen}
    with open(score) as file:
        score = json.load(file)
    chain = score["chain_name"]
    expected = {
        "chain_name": chain,
        "chain_id": {"ethereum": 1, "base": 8453}[chain],
        "newest_block": max(quotes),
        "window": {"seconds": 3600, "spans_seconds": score["window"]["spans_seconds"], "heads": len(quotes)},
        "strategy": "network",
        "tips_decide": True,
        "tiers": {tier: score_tier(tier, quotes, blocks) for tier in ("medium", "high")},
        # They hold for seconds of the clock, of which none passes here.
        "holds": score["holds"],
    }
    if score != expected:
        print(json.dumps({"score": score, "expected": expected}, indent=1))
        sys.exit(1)
    print(f"{chain}: {len(quotes)} heads, {expected['tiers']['high']['unjudged']['gap']} gap")


if __name__ == "__main__":
    main(*sys.argv[1:])
