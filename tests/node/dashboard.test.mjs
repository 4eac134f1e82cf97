// Tests of src/pages/dashboard: the state after each message of the service, and the texts for each state.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
    cost, exactCost, expectedPrice, grouped, gwei, parseGas, parseGwei, price, priceParts,
} from "../../src/pages/dashboard/amounts.js";
import { ago, announcementText, bannerText, duration, nextBlockText } from "../../src/pages/dashboard/format.js";
import { Alerts } from "../../src/pages/dashboard/notify.js";
import { snippets } from "../../src/pages/dashboard/snippets.js";
import { points } from "../../src/pages/dashboard/sparkline.js";
import {
    applyEvent, applyGap, applyListEntry, applyMarketResponse, connectionState, isList, isMarket, isScore,
    isStreamSilent, isTrend, marketKey, needsMarket, needsScore, newChain, pollInterval, readEvent, retryDelay,
    splitMarkets, staleAfter,
} from "../../src/pages/dashboard/state.js";
import { heatMap, series, summary } from "../../src/pages/dashboard/trend.js";
import { blocksCovered, chainView, chartText, rowView, windowTitle } from "../../src/pages/dashboard/view.js";

const ENTRY = {
    chain: "ronin", chain_name: "Ronin", chain_id: 2020, block_time_ms: 2000, status: "fresh", newest_block: 7,
};
const tier = (max, priority) => ({ max_priority_fee_per_gas: priority, max_fee_per_gas: max });
const suggestion = (max = "22000000000", type = "eip-1559") => ({
    chain_name: "Ronin", type, base_fee_per_gas: "2000000000",
    medium: tier(max, "20000000000"), high: tier("26000000000", "24000000000"),
});
const market = (block, changes = {}) => ({
    newest_block: block, stale: false, window: { oldest_block: 1, blocks: 20, reward_percentiles: [60] },
    average_base_fee_per_gas: "1000000000", next_base_fee_per_gas: "1125000000",
    gas_used_ratio: { latest: 0.51, average: 0.434 }, base_fee_trend: "rising",
    suggestion: suggestion(), covers_full_blocks: { medium: 6, high: 100 }, ...changes,
});
const scored = (changes = {}) => ({
    covered: { 1: 1, 5: 1, 25: 0.9 }, outbid: { 10: 0.996, 50: 0.62, 60: 0.5 },
    price_over_fair: { p50: 1.3641, p95: 2 }, null_reasons: {}, ...changes,
});
const score = (heads, medium, high, changes = {}) =>
    ({ window: { seconds: 3600, heads }, tips_decide: true, tiers: { medium, high }, ...changes });
// Returns a chain after an event and a fee market response for block 7.
const known = (changes = {}) => {
    const response = { market: market(7), ageMs: 1000, sentAt: 100 };
    return { ...applyMarketResponse(applyEvent(newChain(ENTRY), event(7), 50), response, true, 120), ...changes };
};
const event = (block, max) => ({ chainId: 2020, block, suggestion: suggestion(max) });
const pick = (object, ...keys) => Object.fromEntries(keys.map((key) => [key, object[key]]));

test("gwei are exact to the last wei", () => {
    const cases = {
        0: "0",
        1: "0.000000001",
        10: "0.00000001",
        999999999: "0.999999999",
        1000000000: "1",
        1500000000: "1.5",
        22000000000: "22",
        7558738771: "7.558738771",
        "123456789012345678901234567890": "123456789012345678901.23456789",
        "340282366920938463463374607431768211455": "340282366920938463463374607431.768211455",
    };
    for (const [wei, expected] of Object.entries(cases)) assert.equal(gwei(wei), expected);
});

test("a floor far above the market is said on the card", () => {
    const warning = (floors_above_market) => {
        const chain = known({ market: market(7, { floors_above_market }) });
        return chainView(chain, "live", 200).market.warning;
    };
    assert.equal(warning(undefined), "");
    assert.equal(warning({ base_fee: false, priority_fee: false }), "");
    const rest = "is more than ten times what the market pays.";
    assert.equal(warning({ base_fee: false, priority_fee: true }), `The configured minimum of the priority fee ${rest}`);
    assert.equal(
        warning({ base_fee: true, priority_fee: true }),
        `The configured minimum of the base fee and of the priority fee ${rest}`,
    );
});

const NOTE = "The blocks that followed are compared with the suggestions; no transaction was sent. The fair price is " +
    "the next block’s base fee and the tip that outbids a tenth of it.";

test("a score shows how each tier did", () => {
    const high = scored({ covered: { 5: 0.9996 }, outbid: { 10: 1, 50: 0.0002 }, price_over_fair: { p50: 1234.5 } });
    const view = (...parts) => chainView(known({ score: score(...parts) }), "live", 200).score;
    const shown = view(312, scored(), high);
    assert.deepEqual(shown, {
        title: "How the last 312 suggestions did",
        rows: [
            { label: "Covered the base fee 5 blocks later", cells: [{ text: "100 %" }, { text: "99.9 %" }] },
            { label: "Outbid a tenth of the next block", cells: [{ text: "99.6 %" }, { text: "100 %" }] },
            { label: "Outbid half of the next block", cells: [{ text: "62 %" }, { text: "0.1 %" }] },
            { label: "Multiple of the fair price paid (median)", cells: [{ text: "1.36 ×" }, { text: "1235 ×" }] },
        ],
        notes: [NOTE],
    });
    assert.equal(view(1, scored(), high).title, "How the last suggestion did");
    const none = view(2, scored({ outbid: { 10: 0, 50: 0 } }), high);
    assert.equal(none.rows[1].cells[0].text, "0 %");
    const free = view(2, scored(), high, { tips_decide: false }).notes;
    assert.deepEqual(free, ["No block paid a tip at its median: any tip is enough.", NOTE]);
    assert.deepEqual(view(2, scored(), high, { tips_decide: null }).notes, [NOTE]);
    assert.doesNotMatch(JSON.stringify([shown, free]), /included|confirmed/);
});

