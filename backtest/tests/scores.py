"""Scores estimators on a recording, as `gas-suggestion-backtest --json` does: `python scores.py RECORDING [LANDING]`.

It is an independent implementation of the measures and of some estimators, from the descriptions in docs/pricing.md and backtest/tables.md. The
output is JSON: for each estimator the members of its row. command.rs compares both. LANDING is the landing
percentile, default 10.
"""

import functools
import gzip
import json
import math
import sys
from fractions import Fraction

HORIZON = 25
WINDOW = 400

with gzip.open(sys.argv[1]) as file:
    recording = json.load(file)
recording = recording.get("result", recording)
base_fees = [int(fee, 16) for fee in recording["baseFeePerGas"]]
ratios = recording["gasUsedRatio"]
count = len(ratios)
table = [[int(reward, 16) for reward in row] for row in recording["reward"]]


@functools.cache
def rewards(percentile):
    """All blocks' rewards at this percentile."""
    column = recording["rewardPercentiles"].index(percentile)
    return [row[column] for row in table]


def newest(values, head, blocks):
    return values[head + 1 - blocks:head + 1]


def median(values, rank=None):
    """Median; of two middle values their average, or the one at this rank (0 lower, 1 upper)."""
    middle = sorted(values)
    pair = middle[(len(middle) - 1) // 2], middle[len(middle) // 2]
    return sum(pair) // 2 if rank is None else pair[rank]


def alloy(percentile, factor, skips_idle=False):
    column = rewards(percentile)

    def quote(head):
        pairs = list(zip(newest(column, head, 10), newest(ratios, head, 10)))
        tips = [tip for tip, ratio in pairs if tip > 0 and (ratio >= 0.1 or not skips_idle)]
        if not tips and skips_idle:
            positive = [tip for tip, _ in pairs if tip > 0]
            tips = positive if len(positive) >= 5 else []
        return (median(tips) if tips else 1), int(base_fees[head] * factor)

    return quote


def network(high):
    column = rewards(60)

    def quote(head):
        tip = max(sum(newest(column, head, 20)) // 20, 1)
        return (tip * 12 // 10 if high else tip), 2 * (sum(newest(base_fees, head, 20)) // 20)

    return quote


@functools.cache
def calibrated_tip(head, target):
    p10, p60 = rewards(10), rewards(60)
    alpha = Fraction(1) - Fraction(target)
    gamma = min(Fraction(4, 100), max(Fraction(1, 100), alpha / 5))
    known = [(p10[block], max(p10[block], p60[block]))
             for block in range(head + 1 - WINDOW, head + 1) if ratios[block] > 0 and p10[block] > 0]

    def quote(level, seen):
        asks = sorted((ask for ask, _ in seen[-200:]), reverse=True)
        rank = math.floor(max(level, 0) * (len(asks) + 1))
        if rank >= 1:
            price = asks[rank - 1]
        else:
            price = asks[0]
            for _ in range(math.ceil(max(-level, 0) * 20)):
                price += price // 8
        return min(price, max(top for _, top in seen[-20:]))

    level = alpha
    price = quote(level, known[:200])
    for index in range(200, len(known)):
        ask, risen = known[index][0], level + gamma * alpha
        if ask > price:
            level = risen - gamma
        elif ask < price:
            level = risen
        else:
            level = max(level, min(risen, alpha))
        level = min(max(level, Fraction(-1, 5)), 2 * alpha)
        price = quote(level, known[:index + 1])
    return price


def calibrated(high):
    def quote(head):
        medium = calibrated_tip(head, "0.95")
        chosen = max(medium, calibrated_tip(head, "0.99")) if high else medium
        average = sum(newest(base_fees, head, 20)) // 20
        return chosen, 2 * max(average, base_fees[head + 1])

    return quote


def metamask_medium(head):
    tip = median(newest(rewards(20), head, 5), 0) * 97 // 100
    return max(tip, 1_500_000_000), base_fees[head] * 120 // 100


def station(percentile):
    def quote(head):
        tips = [tip for tip in newest(rewards(percentile), head, 15) if tip > 0]
        average = sum(tips) // len(tips) if tips else 0
        fees = newest(base_fees, head, 15)
        base_fee = math.floor(fees[14] + Fraction((fees[5] - fees[0]) * 10, 15) + Fraction(1, 2))
        return (max(average, 30_000_000_000), base_fee) if base_fee >= 0 else None

    return quote


def alto(head):
    fullness = math.fsum(newest(ratios, head, 10)) / 10
    percentile = 70 if fullness > 0.9 else 60 if fullness > 0.7 else 50 if fullness > 0.5 else 40
    return median(newest(rewards(percentile), head, 10)), base_fees[head + 1] * 120 // 100


ESTIMATORS = {
    "network rule without floors, medium": (network(False), "0.95"),
    "network rule without floors, high": (network(True), "0.95"),
    "calibrated without floors, medium": (calibrated(False), "0.95"),
    "calibrated without floors, high": (calibrated(True), "0.99"),
    "alloy": (alloy(20, 2), "0.95"),
    "foundry, low": (alloy(10, Fraction(3, 2), True), "0.95"),
    "foundry, aggressive": (alloy(50, 2, True), "0.95"),
    "MetaMask fallback, medium": (metamask_medium, "0.95"),
    "Polygon station, fast": (station(30), "0.95"),
    "Alto": (alto, "0.95"),
}


def nearest_rank(values, percent):
    return sorted(values)[max(math.ceil(Fraction(len(values) * percent, 100)), 1) - 1] if values else None


def share(hits):
    return sum(hits) / len(hits) if hits else None


def in_thousandths(values, percent):
    ratio = nearest_rank([math.floor(value * 1000) for value in values], percent)
    return None if ratio is None else ratio / 1000


def score(quote, target, landing):
    required, realised = rewards(landing), rewards(50)
    quotes = [(head, quote(head)) for head in range(WINDOW - 1, count - HORIZON)]
    quotes = [(head, tip, tip + fee) for head, (tip, fee) in ((h, q) for h, q in quotes if q)]
    # A block without an ask says nothing.
    needed = [None if ratio == 0 or tip == 0 else tip for tip, ratio in zip(required, ratios)]
    quotes_judged = [quote for quote in quotes if needed[quote[0] + 1] is not None]

    def paid(tip, cap, block):
        """The tip that the block would have included; None if it would not."""
        tip = min(tip, cap - base_fees[block])
        return tip if cap >= base_fees[block] and tip >= needed[block] else None

    def within(head, tip, cap, blocks):
        asking = [head + after for after in range(1, blocks + 1) if needed[head + after] is not None]
        return any(paid(tip, cap, block) is not None for block in asking) if asking else None

    next_tips = [(head + 1, paid(tip, cap, head + 1)) for head, tip, cap in quotes_judged]
    included = [(block, tip) for block, tip in next_tips if tip is not None]
    over = [tip - needed[block] for block, tip in included]
    fair = [Fraction(base_fees[block] + tip, base_fees[block] + needed[block])
            for block, tip in included]
    used = [(head, tip) for head, tip, _ in quotes if ratios[head + 1] > 0]
    gaps = [abs(tip - realised[head + 1]) for head, tip in used]
    share_low = Fraction(target)
    losses = [(needed[head + 1] - tip) * share_low if tip < needed[head + 1]
              else (tip - needed[head + 1]) * (1 - share_low) for head, tip, _ in quotes_judged]
    wei = lambda amount: None if amount is None else str(amount)
    return {
        "quotes": len(quotes),
        "included_next": share([tip is not None for _, tip in next_tips]),
        "included_within_5": share([kept for kept in (within(*quote, 5) for quote in quotes) if kept is not None]),
        "full_blocks_hit": share([tip is not None for block, tip in next_tips if ratios[block] >= 0.9]),
        "covers_after_5": share([cap >= base_fees[head + 5] for head, _, cap in quotes]),
        "covers_after_25": share([cap >= base_fees[head + 25] for head, _, cap in quotes]),
        "tip_gap_p50": wei(nearest_rank(gaps, 50)),
        "tip_gap_p99": wei(nearest_rank(gaps, 99)),
        "tip_covered": share([tip >= realised[head + 1] for head, tip in used]),
        "overpaid_p50": wei(nearest_rank(over, 50)),
        "overpaid_p95": wei(nearest_rank(over, 95)),
        "overpaid_mean": wei(sum(over) // len(over) if over else None),
        "price_over_fair_p50": in_thousandths(fair, 50),
        "price_over_fair_p95": in_thousandths(fair, 95),
        "pinball_loss": wei(math.floor(sum(losses) / len(losses))),
        "pinball_target": float(target),
        "max_fee_over_base_fee_p50": in_thousandths(
            [Fraction(cap, base_fees[head + 1]) for head, _, cap in quotes], 50),
    }


landing = float(sys.argv[2]) if len(sys.argv) > 2 else 10
print(json.dumps({name: score(quote, target, landing) for name, (quote, target) in ESTIMATORS.items()}))
