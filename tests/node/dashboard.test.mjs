// Tests of src/pages/dashboard: the state after each message of the service, and the texts for each state.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
    ago, announcementText, bannerText, blocksCovered, cardView, chartText, duration, gwei, nextBlockText,
    windowTitle,
} from "../../src/pages/dashboard/format.js";
import {
    applyEvent, applyGap, applyListEntry, applyMarketResponse, connectionState, isList, isMarket, isScore,
    isStreamSilent, marketKey, needsMarket, needsScore, newChain, pollInterval, readEvent, retryDelay, staleAfter,
} from "../../src/pages/dashboard/state.js";

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
        return cardView(chain, "live", 200).market.warning;
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
    const view = (...parts) => cardView(known({ score: score(...parts) }), "live", 200).score;
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
    const { rows, notes } = cardView(known({ score: score(3, unknown, unknown) }), "live", 200).score;
    const dashes = reasons.map((reason) => [{ text: "–", reason }, { text: "–", reason }]);
    assert.deepEqual(rows.map(({ cells }) => cells), dashes);
    assert.deepEqual(notes, [...reasons.map((reason) => `–: ${reason}`), NOTE]);
    // A reason of a later version.
    const other = { ...unknown, null_reasons: {} };
    const later = cardView(known({ score: score(3, other, other) }), "live", 200).score;
    assert.equal(later.rows[0].cells[0].reason, "not known");
});