test("a score shows unknown values as a dash with the reason", () => {
    const unknown = scored({
        covered: { 5: null }, outbid: { 10: null, 50: null }, price_over_fair: { p50: null, p95: null },
        null_reasons: {
            "covered.5": "not_mined_yet", "outbid.10": "percentile_not_polled", "outbid.50": "nothing_judged",
            price_over_fair: "none_outbid",
        },
    });
    const reasons = [
        "the block is not mined yet", "the service does not request this reward percentile (score.percentiles)",
        "no block to compare with yet", "no suggestion outbid a tenth of the next block",
    ];
    const { rows, notes } = chainView(known({ score: score(3, unknown, unknown) }), "live", 200).score;
    const dashes = reasons.map((reason) => [{ text: "–", reason }, { text: "–", reason }]);
    assert.deepEqual(rows.map(({ cells }) => cells), dashes);
    assert.deepEqual(notes, [...reasons.map((reason) => `–: ${reason}`), NOTE]);
    // A reason of a later version.
    const other = { ...unknown, null_reasons: {} };
    const later = chainView(known({ score: score(3, other, other) }), "live", 200).score;
    assert.equal(later.rows[0].cells[0].reason, "not known");
});

test("a score without percentile 10 shows the percentiles that are requested", () => {
    const tier = scored({ outbid: { 10: null, 50: null, 60: 0.75 }, null_reasons: { "outbid.10": "percentile_not_polled" } });
    const { rows } = chainView(known({ score: score(3, tier, tier) }), "live", 200).score;
    assert.equal(rows.length, 5);
    assert.deepEqual(rows[1], {
        label: "Outbid 60 % of the next block", cells: [{ text: "75 %" }, { text: "75 %" }],
    });
});

test("a score is requested once a minute, and sooner only if there is none", () => {
    const bare = known();
    const shown = known({ score: score(1, scored(), scored()) });
    const due = (chain) => [9_999, 10_000, 59_999, 60_000].map((now) => needsScore(chain, 0, now));
    assert.deepEqual(due(bare), [false, true, true, true]);
    assert.deepEqual(due(shown), [false, false, false, true]);
    assert(needsScore(bare, -Infinity, 0) && !needsScore(newChain(ENTRY), -Infinity, 0));
    assert.equal(applyEvent(shown, event(8), 200).score, shown.score);
});

test("durations show their two largest units, rounded down", () => {
    const cases = [
        [-1, "0 s"], [0, "0 s"], [999, "0 s"], [1000, "1 s"], [59_999, "59 s"], [60_000, "1 min"],
        [61_000, "1 min 1 s"], [3_599_999, "59 min 59 s"], [3_600_000, "1 h"], [7_261_000, "2 h 1 min"],
        [86_400_000, "1 d"], [90_000_000, "1 d 1 h"], [10 * 86_400_000 + 59_000, "10 d"],
    ];
    for (const [milliseconds, expected] of cases) assert.equal(duration(milliseconds), expected);
    assert.deepEqual([0, 999, 1000, 61_000].map(ago), ["just now", "just now", "1 s ago", "1 min 1 s ago"]);
});

test("the next block is counted down to, then due, then overdue", () => {
    const cases = [
        [undefined, 2000, "not known yet"], [0, 2000, "in about 2 s"], [499, 2000, "in about 2 s"],
        [501, 2000, "in about 1 s"], [1000, 2000, "in about 1 s"], [1001, 2000, "in less than 1 s"],
        [1999, 2000, "in less than 1 s"], [2000, 2000, "due now"], [2999, 2000, "due now"],
        [3000, 2000, "overdue by 1 s"], [9000, 2000, "overdue by 7 s"], [17_999, 12_000, "due now"],
        [18_000, 12_000, "overdue by 6 s"], [0, 12_000, "in about 12 s"], [0, 3_600_000, "in about 1 h"],
        [0, 200, "in less than 1 s"], [1199, 200, "due now"], [1200, 200, "overdue by 1 s"],
    ];
    for (const [since, blockTimeMs, expected] of cases) {
        assert.equal(nextBlockText(since, blockTimeMs), expected, `${since} of ${blockTimeMs}`);
    }
});

test("covered blocks are capped at 100", () => {
    assert.deepEqual([0, 1, 99, 100].map(blocksCovered), ["0", "1", "99", "100 or more"]);
});

describe("events", () => {
    const data = JSON.stringify(suggestion());

    test("are read with the chain and block of their id", () => {
        assert.deepEqual(readEvent("2020-43447700-0123456789abcdef", data), event(43447700));
    });

    test("that are malformed are ignored", () => {
        for (const id of ["", "2020", "7-0123456789abcdef", "a-7-0", "2020-7", "2020-7-", " 2020-7-a"]) {
            assert.equal(readEvent(id, data), undefined, id);
        }
        for (const other of ["", "null", "{}", "[1]", data.replace('"20000000000"', "20000000000"),
            data.replace("22000000000", "2.2e10"), data.replace("22000000000", "-1"),
            data.replace("medium", "low")]) {
            assert.equal(readEvent("2020-7-a", other), undefined, other);
        }
    });
});

