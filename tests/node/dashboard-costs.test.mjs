// Tests of src/extras/pages/dashboard: tiers, waiting times, costs, when gas is cheap, and the order of the chains.

import assert from "node:assert/strict";
import { test } from "node:test";

import { known, market } from "./dashboard/fixtures.mjs";
import { ACTIONS, TRANSFER, actionsOf, costOf, costView, dataFeeNote, feeName, isDataFee } from "../../src/extras/pages/dashboard/costs.js";
import { sortRows } from "../../src/extras/pages/dashboard/sorting.js";
import { isFees, tierFees, waitText } from "../../src/extras/pages/dashboard/tiers.js";
import { cheapHoursText, cheapQuarter } from "../../src/extras/pages/dashboard/trend.js";
import { chainView, rowView } from "../../src/extras/pages/dashboard/view.js";

const fees = (max, tip) => ({ max_fee_per_gas: String(max), max_priority_fee_per_gas: String(tip) });

// The fees of a horizon and a probability.
const cell = (within, probability, max, tip) => ({ within, probability, ...fees(max, tip) });

test("a tier waits for the shortest horizon whose fees it reaches", () => {
    const cells = [
        cell(1, 0.5, 10, 1), cell(1, 0.8, 30, 9), cell(2, 0.8, 25, 7), cell(3, 0.8, 20, 5), cell(3, 0.95, 40, 6),
        cell(25, 0.5, 5, 0), cell(25, 0.8, 10, 2),
    ];
    assert(isFees({ cells }) && !isFees({ cells: [{ within: 1 }] }) && !isFees({}) && !isFees(undefined));
    const wait = (max, tip, blockTimeMs = 12_000) => waitText(cells, fees(max, tip), blockTimeMs);
    assert.equal(wait(30, 9), "80 % in the next block");
    assert.equal(wait(29, 8), "80 % in about 2 blocks, 24 s");
    // Both the tip and the max fee must be reached.
    assert.equal(wait(100, 5), "80 % in about 3 blocks, 36 s");
    assert.equal(wait(20, 100), "80 % in about 3 blocks, 36 s");
    assert.equal(wait(40, 6), "95 % in about 3 blocks, 36 s");
    assert.equal(wait(10, 2), "80 % in about 25 blocks, 5 min");
    assert.equal(wait(10, 1), "less than 80 % in 25 blocks");
    assert.equal(wait(29, 8, 250), "80 % in about 2 blocks, less than 1 s");
    assert.equal(waitText([], fees(1, 1), 1000), "less than 80 % in 25 blocks");
});

test("waiting times are shown for current data only", () => {
    const chain = known({ fees: { cells: [cell(1, 0.8, 12_000_000_000, 10_000_000_000)], block: 7, at: 0 } });
    const waits = (chain, connection, now = 200) => chainView(chain, connection, now).tiers.map(({ wait }) => wait);
    assert.deepEqual(waits(chain, "live"), ["80 % in the next block", "80 % in the next block", "80 % in the next block"]);
    const none = [undefined, undefined, undefined];
    assert.deepEqual(waits(chain, "disconnected"), none);
    assert.deepEqual(waits({ ...chain, status: "stale" }, "live"), none);
    assert.deepEqual(waits(chain, "live", 60_000), none);
    assert.deepEqual(waits(known(), "live"), none);
    // The next block costs more than the caps of two tiers, whatever was known before.
    const cap = (tier) => BigInt(tierFees(chain.market, tier).max_fee_per_gas);
    const surge = (next) => ({ ...chain, market: { ...chain.market, next_base_fee_per_gas: String(next) } });
    assert(cap("high") > cap("medium"));
    assert.deepEqual(waits(surge(cap("medium")), "live").slice(1), ["80 % in the next block", "80 % in the next block"]);
    assert.deepEqual(waits(surge(cap("medium") + 1n), "live"), [undefined, undefined, "80 % in the next block"]);
});

// The market of an OP Stack chain, with the data fee of a transfer.
const FEE = { kind: "op-stack", fee: "2200000000", max: "2860000000", operator_fee: { expected: "7", max: "7" } };
const rollup = (changes = {}) => market(7, { data_fee: { kind: "op-stack" }, dataFees: { [feeName(TRANSFER)]: FEE }, ...changes });

test("costs have the data fee and dollars, and say what is missing", () => {
    const base = rollup({ currency: "ETH", usd_per_coin: { price: "3000" } });
    const paid = 21_000n * 21_125_000_000n + 2_200_000_007n;
    assert.deepEqual(costOf(base, "medium", TRANSFER),
        { expected: paid, max: 21_000n * 22_000_000_000n + 2_860_000_007n, isPartial: false });
    // The data fee of a larger transaction was not read.
    assert.equal(costOf(base, "medium", ACTIONS[2]).isPartial, true);
    assert(isDataFee(FEE) && !isDataFee(null) && !isDataFee({ ...FEE, operator_fee: null }));
    const shown = costView(base, "medium", TRANSFER);
    assert.deepEqual([shown.coins, shown.dollars, shown.usd], ["0.000444 ETH", "$1.33", paid * 3000n * 10n ** 18n]);
    assert.match(shown.exact, /^0\.000443\d+ ETH, \$1\.331$/);
    const unknown = (reason) => market(7, { data_fee: null, data_fee_reason: reason });
    assert.equal(costOf(unknown("not_read"), "medium", TRANSFER).isPartial, true);
    assert.deepEqual(["not_read", "old", "unknown"].map((reason) => costView(unknown(reason), "medium", TRANSFER).hasMore),
        [true, true, false]);
    assert.match(dataFeeNote(unknown("not_read")), /comes on top\. It is not known right now/);
    assert.match(dataFeeNote(unknown("unknown")), /^If this chain has a fee for data/);
    assert.match(dataFeeNote(base), /^With the fee for data/);
    assert.equal(dataFeeNote(market(7)), "");
    assert.equal(costView(market(7, { usd_per_coin: null }), "high", ACTIONS[0]).dollars, undefined);
});

