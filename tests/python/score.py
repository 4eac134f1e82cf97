"""Compares the score of a running demo with one that is computed from the served suggestions and the recording.

`python score.py URL CHAIN RECORDING HEADS` reads the stream of suggestions until that many heads were seen. It exits with
3 if it missed a suggestion at the start, because it came too late.
"""

import gzip
import json
import sys
import urllib.request
from math import ceil

DISTANCES = [1, 5, 25]


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


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


def events(url):
    """Newest block and suggestion of each event."""
    with urllib.request.urlopen(url, timeout=30) as stream:
        block = None
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(":")
            if name == "id":
                block = int(value.strip().split("-")[0])
            elif name == "data":
                yield block, json.loads(value)


def nearest_rank(values, percent):
    return sorted(values)[max(ceil(len(values) * percent / 100) - 1, 0)] if values else None


def score_tier(tier, quotes, blocks, newest):
    share = lambda outcomes: sum(outcomes) / len(outcomes) if outcomes else None
    covered = {}
    for distance in DISTANCES:
        covered[str(distance)] = share([
            int(quote[tier]["max_fee_per_gas"]) >= blocks[head + distance]["base_fee"]
            for head, quote in quotes.items()
            if head + distance <= newest
        ])
    judged, prices, overpaid = {10: [], 50: [], 60: []}, [], []
    for head, quote in quotes.items():
        if head + 1 > newest or blocks[head + 1]["ratio"] == 0:
            continue
        block = blocks[head + 1]
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
        "overpaid_per_gas": {"p50": wei(50), "p95": wei(95)},
        "floor_decided": 0.0,
        "judged": len(judged[10]),
        "unjudged": {
            "no_rewards": 0,
            "gap": 0,
            "no_quote": newest - min(quotes) + 1 - len(quotes),
        },
        "null_reasons": {
            "calibration_error": "strategy_without_target",
            "target": "strategy_without_target",
        },
    }


def main(url, chain, recording, heads):
    blocks = recorded_blocks(recording)
    quotes, score = {}, None
    for block, suggestion in events(f"{url}/v1/{chain}/gas-suggestion/stream"):
        if score and block > score["newest_block"]:
            break
        quotes[block] = suggestion
        if len(quotes) == 3:
            early = get(f"{url}/v1/{chain}/score")
            if early["window"]["heads"] > early["newest_block"] - min(quotes) + 1:
                sys.exit(3)
        if len(quotes) >= heads and not score:
            score = get(f"{url}/v1/{chain}/score")
    newest = score["newest_block"]
    quotes = {block: quote for block, quote in quotes.items() if block <= newest}
    expected = {
        "chain_name": chain,
        "chain_id": {"ethereum": 1, "base": 8453}[chain],
        "newest_block": newest,
        "window": {"seconds": 3600, "heads": len(quotes)},
        "strategy": "network",
        "tips_decide": True,
        "tiers": {tier: score_tier(tier, quotes, blocks, newest) for tier in ("medium", "high")},
    }
    if score != expected:
        print(json.dumps({"score": score, "expected": expected}, indent=1))
        sys.exit(1)
    print(json.dumps(score))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