test("responses without a displayed member are rejected", () => {
    assert(isMarket(market(7)) && isMarket(market(7, { next_base_fee_per_gas: null })));
    for (const member of Object.keys(market(7)).filter((key) => !["stale", "base_fee_trend"].includes(key))) {
        assert(!isMarket(market(7, { [member]: undefined })), member);
    }
    assert(!isMarket(undefined) && !isMarket(market(7, { suggestion: {} })));
    assert(isScore(score(0, scored(), scored())));
    for (const member of Object.keys(scored())) {
        const tier = scored({ [member]: undefined });
        assert(!isScore(score(1, tier, scored())) && !isScore(score(1, scored(), tier)), member);
    }
    assert(!isScore(undefined) && !isScore({ window: { heads: 1 } }) && !isScore(score("1", scored(), scored())));
    assert(isList([]) && isList([ENTRY]));
    assert(!isList({}) && !isList(undefined) && !isList([{}]) && !isList([null]));
});

describe("a chain", () => {
    test("without data has no numbers", () => {
        assert.deepEqual(chainView(newChain(ENTRY), "opening", 0), {
            key: "ronin", name: "Ronin", id: "chain id 2020", state: "wait", problem: undefined, isLive: false,
            block: undefined, age: undefined, shortAge: undefined, bar: undefined, next: undefined, price: undefined,
            rise: undefined, trend: undefined, history: [], fees: undefined, costs: undefined, currency: null,
            verdict: undefined, market: undefined, score: undefined,
        });
    });

    test("is shown with all its data", () => {
        const chain = known({ level: "low", market: market(7, { currency: "RON" }) });
        const { price: shown, costs, history, ...rest } = chainView(chain, "live", 2100);
        assert.deepEqual(shown, {
            number: "21.1", unit: "gwei", wei: 21_125_000_000n, exact: "21,125,000,000 wei",
            cap: "Max fee (cap) 22 gwei", capExact: "22,000,000,000 wei", isPast: false,
        });
        assert.deepEqual(costs.map(({ label, gas, text, exact }) => [label, gas, text, exact]), [
            ["Transfer", "21,000", "0.000444 RON", "0.000443625 RON"],
            ["Token transfer", "65,000", "0.00137 RON", "0.001373125 RON"],
            ["Swap", "150,000", "0.00317 RON", "0.00316875 RON"],
        ]);
        assert.deepEqual(history, [{ block: 7, wei: 21_125_000_000n }]);
        assert.deepEqual(rest, {
            key: "ronin", name: "Ronin", id: "chain id 2020", state: "live", problem: undefined, isLive: true,
            block: "7", age: "Updated 3 s ago", shortAge: "3 s ago", bar: undefined, next: "not known yet", rise: "",
            trend: "rising", currency: "RON", score: undefined,
            verdict: { level: "low", text: "Low: cheaper than in most of the last 24 h" },
            fees: [
                { label: "Max fee", wei: "22000000000", gwei: "22", description: "medium max fee of Ronin" },
                { label: "Priority fee", wei: "20000000000", gwei: "20", description: "medium priority fee of Ronin" },
            ],
            market: {
                block: "7", behind: "", warning: "",
                rows: [
                    ["Next block’s base fee", "1.125 gwei"], ["Average base fee", "1 gwei over 20 blocks"],
                    ["Base fee trend", "rising"], ["Gas used", "51 %, on average 43 %"],
                    ["Safe for full blocks", "medium 6, high 100 or more"],
                ],
            },
        });
        const high = chainView(chain, "live", 2100, "high");
        assert.deepEqual([high.price.number, high.price.cap], ["25.1", "Max fee (cap) 26 gwei"]);
        assert.deepEqual(high.fees[1].description, "high priority fee of Ronin");
        const behind = (block) => chainView({ ...known(), block }, "live", 120).market.behind;
        assert.deepEqual([behind(7), behind(9), behind(10)], ["", "", ", 3 blocks behind"]);
    });

    test("has rows for its floors and parameters", () => {
        const more = market(7, {
            strategy: "network", floors_applied: { base_fee: false, priority_fee: true },
            chain_parameters: { base_fee_change_denominator: "32", minimum_base_fee: "1000000000", source: "header" },
        });
        const { rows } = chainView(known({ market: more }), "live", 200).market;
        assert.deepEqual(rows.slice(5), [
            ["Minimum applied", "priority fee"], ["Pricing strategy", "network"],
            ["Base fee step", "at most 1/32 per block (from header)"], ["Least base fee", "1 gwei"],
        ]);
    });

    test("rises fast above 12.5 %, or while few full blocks are covered", () => {
        const rise = (next, covered, base_fee_trend = "rising") => rowView(known({ market: market(7, {
            next_base_fee_per_gas: next, base_fee_trend, covers_full_blocks: { medium: covered, high: 9 },
        }) }), "live", 200).rise;
        assert.equal(rise("1125000000", 3), "");
        assert.equal(rise("1125000001", 9), "Rising fast: base fee 12 % above average");
        assert.equal(rise("1500000000", 9), "Rising fast: base fee 50 % above average");
        assert.equal(rise("1060000000", 2), "Rising fast: the max fee may soon be too low");
        assert.equal(rise("1060000000", 2, "stable"), "");
        assert.equal(rise(null, 3), "");
    });

    test("has a market key that changes with everything but the time", () => {
        const [one, same] = ["a", "b"].map((time) => marketKey(market(7, { observed_at: time })));
        assert.equal(one, same);
        assert.match(one, /^7-[0-9a-z]+$/);
        const others = [{ stale: true }, { base_fee_trend: "falling" }, { suggestion: suggestion("1") }];
        for (const other of others) assert.notEqual(marketKey(market(7, other)), one);
    });

    test("with legacy pricing has one price per tier and no base fee", () => {
        const legacy = { ...suggestion("20000000000", "legacy"), base_fee_per_gas: "0" };
        const priced = (tier) => chainView(known({ market: market(8, { suggestion: legacy }) }), "live", 200, tier);
        assert.deepEqual(priced("medium").fees,
            [{ label: "Gas price", wei: "20000000000", gwei: "20", description: "medium gas price of Ronin" }]);
        assert.deepEqual([priced("medium").price.number, priced("high").price.number], ["20", "26"]);
        assert.equal(priced("high").price.cap, "Gas price of a legacy transaction");
    });

    test("shows missing values as unknown", () => {
        const unknown = market(7, {
            next_base_fee_per_gas: null, gas_used_ratio: { latest: null, average: 0 },
            window: { blocks: 1 },
        });
        const { rows } = chainView(known({ market: unknown }), "live", 0).market;
        assert.deepEqual([rows[0][1], rows[1][1], rows[3][1]],
            ["unknown", "1 gwei over 1 block", "unknown, on average 0 %"]);
    });

    test("shows block, price and fees of the same fee market", () => {
        const card = chainView(applyEvent(known(), event(8, "23000000000"), 2000), "live", 2000);
        assert.deepEqual([card.block, card.market.block, card.fees[0].wei], ["7", "7", "22000000000"]);
        assert.deepEqual([card.age, card.next], ["Updated just now", "in about 2 s"]);
        assert.deepEqual(card.bar, { from: 2000, milliseconds: 2000 });
    });

    test("knows its block's arrival time only if it saw it arrive", () => {
        const first = applyEvent(newChain(ENTRY), event(7), 50);
        assert.deepEqual(pick(first, "blockArrivedAt", "blockSeenAt", "age", "isContinuous"),
            { blockArrivedAt: undefined, blockSeenAt: 50, age: undefined, isContinuous: true });
        const second = applyEvent(first, event(8), 2050);
        assert.deepEqual(pick(second, "blockArrivedAt", "blockSeenAt", "age"),
            { blockArrivedAt: 2050, blockSeenAt: 2050, age: { atLeast: 0, at: 2050 } });
        // Another suggestion at the same height is not a new block.
        assert.equal(applyEvent(second, event(8, "1"), 3000).blockArrivedAt, 2050);
        const missed = applyEvent(applyGap(second), event(20), 9000);
        assert.deepEqual(pick(missed, "blockArrivedAt", "blockSeenAt", "age"),
            { blockArrivedAt: undefined, blockSeenAt: 9000, age: undefined });
        const same = applyEvent(applyGap(second), event(8), 9000);
        const times = ["blockArrivedAt", "blockSeenAt", "age"];
        assert.deepEqual(pick(same, ...times), pick(second, ...times));
        // A lower block is new too: a chain can be reset.
        assert.equal(applyEvent(second, event(3), 4000).blockArrivedAt, 4000);
    });

    test("has no arrival time for the first block after an outage", () => {
        const gone = applyMarketResponse(known(), { code: "stale_data", sentAt: 200 }, true, 210);
        const returned = applyEvent(gone, event(30), 9000);
        assert.deepEqual(pick(returned, "status", "blockArrivedAt", "block", "errorCode"),
            { status: "fresh", blockArrivedAt: undefined, block: 30, errorCode: undefined });
    });

    test("accepts a response to a request sent before an event if not older", () => {
        const heard = applyEvent(known(), event(8, "23000000000"), 500);
        const response = (block, changes) => ({ market: market(block, changes), ageMs: 0, sentAt: 400 });
        assert.equal(applyMarketResponse(heard, response(7), true, 600), heard);
        const bare = { ...heard, market: undefined };
        assert.deepEqual(applyMarketResponse(bare, response(7), true, 600), { ...bare, market: response(7).market });
        assert.equal(applyMarketResponse(heard, response(8), true, 600), heard);
        assert.equal(applyMarketResponse(heard, { code: "no_data", sentAt: 400 }, true, 600), heard);
        const same = response(8, { suggestion: suggestion("23000000000") });
        assert.equal(applyMarketResponse(heard, same, true, 600).market, same.market);
        assert.equal(applyMarketResponse(heard, response(9), true, 600).block, 9);
    });

    test("accepts a response to a request sent after the last event", () => {
        const heard = applyEvent(known(), event(8, "23000000000"), 500);
        const response = (block) => ({ market: market(block), ageMs: 3000, sentAt: 600 });
        const same = applyMarketResponse(heard, response(8), true, 700);
        assert.deepEqual([same.suggestion, same.age], [suggestion(), { atLeast: 3000, at: 600 }]);
        const next = applyMarketResponse(heard, response(9), true, 700);
        assert.deepEqual([next.block, next.blockArrivedAt, next.market.newest_block], [9, 700, 9]);
        // The response comes from an instance that is behind the stream's, so it is used only without a stream.
        assert.equal(applyMarketResponse(heard, response(7), true, 700), heard);
        assert.equal(applyMarketResponse(heard, response(7), false, 700).block, 7);
    });

    test("that cannot be served shows the last price as past", () => {
        const problems = {
            no_data: "No data received yet. The service keeps asking its nodes.",
            stale_data: "The newest data is too old to serve. The service keeps asking its nodes.",
            undefined: "No data available. The service keeps asking its nodes.",
        };
        const nothing = {
            state: "none", block: undefined, next: undefined, fees: undefined, market: undefined, score: undefined,
            bar: undefined, verdict: undefined,
        };
        for (const [code, problem] of Object.entries(problems)) {
            const withScore = known({ score: score(1, scored(), scored()), level: "high" });
            const chain = applyMarketResponse(withScore, { code, sentAt: 200 }, true, 210);
            for (const connection of ["live", "disconnected"]) {
                const card = chainView(chain, connection, 60_300);
                assert.deepEqual(pick(card, ...Object.keys(nothing), "problem"), { ...nothing, problem });
                assert.deepEqual([card.price.number, card.price.isPast, card.age], ["21.1", true, "Last updated 1 min 1 s ago"]);
            }
            const again = applyMarketResponse(chain, { code, sentAt: 300 }, true, 310);
            assert.deepEqual(again.last, chain.last);
            const never = applyMarketResponse(newChain(ENTRY), { code, sentAt: 200 }, true, 210);
            assert.deepEqual(pick(chainView(never, "live", 300), "price", "age", "costs"),
                { price: undefined, age: undefined, costs: undefined });
        }
        const listed = applyListEntry(known(), { ...ENTRY, status: "unavailable", newest_block: null }, 200);
        assert.deepEqual(pick(chainView(listed, "live", 300), ...Object.keys(nothing)), nothing);
        // This list is ignored, because an event has arrived since its request.
        const heard = applyEvent(known(), event(8), 500);
        assert.equal(applyListEntry(heard, { ...ENTRY, status: "unavailable" }, 400).status, "fresh");
        const response = applyMarketResponse(listed, { code: "no_data", sentAt: 200 }, true, 210);
        assert.equal(applyListEntry(response, { ...ENTRY, status: "unavailable" }, 900).errorCode, "no_data");
    });

    test("is stale by the age of its data or by a stalled block", () => {
        const stale = (ageMs, blockArrivedAt) => {
            const chain = applyEvent(known(), event(8), 1000);
            const response = { market: market(8, { stale: true }), ageMs, sentAt: 1500 };
            const priced = { ...chain, suggestion: suggestion() };
            return { ...applyMarketResponse(priced, response, true, 1500), blockArrivedAt };
        };
        const at = (chain) => pick(chainView(chain, "live", 31_000), "state", "problem");
        const state = "stale";
        assert.deepEqual(at(stale(4000)), { state, problem: "Stale: the data is older than two block times." });
        assert.deepEqual(at(stale(3000, 1000)),
            { state, problem: "Stale: no new block for 30 s." });
        assert.deepEqual(at(stale(0)),
            { state, problem: "Stale: no new block for some time." });
        const later = chainView(stale(0), "live", 61_000 + 1000);
        assert.equal(later.problem, "Stale: no new block for at least 1 min 1 s.");
        assert.equal(chainView(stale(0), "live", 31_000).fees[0].wei, "22000000000");
        // A new block makes the chain fresh; the same block does not.
        assert.equal(applyEvent(stale(0), event(9), 2000).status, "fresh");
        assert.equal(applyEvent(stale(0), event(8), 2000).status, "stale");
        assert.equal(applyListEntry(known(), { ...ENTRY, status: "stale" }, 200).status, "stale");
        assert.equal(applyListEntry(known(), { ...ENTRY, status: "stale", newest_block: 8 }, 200).status, "fresh");
        assert.deepEqual([200, 1000, 2000].map((blockTimeMs) => staleAfter({ blockTimeMs })),
            [2000, 2000, 4000]);
    });

    test("is not live without a connection, and its data ages", () => {
        const moved = applyEvent(known(), event(8), 1000);
        for (const [chain, connection] of [
            [moved, "interrupted"], [moved, "disconnected"], [applyGap(moved), "opening"], [applyGap(moved), "live"],
        ]) {
            const card = chainView(chain, connection, 61_000);
            assert.deepEqual(pick(card, "state", "isLive", "age", "next", "block", "bar"),
                { state: "old", isLive: false, age: "Updated 1 min ago", next: "unknown", block: "7",
                    bar: undefined });
        }
        assert.equal(chainView(moved, "polling", 1000).state, "polled");
        assert.equal(chainView(moved, "opening", 1000).state, "live");
    });

    test("is requested again where no event can report the change", () => {
        assert.equal(needsMarket(known(), ENTRY, 2099, 2000), false);
        assert.equal(needsMarket(known(), ENTRY, 2100, 2000), true);
        assert.equal(needsMarket(known(), { ...ENTRY, newest_block: 8 }, 120, 2000), true);
        assert.equal(needsMarket(known(), { ...ENTRY, status: "stale" }, 120, 2000), true);
        assert.equal(needsMarket(known({ market: undefined }), ENTRY, 120, 2000), true);
        assert.equal(needsMarket(known({ age: undefined }), ENTRY, 120, 2000), true);
        const away = { ...ENTRY, status: "unavailable", newest_block: null };
        const gone = applyListEntry(known(), away, 200);
        assert.equal(needsMarket(gone, away, 210, 2000), true);
    });

    test("follows the listed configuration", () => {
        const listed = applyListEntry(known(), { ...ENTRY, chain_name: "New", block_time_ms: 500 }, 200);
        assert.deepEqual(pick(listed, "key", "name", "id", "blockTimeMs", "block"),
            { key: "ronin", name: "New", id: 2020, blockTimeMs: 500, block: 7 });
    });
});