test("a transfer has the gas that the node estimates, and usual gas is shown only where that is usual", () => {
    const shown = (transfer_gas) => {
        const { costs, note } = chainView(known({ market: market(7, { transfer_gas }) }), "live", 200);
        return [costs.length, costs[0].gas, note];
    };
    assert.deepEqual(shown("12000"), [1, "12,000", "The node estimates the gas of the transfer."]);
    assert.deepEqual(shown("21000"),
        [6, "21,000", "The node estimates the gas of the transfer; the others have what they usually need."]);
    assert.deepEqual(shown(null), [6, "21,000", "The gas is what such transactions usually need."]);
    const dear = market(7, { transfer_gas: "108000" });
    assert.equal(actionsOf(dear).length, 1);
});

const rowOf = (key, changes = {}, more = {}) => ({ ...rowView(known({ key, name: key, market: market(7, changes) }), "live", 200), ...more });

test("chains are sorted by name, price and cost, with favourites first", () => {
    const price = (wei) => ({ next_base_fee_per_gas: "0", expected_price_per_gas: { low: wei, medium: wei, high: wei } });
    const rows = [
        rowOf("chain-10", { ...price("5"), usd_per_coin: { price: "3000" } }),
        rowOf("chain-9", { ...price("9000"), usd_per_coin: { price: "0.5" } }),
        rowOf("coins", price("1")),
        rowOf("partial", { ...price("2"), data_fee: null, data_fee_reason: "not_read", usd_per_coin: { price: "1" } }),
        rowOf("past", price("1"), { price: { wei: 1n, isPast: true } }),
        rowOf("nothing", {}, { price: undefined, transfer: undefined }),
    ];
    const order = (by, ...favourites) => sortRows(rows, by, new Set(favourites)).map(({ key }) => key).join(" ");
    assert.equal(order(null), "chain-10 chain-9 coins partial past nothing");
    assert.equal(order("name"), "chain-9 chain-10 coins nothing partial past");
    assert.equal(order("price"), "coins partial chain-10 chain-9 past nothing");
    assert.equal(order("transfer"), "chain-9 chain-10 coins partial past nothing");
    assert.equal(order("transfer", "past", "chain-10"), "chain-10 past chain-9 coins partial nothing");
});

// A week of hourly buckets in the reader's time zone, from Monday on. `gwei` returns the price of an hour of the week.
const week = (gwei, count = 168) => ({
    period: "7d",
    buckets: Array.from({ length: count }, (_, hour) => {
        const fee = String(gwei(hour) * 10 ** 9);
        return { start: new Date(2026, 10, 16, hour).toISOString(), base_fee_per_gas: { median: fee },
            max_priority_fee_per_gas: { median: "0" } };
    }),
});

test("the cheap hours of the week are said in words", () => {
    const at = (hour) => new Date(2026, 10, 23, hour, 30);
    // Cheap from 3 to 6 each day, and cheapest on Wednesday.
    const nightly = week((hour) => (hour % 24 >= 3 && hour % 24 < 6 ? (hour === 48 + 4 ? 5 : 6) : 10));
    assert.equal(cheapHoursText(nightly, at(20)),
        "Usually cheapest: Wednesday 03:00 to 06:00, down to 5 gwei, 50 % below usual. Next cheap hours: Tuesday 03:00 to 06:00.");
    assert.match(cheapHoursText(nightly, at(4)), / The price is usually low now, until 06:00\.$/);
    assert.equal(cheapHoursText(nightly, new Date(2026, 10, 24, 20)),
        "Usually cheapest: Wednesday 03:00 to 06:00, down to 5 gwei, 50 % below usual.");
    // The hours cross midnight, and the end of the week.
    const sunday = week((hour) => ([166, 167, 0, 1].includes(hour) ? 1 : 10));
    assert.match(cheapHoursText(sunday, at(20)), /^Usually cheapest: Sunday 22:00 to Monday 02:00, down to 1 gwei/);
    assert.equal(cheapHoursText(week(() => 10), at(1)), "In the last week, no hour was much cheaper than the others.");
    assert.equal(cheapHoursText(week(() => 10, 23), at(1)), "");
});

test("the suggested limit is the price of the cheapest quarter of the day", () => {
    const day = { ...week((hour) => 20 - hour, 20), period: "24h" };
    assert.equal(cheapQuarter(day), 5n * 10n ** 9n);
    assert.equal(cheapQuarter(week((hour) => hour + 1)), undefined);
    assert.equal(cheapQuarter({ ...week(() => 1, 5), period: "24h" }), undefined);
});
