// Tests of src/pages/dashboard: its state after each service message, and the texts for each state.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
    chainOf, connectionOf, hear, isBehind, isList, isMarket, isSilent, learn, leave, list, markOf, paceOf,
    pauseOf, readEvent, staleAfter,
} from "../../src/pages/dashboard/state.js";
import {
    ago, bannerOf, blocksCovered, cardOf, changeOf, chartText, gwei, nextBlock, span, titleOf,
} from "../../src/pages/dashboard/words.js";

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
// A chain after an event and a response for block 7.
const known = (changes = {}) => {
    const response = { market: market(7), ageMs: 1000, sentAt: 100 };
    return { ...learn(hear(chainOf(ENTRY), event(7), 50), response, true, 120), ...changes };
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

test("durations show their two largest units, rounded down", () => {
    const cases = [
        [-1, "0 s"], [0, "0 s"], [999, "0 s"], [1000, "1 s"], [59_999, "59 s"], [60_000, "1 min"],
        [61_000, "1 min 1 s"], [3_599_999, "59 min 59 s"], [3_600_000, "1 h"], [7_261_000, "2 h 1 min"],
        [86_400_000, "1 d"], [90_000_000, "1 d 1 h"], [10 * 86_400_000 + 59_000, "10 d"],
    ];
    for (const [milliseconds, expected] of cases) assert.equal(span(milliseconds), expected);
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
        assert.equal(nextBlock(since, blockTimeMs), expected, `${since} of ${blockTimeMs}`);
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
    assert(isList([]) && isList([ENTRY]));
    assert(!isList({}) && !isList(undefined) && !isList([{}]) && !isList([null]));
});

describe("a chain", () => {
    test("without data has no numbers", () => {
        const card = cardOf(chainOf(ENTRY), "opening", 0);
        assert.deepEqual(card, {
            name: "Ronin", id: "chain id 2020", state: "wait", problem: undefined, isLive: false,
            block: undefined, age: undefined, bar: undefined, next: undefined, tiers: undefined,
            baseFee: undefined, market: undefined,
        });
    });

    test("is shown with all its data", () => {
        assert.deepEqual(cardOf(known(), "live", 2100), {
            name: "Ronin", id: "chain id 2020", state: "live", problem: undefined, isLive: true,
            block: "7", age: "read 3 s ago", bar: undefined, next: "not known yet",
            tiers: [
                [
                    { label: "Max fee", wei: "22000000000", what: "medium max fee of Ronin" },
                    { label: "Priority fee", wei: "20000000000", what: "medium priority fee of Ronin" },
                ],
                [
                    { label: "Max fee", wei: "26000000000", what: "high max fee of Ronin" },
                    { label: "Priority fee", wei: "24000000000", what: "high priority fee of Ronin" },
                ],
            ],
            baseFee: "2000000000",
            market: {
                block: "7", behind: "", nextBaseFee: "1.125 gwei", averageBaseFee: "1 gwei", averageOf: "over 20 blocks",
                trend: "rising", gasUsed: "51 %, on average 43 %",
                covers: { medium: "6", high: "100 or more" },
            },
        });
        const behind = (block) => cardOf({ ...known(), block }, "live", 120).market.behind;
        assert.deepEqual([behind(7), behind(9), behind(10)], ["", "", ", 3 behind"]);
    });

    test("has a market key that changes with everything but the time", () => {
        const [one, same] = ["a", "b"].map((time) => markOf(market(7, { observed_at: time })));
        assert.equal(one, same);
        assert.match(one, /^7-[0-9a-z]+$/);
        const others = [{ stale: true }, { base_fee_trend: "falling" }, { suggestion: suggestion("1") }];
        for (const other of others) assert.notEqual(markOf(market(7, other)), one);
    });

    test("with legacy pricing has one price per tier and no base fee", () => {
        const legacy = { ...suggestion("20000000000", "legacy"), base_fee_per_gas: "0" };
        const card = cardOf(hear(known(), { block: 8, suggestion: legacy }, 200), "live", 200);
        assert.deepEqual(card.tiers, [
            [{ label: "Gas price", wei: "20000000000", what: "medium gas price of Ronin" }],
            [{ label: "Gas price", wei: "26000000000", what: "high gas price of Ronin" }],
        ]);
        assert.equal(card.baseFee, undefined);
    });

    test("shows missing values as not known", () => {
        const unknown = market(7, {
            next_base_fee_per_gas: null, gas_used_ratio: { latest: null, average: 0 },
            window: { blocks: 1 },
        });
        const { nextBaseFee, gasUsed, averageOf } = cardOf(known({ market: unknown }), "live", 0).market;
        assert.deepEqual([nextBaseFee, gasUsed, averageOf],
            ["not known", "not known, on average 0 %", "over 1 block"]);
    });

    test("keeps the price and the market of different blocks apart", () => {
        const card = cardOf(hear(known(), event(8, "23000000000"), 2000), "live", 2000);
        assert.deepEqual([card.block, card.market.block, card.tiers[0][0].wei], ["8", "7", "23000000000"]);
        assert.deepEqual([card.age, card.next], ["read just now", "in about 2 s"]);
        assert.deepEqual(card.bar, { from: 2000, milliseconds: 2000 });
    });

    test("knows its block's arrival time only if it saw it arrive", () => {
        const first = hear(chainOf(ENTRY), event(7), 50);
        assert.deepEqual(pick(first, "moved", "since", "age", "isWatched"),
            { moved: undefined, since: 50, age: undefined, isWatched: true });
        const second = hear(first, event(8), 2050);
        assert.deepEqual(pick(second, "moved", "since", "age"),
            { moved: 2050, since: 2050, age: { atLeast: 0, at: 2050 } });
        // Another suggestion at the same height is not a new block.
        assert.equal(hear(second, event(8, "1"), 3000).moved, 2050);
        const missed = hear(leave(second), event(20), 9000);
        assert.deepEqual(pick(missed, "moved", "since", "age"),
            { moved: undefined, since: 9000, age: undefined });
        const same = hear(leave(second), event(8), 9000);
        assert.deepEqual(pick(same, "moved", "since", "age"), pick(second, "moved", "since", "age"));
        // A lower block is new too: a chain can be reset.
        assert.equal(hear(second, event(3), 4000).moved, 4000);
    });

    test("has no arrival time for the first block after an outage", () => {
        const gone = learn(known(), { code: "stale_data", sentAt: 200 }, true, 210);
        const returned = hear(gone, event(30), 9000);
        assert.deepEqual(pick(returned, "status", "moved", "block", "why"),
            { status: "fresh", moved: undefined, block: 30, why: undefined });
    });

    test("accepts a response to a request sent before an event if not older", () => {
        const heard = hear(known(), event(8, "23000000000"), 500);
        const response = (block, changes) => ({ market: market(block, changes), ageMs: 0, sentAt: 400 });
        assert.equal(learn(heard, response(7), true, 600), heard);
        const bare = { ...heard, market: undefined };
        assert.deepEqual(learn(bare, response(7), true, 600), { ...bare, market: response(7).market });
        assert.equal(learn(heard, response(8), true, 600), heard);
        assert.equal(learn(heard, { code: "no_data", sentAt: 400 }, true, 600), heard);
        const same = response(8, { suggestion: suggestion("23000000000") });
        assert.equal(learn(heard, same, true, 600).market, same.market);
        assert.equal(learn(heard, response(9), true, 600).block, 9);
    });

    test("accepts a response to a request sent after the last event", () => {
        const heard = hear(known(), event(8, "23000000000"), 500);
        const response = (block) => ({ market: market(block), ageMs: 3000, sentAt: 600 });
        const same = learn(heard, response(8), true, 700);
        assert.deepEqual([same.suggestion, same.age], [suggestion(), { atLeast: 3000, at: 600 }]);
        const next = learn(heard, response(9), true, 700);
        assert.deepEqual([next.block, next.moved, next.market.newest_block], [9, 700, 9]);
        // The response of an instance behind the stream's is used only without a stream.
        assert.equal(learn(heard, response(7), true, 700), heard);
        assert.equal(learn(heard, response(7), false, 700).block, 7);
    });

    test("that cannot be served has no numbers", () => {
        const nothing = {
            state: "none", block: undefined, next: undefined, age: undefined, tiers: undefined, baseFee: undefined,
            market: undefined, bar: undefined,
        };
        const problems = {
            no_data: "No data was read yet.",
            stale_data: "The newest data is too old to be served.",
            undefined: "There is no data that can be served.",
        };
        for (const [code, problem] of Object.entries(problems)) {
            const chain = learn(known(), { code, sentAt: 200 }, true, 210);
            for (const connection of ["live", "disconnected"]) {
                const card = cardOf(chain, connection, 300);
                assert.deepEqual(pick(card, ...Object.keys(nothing), "problem"), { ...nothing, problem });
            }
        }
        const listed = list(known(), { ...ENTRY, status: "unavailable", newest_block: null }, 200);
        assert.deepEqual(pick(cardOf(listed, "live", 300), ...Object.keys(nothing)), nothing);
        // An event has arrived since.
        const heard = hear(known(), event(8), 500);
        assert.equal(list(heard, { ...ENTRY, status: "unavailable" }, 400).status, "fresh");
        const response = learn(listed, { code: "no_data", sentAt: 200 }, true, 210);
        assert.equal(list(response, { ...ENTRY, status: "unavailable" }, 900).why, "no_data");
    });

    test("is stale by the age of its data or by a stalled block", () => {
        const stale = (ageMs, moved) => {
            const chain = hear(known(), event(8), 1000);
            const response = { market: market(8, { stale: true }), ageMs, sentAt: 1500 };
            return { ...learn({ ...chain, suggestion: suggestion() }, response, true, 1500), moved };
        };
        const at = (chain) => pick(cardOf(chain, "live", 31_000), "state", "problem");
        const state = "stale";
        assert.deepEqual(at(stale(4000)), { state, problem: "Stale: the data is older than two blocks." });
        assert.deepEqual(at(stale(3000, 1000)),
            { state, problem: "Stale: the newest block has not changed for 30 s." });
        assert.deepEqual(at(stale(0)),
            { state, problem: "Stale: the newest block has not changed for some time." });
        const later = cardOf(stale(0), "live", 61_000 + 1000);
        assert.equal(later.problem, "Stale: the newest block has not changed for at least 1 min 1 s.");
        assert.equal(cardOf(stale(0), "live", 31_000).tiers[0][0].wei, "22000000000");
        // A new block makes the chain fresh; the same block does not.
        assert.equal(hear(stale(0), event(9), 2000).status, "fresh");
        assert.equal(hear(stale(0), event(8), 2000).status, "stale");
        assert.equal(list(known(), { ...ENTRY, status: "stale" }, 200).status, "stale");
        assert.equal(list(known(), { ...ENTRY, status: "stale", newest_block: 8 }, 200).status, "fresh");
        assert.deepEqual([200, 1000, 2000].map((blockTimeMs) => staleAfter({ blockTimeMs })),
            [2000, 2000, 4000]);
    });

    test("is not live without a connection, and its data ages", () => {
        const moved = hear(known(), event(8), 1000);
        for (const [chain, connection] of [
            [moved, "interrupted"], [moved, "disconnected"], [leave(moved), "opening"], [leave(moved), "live"],
        ]) {
            const card = cardOf(chain, connection, 61_000);
            assert.deepEqual(pick(card, "state", "isLive", "age", "next", "block", "bar"),
                { state: "old", isLive: false, age: "read 1 min ago", next: "not known", block: "8",
                    bar: undefined });
        }
        assert.equal(cardOf(moved, "polling", 1000).state, "polled");
        assert.equal(cardOf(moved, "opening", 1000).state, "live");
    });

    test("is requested again where no event can report the change", () => {
        assert.equal(isBehind(known(), ENTRY, 2099, 2000), false);
        assert.equal(isBehind(known(), ENTRY, 2100, 2000), true);
        assert.equal(isBehind(known(), { ...ENTRY, newest_block: 8 }, 120, 2000), true);
        assert.equal(isBehind(known(), { ...ENTRY, status: "stale" }, 120, 2000), true);
        assert.equal(isBehind(known({ market: undefined }), ENTRY, 120, 2000), true);
        assert.equal(isBehind(known({ age: undefined }), ENTRY, 120, 2000), true);
        const away = { ...ENTRY, status: "unavailable", newest_block: null };
        const gone = list(known(), away, 200);
        assert.equal(isBehind(gone, away, 210, 2000), true);
    });

    test("follows the listed configuration", () => {
        const listed = list(known(), { ...ENTRY, chain_name: "New", block_time_ms: 500 }, 200);
        assert.deepEqual(pick(listed, "key", "name", "id", "blockTimeMs", "block"),
            { key: "ronin", name: "New", id: 2020, blockTimeMs: 500, block: 7 });
    });
});

describe("the connection", () => {
    const poll = (isWell, sentAt) => ({ isWell, sentAt });

    test("combines the states of the stream and the polls", () => {
        const cases = [
            [{ stream: "opening" }, "opening"],
            [{ stream: "opening", poll: poll(true, 1) }, "opening"],
            [{ stream: "opening", poll: poll(false, 1) }, "disconnected"],
            [{ stream: "open", poll: poll(true, 1) }, "live"],
            [{ stream: "open" }, "live"],
            // A stream without recent events is dead if the polls fail.
            [{ stream: "open", poll: poll(false, 5) }, "disconnected"],
            [{ stream: "open", poll: poll(false, 5), heardAt: 5 }, "disconnected"],
            [{ stream: "open", poll: poll(false, 5), heardAt: 6 }, "live"],
            [{ stream: "lost", lostAt: 5 }, "interrupted"],
            [{ stream: "lost", lostAt: 5, poll: poll(true, 4) }, "interrupted"],
            [{ stream: "lost", lostAt: 5, poll: poll(true, 5) }, "polling"],
            [{ stream: "lost", lostAt: 5, poll: poll(false, 6) }, "disconnected"],
        ];
        for (const [facts, expected] of cases) {
            assert.equal(connectionOf({ heardAt: -Infinity, ...facts }), expected, JSON.stringify(facts));
        }
    });

    test("is retried with bounded, jittered pauses", () => {
        assert.deepEqual([0, 1, 2, 3, 4, 1000].map((failures) => pauseOf(failures, 1)),
            [1000, 2000, 4000, 8000, 15_000, 15_000]);
        assert.deepEqual([0, 1000].map((failures) => pauseOf(failures, 0)), [500, 7500]);
    });

    test("is polled once per shortest block time within bounds", () => {
        const pace = (...times) => paceOf(times.map((blockTimeMs) => ({ blockTimeMs })));
        assert.deepEqual([pace(), pace(200), pace(12_000, 3000), pace(12_000), pace(2000)],
            [5000, 2000, 3000, 5000, 2000]);
    });

    test("has a silent stream if a chain was ahead of it for a whole pause", () => {
        const received = new Map([[2020, 7]]);
        const at = (newest_block) => [{ ...ENTRY, newest_block }];
        assert.equal(isSilent(received, at(7), true), false);
        assert.equal(isSilent(received, at(8), true), true);
        assert.equal(isSilent(received, at(8), false), false);
        assert.equal(isSilent(new Map(), at(null), true), false);
        assert.equal(isSilent(new Map(), at(0), true), true);
        assert.equal(isSilent(new Map(), [], true), false);
    });

    test("shows a banner while something is wrong", () => {
        const banner = (connection, more = {}) =>
            bannerOf({ connection, since: "12:00:00", paceMs: 2000, isFirst: false, ...more });
        assert.deepEqual([banner("opening"), banner("live")], ["", ""]);
        assert.equal(banner("opening", { isFirst: true }), "Reading the prices…");
        assert.equal(banner("interrupted"), "Live updates broke off; trying again…");
        assert.equal(banner("interrupted", { isFirst: true }), "");
        assert.equal(banner("disconnected"),
            "Disconnected from the service since 12:00:00; trying again…");
        assert.equal(banner("disconnected", { reason: "it answers with status 503" }),
            "Disconnected from the service since 12:00:00 (it answers with status 503); trying again…");
        assert.equal(banner("disconnected", { isFirst: true }),
            "No answer from the service yet; trying again…");
        assert.equal(banner("polling"), "No live updates at the moment; trying again. " +
            "Until then the numbers are asked for every 2 s.");
    });
});

test("only state changes are announced, and once", () => {
    const [fresh, old, wait] = ["live", "old", "wait"].map((state) => ({ state }));
    const stale = { state: "stale", problem: "Stale: of old." };
    const none = { state: "none", problem: "No data was read yet." };
    const other = { state: "none", problem: "The newest data is too old to be served." };
    const older = { state: "stale", problem: "Stale: of older." };
    const cases = [
        [{}, wait, ""], [wait, fresh, ""], [fresh, stale, "Ronin: Stale: of old."], [stale, older, ""],
        [none, none, ""], [none, other, "Ronin: The newest data is too old to be served."],
        [stale, fresh, "Ronin is up to date again."], [none, fresh, "Ronin is up to date again."],
        [wait, none, "Ronin: No data was read yet."], [fresh, old, ""], [old, fresh, ""], [stale, old, ""],
        [fresh, { state: "polled" }, ""],
    ];
    for (const [before, after, expected] of cases) {
        assert.equal(changeOf("Ronin", before, after), expected, `${before.state} ${after.state}`);
    }
});

test("the title has a single chain's price, or the problem", () => {
    const live = cardOf(known(), "live", 100);
    const none = cardOf(learn(known(), { code: "no_data", sentAt: 200 }, true, 210), "live", 300);
    assert.equal(titleOf([live], "live"), "22 gwei on Ronin – Gas prices");
    assert.equal(titleOf([live, live], "live"), "Gas prices");
    assert.equal(titleOf([], "opening"), "Gas prices");
    assert.equal(titleOf([live, none], "live"), "1 of 2 not up to date – Gas prices");
    assert.equal(titleOf([live], "disconnected"), "Disconnected – Gas prices");
    assert.equal(titleOf([cardOf(known(), "interrupted", 100)], "interrupted"), "Gas prices");
});

test("a chart has a text alternative", () => {
    assert.equal(chartText("Ronin", market(7)), "Chart of Ronin’s recent blocks. At block 7: " +
        "base fee rising, 1 gwei over 20 blocks, next 1.125 gwei; gas used 51 %, on average 43 %.");
});