describe("the connection", () => {
    const poll = (isOk, sentAt) => ({ isOk, sentAt });

    test("combines the states of the stream and the polls", () => {
        const cases = [
            [{ stream: "opening" }, "opening"],
            [{ stream: "opening", poll: poll(true, 1) }, "opening"],
            [{ stream: "opening", poll: poll(false, 1) }, "disconnected"],
            [{ stream: "open", poll: poll(true, 1) }, "live"],
            [{ stream: "open" }, "live"],
            // If a poll fails and no event has arrived since, the stream is considered dead too.
            [{ stream: "open", poll: poll(false, 5) }, "disconnected"],
            [{ stream: "open", poll: poll(false, 5), lastEventAt: 5 }, "disconnected"],
            [{ stream: "open", poll: poll(false, 5), lastEventAt: 6 }, "live"],
            [{ stream: "lost", lostAt: 5 }, "interrupted"],
            [{ stream: "lost", lostAt: 5, poll: poll(true, 4) }, "interrupted"],
            [{ stream: "lost", lostAt: 5, poll: poll(true, 5) }, "polling"],
            [{ stream: "lost", lostAt: 5, poll: poll(false, 6) }, "disconnected"],
        ];
        for (const [facts, expected] of cases) {
            assert.equal(connectionState({ lastEventAt: -Infinity, ...facts }), expected, JSON.stringify(facts));
        }
    });

    test("is retried with bounded, jittered pauses", () => {
        assert.deepEqual([0, 1, 2, 3, 4, 1000].map((failures) => retryDelay(failures, 1)),
            [1000, 2000, 4000, 8000, 15_000, 15_000]);
        assert.deepEqual([0, 1000].map((failures) => retryDelay(failures, 0)), [500, 7500]);
    });

    test("is polled once per shortest block time within bounds", () => {
        const interval = (...times) => pollInterval(times.map((blockTimeMs) => ({ blockTimeMs })));
        assert.deepEqual([interval(), interval(200), interval(12_000, 3000), interval(12_000), interval(2000)],
            [5000, 2000, 3000, 5000, 2000]);
    });

    test("has a silent stream if a chain was ahead of it for a whole pause", () => {
        const received = new Map([[2020, 7]]);
        const at = (newest_block) => [{ ...ENTRY, newest_block }];
        assert.equal(isStreamSilent(received, at(7), true), false);
        assert.equal(isStreamSilent(received, at(8), true), true);
        assert.equal(isStreamSilent(received, at(8), false), false);
        assert.equal(isStreamSilent(new Map(), at(null), true), false);
        assert.equal(isStreamSilent(new Map(), at(0), true), true);
        assert.equal(isStreamSilent(new Map(), [], true), false);
    });

    test("shows a banner while something is wrong", () => {
        const banner = (connection, more = {}) =>
            bannerText({ connection, since: "12:00:00", pollMs: 2000, isFirst: false, ...more });
        assert.deepEqual([banner("opening"), banner("live")], ["", ""]);
        assert.equal(banner("opening", { isFirst: true }), "Loading prices…");
        assert.equal(banner("interrupted"), "Live updates lost. Reconnecting…");
        assert.equal(banner("interrupted", { isFirst: true }), "");
        assert.equal(banner("disconnected"),
            "Disconnected from the service since 12:00:00. Retrying…");
        assert.equal(banner("disconnected", { reason: "status 503" }),
            "Disconnected from the service since 12:00:00 (status 503). Retrying…");
        assert.equal(banner("disconnected", { isFirst: true }),
            "No response from the service yet. Retrying…");
        assert.equal(banner("polling"), "Live updates are not available; polling every 2 s. Reconnecting…");
    });
});