test("a score without percentile 10 shows the percentiles that are requested", () => {
    const tier = scored({ outbid: { 10: null, 50: null, 60: 0.75 }, null_reasons: { "outbid.10": "percentile_not_polled" } });
    const { rows } = cardView(known({ score: score(3, tier, tier) }), "live", 200).score;
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
        const card = cardView(newChain(ENTRY), "opening", 0);
        assert.deepEqual(card, {
            name: "Ronin", id: "chain id 2020", state: "wait", problem: undefined, isLive: false,
            block: undefined, age: undefined, bar: undefined, next: undefined, tiers: undefined,
            baseFee: undefined, market: undefined, score: undefined,
        });
    });

    test("is shown with all its data", () => {
        assert.deepEqual(cardView(known(), "live", 2100), {
            name: "Ronin", id: "chain id 2020", state: "live", problem: undefined, isLive: true,
            block: "7", age: "read 3 s ago", bar: undefined, next: "not known yet",
            tiers: [
                [
                    { label: "Max fee", wei: "22000000000", description: "medium max fee of Ronin" },
                    { label: "Priority fee", wei: "20000000000", description: "medium priority fee of Ronin" },
                ],
                [
                    { label: "Max fee", wei: "26000000000", description: "high max fee of Ronin" },
                    { label: "Priority fee", wei: "24000000000", description: "high priority fee of Ronin" },
                ],
            ],
            baseFee: "2000000000",
            market: {
                block: "7", behind: "", nextBaseFee: "1.125 gwei", averageBaseFee: "1 gwei", averageOf: "over 20 blocks",
                trend: "rising", gasUsed: "51 %, on average 43 %",
                covers: { medium: "6", high: "100 or more" }, warning: "",
            },
            score: undefined,
        });
        const behind = (block) => cardView({ ...known(), block }, "live", 120).market.behind;
        assert.deepEqual([behind(7), behind(9), behind(10)], ["", "", ", 3 blocks behind"]);
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
        const card = cardView(applyEvent(known(), { block: 8, suggestion: legacy }, 200), "live", 200);
        assert.deepEqual(card.tiers, [
            [{ label: "Gas price", wei: "20000000000", description: "medium gas price of Ronin" }],
            [{ label: "Gas price", wei: "26000000000", description: "high gas price of Ronin" }],
        ]);
        assert.equal(card.baseFee, undefined);
    });

    test("shows missing values as unknown", () => {
        const unknown = market(7, {
            next_base_fee_per_gas: null, gas_used_ratio: { latest: null, average: 0 },
            window: { blocks: 1 },
        });
        const { nextBaseFee, gasUsed, averageOf } = cardView(known({ market: unknown }), "live", 0).market;
        assert.deepEqual([nextBaseFee, gasUsed, averageOf],
            ["unknown", "unknown, on average 0 %", "over 1 block"]);
    });

    test("keeps the price and the market of different blocks apart", () => {
        const card = cardView(applyEvent(known(), event(8, "23000000000"), 2000), "live", 2000);
        assert.deepEqual([card.block, card.market.block, card.tiers[0][0].wei], ["8", "7", "23000000000"]);
        assert.deepEqual([card.age, card.next], ["read just now", "in about 2 s"]);
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

    test("that cannot be served has no numbers", () => {
        const nothing = {
            state: "none", block: undefined, next: undefined, age: undefined, tiers: undefined, baseFee: undefined,
            market: undefined, score: undefined, bar: undefined,
        };
        const problems = {
            no_data: "No data received yet.",
            stale_data: "The newest data is too old to serve.",
            undefined: "No data available.",
        };
        for (const [code, problem] of Object.entries(problems)) {
            const withScore = known({ score: score(1, scored(), scored()) });
            const chain = applyMarketResponse(withScore, { code, sentAt: 200 }, true, 210);
            for (const connection of ["live", "disconnected"]) {
                const card = cardView(chain, connection, 300);
                assert.deepEqual(pick(card, ...Object.keys(nothing), "problem"), { ...nothing, problem });
            }
        }
        const listed = applyListEntry(known(), { ...ENTRY, status: "unavailable", newest_block: null }, 200);
        assert.deepEqual(pick(cardView(listed, "live", 300), ...Object.keys(nothing)), nothing);
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
        const at = (chain) => pick(cardView(chain, "live", 31_000), "state", "problem");
        const state = "stale";
        assert.deepEqual(at(stale(4000)), { state, problem: "Stale: the data is older than two block times." });
        assert.deepEqual(at(stale(3000, 1000)),
            { state, problem: "Stale: no new block for 30 s." });
        assert.deepEqual(at(stale(0)),
            { state, problem: "Stale: no new block for some time." });
        const later = cardView(stale(0), "live", 61_000 + 1000);
        assert.equal(later.problem, "Stale: no new block for at least 1 min 1 s.");
        assert.equal(cardView(stale(0), "live", 31_000).tiers[0][0].wei, "22000000000");
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
            const card = cardView(chain, connection, 61_000);
            assert.deepEqual(pick(card, "state", "isLive", "age", "next", "block", "bar"),
                { state: "old", isLive: false, age: "read 1 min ago", next: "unknown", block: "8",
                    bar: undefined });
        }
        assert.equal(cardView(moved, "polling", 1000).state, "polled");
        assert.equal(cardView(moved, "opening", 1000).state, "live");
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

test("the title has a single chain's price, or the problem", () => {
    const live = cardView(known(), "live", 100);
    const none = cardView(applyMarketResponse(known(), { code: "no_data", sentAt: 200 }, true, 210), "live", 300);
    assert.equal(windowTitle([live], "live"), "22 gwei on Ronin – Gas prices");
    assert.equal(windowTitle([live, live], "live"), "Gas prices");
    assert.equal(windowTitle([], "opening"), "Gas prices");
    assert.equal(windowTitle([live, none], "live"), "1 of 2 not up to date – Gas prices");
    assert.equal(windowTitle([live], "disconnected"), "Disconnected – Gas prices");
    assert.equal(windowTitle([cardView(known(), "interrupted", 100)], "interrupted"), "Gas prices");
});

test("a chart has a text alternative", () => {
    assert.equal(chartText("Ronin", market(7)), "Chart of Ronin’s recent blocks. At block 7: " +
        "base fee rising, 1 gwei over 20 blocks, next 1.125 gwei; gas used 51 %, on average 43 %.");
});