test("only state changes are announced, and once", () => {
    const [fresh, old, wait] = ["live", "old", "wait"].map((state) => ({ state }));
    const stale = { state: "stale", problem: "Stale: of old." };
    const none = { state: "none", problem: "No data received yet." };
    const other = { state: "none", problem: "The newest data is too old to serve." };
    const older = { state: "stale", problem: "Stale: of older." };
    const cases = [
        [{}, wait, ""], [wait, fresh, ""], [fresh, stale, "Ronin: Stale: of old."], [stale, older, ""],
        [none, none, ""], [none, other, "Ronin: The newest data is too old to serve."],
        [stale, fresh, "Ronin is up to date again."], [none, fresh, "Ronin is up to date again."],
        [wait, none, "Ronin: No data received yet."], [fresh, old, ""], [old, fresh, ""], [stale, old, ""],
        [fresh, { state: "polled" }, ""],
    ];
    for (const [before, after, expected] of cases) {
        assert.equal(announcementText("Ronin", before, after), expected, `${before.state} ${after.state}`);
    }
});

test("the title has the price of the open chain or of the first, or the problem", () => {
    const live = rowView(known(), "live", 100);
    const other = { ...live, key: "saigon", name: "Saigon", price: { ...live.price, number: "7" } };
    const none = rowView(applyMarketResponse(known(), { code: "no_data", sentAt: 200 }, true, 210), "live", 300);
    assert.equal(windowTitle([live, other], undefined, "live"), "21.1 gwei on Ronin – Gas prices");
    assert.equal(windowTitle([live, other], "saigon", "live"), "7 gwei on Saigon – Gas prices");
    assert.equal(windowTitle([none, other], undefined, "live"), "7 gwei on Saigon – Gas prices");
    assert.equal(windowTitle([none, other], "ronin", "live"), "Ronin is not up to date – Gas prices");
    assert.equal(windowTitle([none, none], undefined, "live"), "No price is up to date – Gas prices");
    assert.equal(windowTitle([], undefined, "opening"), "Gas prices");
    assert.equal(windowTitle([live], "ronin", "disconnected"), "Disconnected – Gas prices");
    assert.equal(windowTitle([rowView(known(), "interrupted", 100)], "ronin", "interrupted"), "Gas prices");
});

test("a chart has a text alternative", () => {
    assert.equal(chartText("Ronin", market(7)), "Chart of Ronin’s recent blocks. At block 7: " +
        "base fee rising, 1 gwei over 20 blocks, next 1.125 gwei; gas used 51 %, on average 43 %.");
});

test("the expected price is min(max fee, next base fee + tip)", () => {
    const priced = (next, max, more) => expectedPrice(market(7, { next_base_fee_per_gas: next, suggestion: suggestion(max), ...more }), "medium");
    assert.equal(priced("1", "22000000000"), 20_000_000_001n);
    assert.equal(priced("2000000000", "22000000000"), 22_000_000_000n);
    assert.equal(priced("2000000001", "22000000000"), 22_000_000_000n);
    const huge = "340282366920938463463374607431768211455";
    assert.equal(priced(huge, huge), BigInt(huge));
    assert.equal(priced(null, "22000000000", { expected_price_per_gas: { medium: "21" } }), 21n);
    assert.equal(priced(null, "22000000000"), 22_000_000_000n);
    assert.equal(expectedPrice(market(7, { suggestion: suggestion("5", "legacy") }), "medium"), 5n);
});

test("prices have three significant digits and a suitable unit", () => {
    const cases = {
        0: "0 gwei", 1: "1 wei", 999: "999 wei", 1000: "1 Kwei", 1234: "1.23 Kwei", 999_499: "999 Kwei",
        1_000_000: "0.001 gwei", 1_234_567: "0.00123 gwei", 3_412_345_678: "3.41 gwei", 3_405_000_000: "3.41 gwei",
        3_400_000_001: "3.4 gwei", 22_000_000_000: "22 gwei", 9_999_999_999: "10 gwei", 123_456_000_000_000: "123,000 gwei",
        "123456789012345678901234567890": "1.23 × 10²⁰ gwei", "200000000000000000000000000": "2 × 10¹⁷ gwei",
    };
    for (const [wei, expected] of Object.entries(cases)) assert.equal(price(wei), expected, wei);
    assert.deepEqual(priceParts("1234"), { number: "1.23", unit: "Kwei" });
    assert.deepEqual([0, 999, 1000, 23597753, "123456789012345678901"].map(grouped),
        ["0", "999", "1,000", "23,597,753", "123,456,789,012,345,678,901"]);
});

test("costs are in coins, and in gwei below 0.000001 coins", () => {
    assert.equal(cost("3412345678", 21_000n, "ETH"), "0.0000717 ETH");
    assert.equal(exactCost("3412345678", 21_000n, "ETH"), "0.000071659259238 ETH");
    assert.equal(cost("3412345678", 21_000n, null), "0.0000717 coins");
    assert.equal(cost("0", 21_000n, "ETH"), "0 ETH");
    assert.equal(cost("10000000", 21_000n, "ETH"), "210 gwei");
    assert.equal(cost("50000000", 21_000n, "ETH"), "0.00000105 ETH");
    assert.equal(cost("1000000000000000000", 150_000n, "RON"), "150,000 RON");
});

test("typed amounts are read, or rejected", () => {
    assert.deepEqual(["1.5", " 2 ", "0,001", "3.1234567891", "0"].map(parseGwei),
        [1_500_000_000n, 2_000_000_000n, 1_000_000n, 3_123_456_789n, 0n]);
    for (const text of ["", "a", "1.5 gwei", "-1", "1e9", "1.2.3"]) assert.equal(parseGwei(text), undefined, text);
    assert.deepEqual(["100000", "1,000,000", "21 000"].map(parseGas), [100_000n, 1_000_000n, 21_000n]);
    for (const text of ["", "x", "-5", "1234567890123"]) assert.equal(parseGas(text), undefined, text);
});

test("fee markets of all chains become responses with ages by the service's clock", () => {
    const one = { ...market(7), chain_id: 2020, observed_at: "2026-11-20T17:31:34.123Z" };
    const bad = { ...one, chain_id: 1, suggestion: {} };
    const servedAt = Date.parse("2026-11-20T17:31:36.123Z");
    assert.deepEqual([...splitMarkets([one, bad], servedAt, 50)], [[2020, { market: one, ageMs: 2000, sentAt: 50 }]]);
    assert.equal(splitMarkets([one], servedAt - 9000, 50).get(2020).ageMs, 0);
    assert.equal(splitMarkets([one], NaN, 50).get(2020).ageMs, 0);
});

test("a sparkline has one point per block and a bounded length", () => {
    const next = (chain, block, price) => applyMarketResponse(chain, {
        market: market(block, { next_base_fee_per_gas: price }), ageMs: 0, sentAt: 1000,
    }, true, 1000);
    let chain = next(known(), 7, "2000000000");
    assert.deepEqual(chain.history, [{ block: 7, wei: 22_000_000_000n }]);
    for (let block = 8; block < 100; block += 1) chain = next(chain, block, "1");
    assert.equal(chain.history.length, 60);
    assert.equal(points([]), "");
    assert.equal(points([{ wei: 1n }, { wei: 3n }, { wei: 2n }]), "2.0,26.0 60.0,2.0 118.0,14.0");
    assert.equal(points([{ wei: 5n }, { wei: 5n }]), "2.0,14.0 118.0,14.0");
});

const bucket = (start, base, changes = {}) => ({
    start, blocks: 9, base_fee_per_gas: { min: "1", median: base, max: "3000000000" },
    max_priority_fee_per_gas: { min: "0", median: "1000000000", max: "2000000000" },
    gas_used_ratio: { min: 0, median: 0.5, max: 1 }, ...changes,
});

test("a trend becomes series, a summary and a heat map", () => {
    const buckets = [bucket("2026-11-23T05:00:00Z", "1000000000"), bucket("2026-11-23T06:00:00Z", "2000000000"),
        bucket("2026-11-24T05:00:00Z", "3000000000")];
    const trend = { level: null, buckets };
    assert(isTrend(trend) && isTrend({ level: "low", buckets: [] }));
    for (const bad of [undefined, {}, { level: "odd", buckets }, { level: "low" },
        { level: "low", buckets: [bucket("never", "1")] }, { level: "low", buckets: [bucket("2026-11-24T05:00:00Z", "x")] }]) {
        assert(!isTrend(bad), JSON.stringify(bad));
    }
    const [times, paid, most, least, base] = series(trend);
    assert.deepEqual([times[0], paid, most[0], least[0], base],
        [Date.parse("2026-11-23T05:00:00Z") / 1000, [2, 3, 4], 3, 1e-9, [1, 2, 3]]);
    assert.equal(summary(trend, "24h"),
        "Price per gas in the last 24 hours: usually 3 gwei, lowest 2 gwei, highest 4 gwei, now 4 gwei.");
    assert.equal(summary({ buckets: [] }, "7d"), "No block is known in the last 7 days.");
    const map = heatMap(trend);
    assert.deepEqual([map.length, ...map.map(({ hours }) => hours.length)], [7, 24, 24, 24, 24, 24, 24, 24]);
    const filled = map.flatMap(({ hours }) => hours).filter(({ shade }) => shade !== undefined);
    assert.deepEqual(filled.map(({ shade }) => shade).sort(), [0, 2, 4]);
    assert.match(filled[0].text, /^(Sun|Mon)day \d\d:00: [234] gwei$/);
});

test("code to copy uses the tier and the kind of transaction", () => {
    const url = "https://gas.example/v1/ronin/gas-suggestion";
    const { curl, viem, ethers } = snippets(url, "high", false);
    assert.equal(curl, `curl -s '${url}'`);
    assert.match(viem, /const { high: fee } = .*\nawait walletClient.sendTransaction\({\n.*\n.*\n    maxFeePerGas: BigInt\(fee.max_fee_per_gas\),\n    maxPriority/);
    assert.match(ethers, /await signer.sendTransaction/);
    assert.match(snippets(url, "medium", true).ethers, /gasPrice: BigInt\(fee.max_fee_per_gas\)/);
});

test("a notification is sent once, and only for a current price below the limit", async () => {
    const sent = [];
    globalThis.Notification = class {
        static requestPermission = async () => "granted";
        constructor(title) {
            sent.push(title);
        }
    };
    const alerts = new Alerts();
    const row = (wei, changes = {}) => {
        const shown = rowView(known({ market: market(7, { next_base_fee_per_gas: wei }) }), "live", 100);
        return { ...shown, ...changes };
    };
    assert.equal(alerts.check(row("1")), false);
    assert.equal(await alerts.set("ronin", 21_000_000_000n), "");
    assert.equal(alerts.check(row("1000000000")), false);
    assert.equal(alerts.check(row("1", { isLive: false })), false);
    assert.equal(alerts.check(row("1", { key: "saigon" })), false);
    assert.equal(alerts.check(row("1", { price: { ...row("1").price, isPast: true } })), false);
    assert.equal(alerts.check(row("999999999")), true);
    assert.equal(alerts.check(row("1")), false);
    assert.deepEqual(sent, ["Ronin: 21 gwei"]);
    Notification.requestPermission = async () => "denied";
    assert.match(await alerts.set("ronin", 1n), /blocked/);
    assert.equal(alerts.limit("ronin"), undefined);
    delete globalThis.Notification;
    assert.match(await alerts.set("ronin", 1n), /no notifications/);
});
