// Tests of src/extras/pages/dashboard: the state after each message of the service.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { ENTRY, event, known, market, pick, score, scored, suggestion, tier } from "./dashboard/fixtures.mjs";
import { gwei, price } from "../../src/extras/pages/dashboard/amounts.js";
import { ago, bannerText } from "../../src/extras/pages/dashboard/format.js";
import { points } from "../../src/extras/pages/dashboard/sparkline.js";
import {
    applyEvent, applyGap, applyListEntry, applyMarketResponse, connectionState, hasHistory, isList, isMarket, isScore,
    applyBlocks, isStreamSilent, marketKey, needsFees, needsMarket, needsScore, newChain, pollInterval, readEvent, retryDelay, splitMarkets,
    staleAfter,
} from "../../src/extras/pages/dashboard/state.js";
import { chainView, rowView } from "../../src/extras/pages/dashboard/view.js";

test("a score is requested once a minute, and sooner only if there is none", () => {
    const bare = known();
    const shown = known({ score: score(1, scored(), scored()) });
    const due = (chain) => [9_999, 10_000, 59_999, 60_000].map((now) => needsScore(chain, 0, now));
    assert.deepEqual(due(bare), [false, true, true, true]);
    assert.deepEqual(due(shown), [false, false, false, true]);
    assert(needsScore(bare, -Infinity, 0) && !needsScore(newChain(ENTRY), -Infinity, 0));
    assert.equal(applyEvent(shown, event(8), 200).score, shown.score);
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

// Members that a market may lack.
const OPTIONAL = ["stale", "base_fee_trend", "data_fee", "data_fee_reason", "observed_at", "fees_ready"];

test("responses without a displayed member are rejected", () => {
    assert(isMarket(market(7)) && isMarket(market(7, { next_base_fee_per_gas: null })));
    for (const member of Object.keys(market(7)).filter((key) => !OPTIONAL.includes(key))) {
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
            key: "ronin", name: "Ronin", id: "chain id 2020", state: "wait", problem: undefined, notice: undefined,
            isLive: false, isCurrent: false, isUnread: false, block: undefined, age: undefined, shortAge: undefined,
            since: undefined, bar: undefined, next: undefined, price: undefined, warning: undefined, trend: undefined,
            history: [], fees: undefined, costs: undefined, currency: null, verdict: undefined, market: undefined,
            score: undefined, badge: "Loading…", level: undefined, transfer: undefined, priced: undefined, note: undefined,
            hasWaits: false,
            tiers: ["low", "medium", "high"].map((value) => ({
                value, label: value[0].toUpperCase() + value.slice(1), price: undefined, wait: undefined, transfer: undefined,
            })),
        });
    });

    test("is shown with all its data", () => {
        const chain = known({ market: market(7, { currency: "RON", level: "low", level_deviation: -0.312 }) });
        const { price: shown, costs, history, tiers, priced, ...rest } = chainView(chain, "live", 2100);
        assert.deepEqual(priced, { ...chain.market, dataFees: undefined });
        assert.deepEqual(tiers.map(({ value, price, transfer }) => [value, price.number, transfer.coins]), [
            ["low", "11.1", "0.000234 RON"], ["medium", "21.1", "0.000444 RON"], ["high", "25.1", "0.000528 RON"],
        ]);
        assert.deepEqual(shown, {
            number: "21.1", unit: "gwei", wei: 21_125_000_000n, exact: "21,125,000,000 wei",
            cap: "Max fee (cap) 22 gwei", capExact: "22,000,000,000 wei", isPast: false,
        });
        assert.deepEqual(costs.map(({ label, gas, coins, exact }) => [label, gas, coins, exact]), [
            ["Transfer", "21,000", "0.000444 RON", "0.000443625 RON"],
            ["Transfer to a new account", "21,000", "0.000444 RON", "0.000443625 RON"],
            ["Token transfer", "65,000", "0.00137 RON", "0.001373125 RON"],
            ["Swap", "150,000", "0.00317 RON", "0.00316875 RON"],
            ["NFT mint", "120,000", "0.00254 RON", "0.002535 RON"],
            ["Contract deployment", "1,200,000", "0.0254 RON", "0.02535 RON"],
        ]);
        assert.deepEqual(history, [{ block: 7, wei: 21_125_000_000n }]);
        assert.deepEqual(rest, {
            key: "ronin", name: "Ronin", id: "chain id 2020", state: "live", problem: undefined, notice: undefined,
            isLive: true, isCurrent: true, isUnread: false, since: undefined, note: "The gas is what such transactions usually need.", hasWaits: true,
            block: "7", age: "Updated 3 s ago", shortAge: "3 s ago", bar: undefined, next: "not known yet", warning: undefined,
            trend: "rising", currency: "RON", score: undefined, badge: "Live", level: "low",
            transfer: {
                coins: "0.000444 RON", exact: "0.000443625 RON", dollars: undefined, usd: undefined,
                expected: 443_625_000_000_000n, isPartial: false, hasMore: false,
            },
            verdict: { level: "low", text: "Low: 31 % below usual" },
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
        assert.deepEqual([high.price.number, high.price.cap, high.verdict], ["25.1", "Max fee (cap) 26 gwei", undefined]);
        assert.deepEqual(high.fees[1].description, "high priority fee of Ronin");
        const behind = (block) => chainView({ ...known(), block }, "live", 120).market.behind;
        assert.deepEqual([behind(7), behind(9), behind(10)], ["", "", ", 3 blocks behind"]);
    });

    test("without data says whether it ever had some", () => {
        const listed = (newest_block) => ({ ...ENTRY, status: "unavailable", newest_block });
        const badge = (chain) => rowView(chain, "live", 300).badge;
        assert.equal(badge(applyListEntry(newChain(ENTRY), listed(null), 100)), "No data yet");
        assert.equal(badge(applyListEntry(newChain(ENTRY), listed(7), 100)), "No new data");
        // A service that restarts has no data, but this page does.
        assert.equal(badge(applyListEntry(known(), listed(null), 200)), "No new data");
    });

    test("has rows for its floors and parameters", () => {
        const more = market(7, {
            strategy: "network", floors_applied: { base_fee: false, priority_fee: true },
            chain_parameters: {
                base_fee_change_denominator: "50", empty_block_denominator: "250",
                minimum_base_fee: "1000000000", source: "header",
            },
        });
        const rows = (market) => chainView(known({ market }), "live", 200).market.rows;
        assert.deepEqual(rows(more).slice(5), [
            ["Minimum applied", "priority fee"], ["Pricing strategy", "network"],
            ["Base fee step", "at most +1/50 and −1/250 per block (from header)"], ["Least base fee", "1 gwei"],
        ]);
        const step = (parameters) => Object.fromEntries(rows({ ...more, chain_parameters: parameters }))["Base fee step"];
        const eighths = { base_fee_change_denominator: "8", empty_block_denominator: "8", source: "configuration" };
        assert.equal(step(eighths), "at most 1/8 per block (from configuration)");
        const unknown = { base_fee_change_denominator: null, empty_block_denominator: null, source: "unknown" };
        assert.equal(step({ ...unknown, minimum_base_fee: null }), undefined);
        const covered = rows(market(7, { covers_full_blocks: { medium: null, high: null } }));
        assert.deepEqual(covered[4], ["Safe for full blocks", "unknown"]);
    });

    // A market whose average price is 11 gwei, of which the tip is 1 gwei.
    const rising = (next, changes = {}) => market(7, {
        average_base_fee_per_gas: "10000000000", average_reward_per_gas: ["1000000000"], next_base_fee_per_gas: next,
        suggestion: { ...suggestion(), medium: tier("21000000000", "1000000000") }, ...changes,
    });

    test("rises fast if its price is more than 5 % above the average price", () => {
        const rise = (next, changes) => rowView(known({ market: rising(next, changes) }), "live", 200).warning?.text;
        assert.equal(rise("10550000000"), undefined);
        assert.equal(rise("10550000100"), "Rising fast: price 5 % above average");
        assert.equal(rise("15500000000"), "Rising fast: price 50 % above average");
        const short = { covers_full_blocks: { medium: 2, high: 9 } };
        assert.equal(rise("15500000000", short), "Rising fast: price 50 % above average; the max fee may soon be too low");
        assert.equal(rise("10550000000", short), undefined);
        assert.equal(rise("15500000000", { covers_full_blocks: { medium: null, high: null } }),
            "Rising fast: price 50 % above average");
        assert.equal(rise(null), undefined);
        assert.equal(rise("15500000000", { gas_used_ratio: { latest: 0.5, average: 0.5 } }), undefined);
        const free = { average_base_fee_per_gas: "0", average_reward_per_gas: ["0"], suggestion: {
            ...suggestion(), medium: tier("1000", "0"),
        } };
        assert.equal(rise("1", free), undefined);
    });

    test("does not rise fast because its base fee does, if the tip is most of the price", () => {
        const rise = (changes) => rowView(known({ market: market(7, { next_base_fee_per_gas: "1190000000", ...changes }) }),
            "live", 200).warning;
        // The base fee is 19 % above its average, and the price 0.9 %.
        assert.equal(rise({}), undefined);
        // The floor decides about the tip, and the market pays less, or nothing is known of it.
        assert.equal(rise({ average_reward_per_gas: ["1100000000"] }), undefined);
        assert.equal(rise({ average_reward_per_gas: [null] }), undefined);
        assert.equal(rise({ average_reward_per_gas: [] }), undefined);
    });

    test("does not rise while its base fee falls, although it is above the average", () => {
        const fees = (block, next) => ({ market: { ...rising(next), newest_block: block }, ageMs: 0, sentAt: 1000 });
        let chain = known();
        const next = (block, fee) => {
            chain = applyMarketResponse(chain, fees(block, fee), true, 1000);
            return rowView(chain, "live", 1000).warning?.short;
        };
        assert.equal(next(8, "19000000000"), "rising fast");
        // The same block again changes nothing.
        assert.equal(next(8, "19000000000"), "rising fast");
        assert.deepEqual([next(9, "17000000000"), next(10, "17000000000"), next(11, "18000000000")],
            [undefined, undefined, "rising fast"]);
    });

    test("warns if a max fee is below the next base fee", () => {
        const warning = (next, tier, connection = "live") => rowView(known({ market: rising(next) }), connection, 200, tier)
            .warning?.short;
        assert.equal(warning("21000000000", "medium"), "rising fast");
        assert.equal(warning("21000000001", "medium"), "has to wait");
        assert.equal(warning("21000000001", "high"), "rising fast");
        assert.equal(warning("21000000001", "medium", "disconnected"), undefined);
    });

    test("has a verdict with its size", () => {
        const verdict = (level, level_deviation) =>
            chainView(known({ market: market(7, { level, level_deviation }) }), "live", 200).verdict?.text;
        assert.equal(verdict("high", 0.314), "High: 31 % above usual");
        assert.equal(verdict("high", 12.5), "High: 1,250 % above usual");
        assert.equal(verdict("low", -0.05), "Low: 5 % below usual");
        assert.equal(verdict("normal", 0.04), "Normal for the last 24 h");
        // The median of the day is 0.
        assert.equal(verdict("high", null), "High: dearer than in most of the last 24 h");
        assert.equal(verdict(null, null), undefined);
    });

    test("has no verdict on data that is not current", () => {
        const dear = { ...rising("15500000000"), level: "high", level_deviation: 0.4 };
        const verdicts = (chain, connection = "live") => {
            const { warning, level, verdict } = rowView(chain, connection, 200);
            return [warning?.short, level, verdict?.text];
        };
        assert.deepEqual(verdicts(known({ market: dear })), ["rising fast", "high", "High: 40 % above usual"]);
        assert.deepEqual(verdicts(known({ market: dear }), "polling"), ["rising fast", "high", "High: 40 % above usual"]);
        const none = [undefined, undefined, undefined];
        assert.deepEqual(verdicts(known({ market: { ...dear, stale: true }, status: "stale" })), none);
        for (const connection of ["interrupted", "disconnected"]) {
            assert.deepEqual(verdicts(known({ market: dear }), connection), none, connection);
        }
        assert.deepEqual(verdicts(applyGap(known({ market: dear }))), none);
        const gone = applyMarketResponse(known({ market: dear }), { code: "stale_data", sentAt: 200 }, true, 210);
        assert.deepEqual(verdicts(gone), none);
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
        const problem = "No new data for 1 min 1 s.";
        const nothing = {
            state: "none", block: undefined, next: undefined, fees: undefined, market: undefined, score: undefined,
            bar: undefined, verdict: undefined,
        };
        for (const code of ["no_data", "stale_data", undefined]) {
            const withScore = known({ score: score(1, scored(), scored()), market: market(7, { level: "high" }) });
            const chain = applyMarketResponse(withScore, { code, sentAt: 200 }, true, 210);
            for (const connection of ["live", "disconnected"]) {
                const card = chainView(chain, connection, 60_300);
                assert.deepEqual(pick(card, ...Object.keys(nothing), "problem"), { ...nothing, problem });
                assert.deepEqual([card.price.number, card.price.isPast, card.age], ["21.1", true, "Last updated 1 min 1 s ago"]);
            }
            const again = applyMarketResponse(chain, { code, sentAt: 300 }, true, 310);
            assert.deepEqual(again.last, chain.last);
            assert.equal(chainView(chain, "live", 60_300).notice, "No new data.");
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

    // The service was last answered at 22:21:00, and its newest block is from 22:09.
    const stopped = (changes = {}) => ({
        ...ENTRY, status: "unavailable", reason: "old_data", newest_block: 7, newest_block_at: "2026-11-20T22:09:00Z",
        observed_at: "2026-11-20T22:21:00Z", ...changes,
    });
    const servedAt = Date.parse("2026-11-20T22:35:30Z");

    test("that stopped says since when, by the clock of the service", () => {
        const chain = applyListEntry(newChain(ENTRY), stopped(), 1000, servedAt);
        const row = rowView(chain, "live", 31_000);
        const clock = new Date("2026-11-20T22:21:00Z").toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
        assert.deepEqual(pick(row, "badge", "since", "problem", "block", "price"), {
            badge: "No new data", since: `since ${clock} (15 min)`, problem: `No new data since ${clock} (15 min).`,
            block: "7", price: undefined,
        });
        // The duration grows, and screen readers hear of the stop once.
        assert.equal(row.notice, `No new data since ${clock}.`);
        assert.equal(rowView(chain, "live", 3_600_000).notice, row.notice);
        assert(hasHistory(chain));
        // The price of its history is past. It is that of the medium tier.
        const priced = { ...chain, pastPrice: 2_340_000_000n };
        assert.deepEqual(pick(rowView(priced, "live", 31_000).price, "number", "isPast", "cap"),
            { number: "2.34", isPast: true, cap: undefined });
        assert.deepEqual(chainView(priced, "live", 31_000).tiers.map(({ price }) => price?.number),
            [undefined, "2.34", undefined]);
        assert.equal(chainView(priced, "live", 31_000).costs, undefined);
        // After more than a day, the date matters too.
        assert.match(rowView(chain, "live", 90_000_000).since, /^since .*20.* \(1 d\)$/);
        // A service whose list has no times.
        assert.equal(rowView(applyListEntry(newChain(ENTRY), { ...ENTRY, status: "unavailable" }, 1, NaN), "live", 2).problem,
            "No data available.");
    });

    test("that was never read has no history and no time", () => {
        const never = stopped({ reason: "no_data", newest_block: null, newest_block_at: null, observed_at: null });
        const chain = applyListEntry(newChain(ENTRY), never, 1000, servedAt);
        const row = rowView(chain, "live", 2000);
        assert.deepEqual(pick(row, "badge", "since", "problem", "isUnread"), {
            badge: "No data yet", since: undefined, isUnread: true,
            problem: "No data yet: the service has not reached a node of this chain since its start.",
        });
        assert(!hasHistory(chain) && !hasHistory(newChain(ENTRY)) && hasHistory(known()));
    });

    test("with a standing head says how old its block is", () => {
        const entry = stopped({ status: "stale", reason: "standing_head" });
        const chain = applyListEntry(known({ lastEventAt: 0 }), entry, 1000, servedAt);
        const { since, problem } = rowView(chain, "live", 1000);
        assert.equal(since, "last block 26 min ago");
        assert.match(problem, /^Stale: no new block since \d\d:\d\d \(26 min\)\.$/);
        // The block of the list is not the one that the page shows.
        assert.equal(rowView({ ...chain, block: 6 }, "live", 1000).since, undefined);
    });

    test("requests its fees by horizon with a new block, once the service has them", () => {
        const due = (chain, now) => needsFees(chain, 0, now);
        const at = (block, more) => known({ market: market(block), ...more });
        assert.deepEqual([4999, 5000].map((now) => due(at(307), now)), [false, true]);
        const fees = (block) => at(307, { fees: { cells: [], block, at: 0 } });
        assert.deepEqual([due(fees(306), 4999), due(fees(306), 5000), due(fees(307), 90_000)], [false, true, false]);
        const without = [known({ market: market(307, { fees_ready: false }) }), newChain(ENTRY),
            applyMarketResponse(at(307), { code: "stale_data", sentAt: 200 }, true, 210)];
        assert(!without.some((chain) => needsFees(chain, -Infinity, 300)));
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
        // A request for the market of a chain without data fails.
        const told = { ...away, newest_block: 7, reason: "old_data" };
        assert.equal(needsMarket(applyListEntry(known(), told, 200), told, 210, 2000), false);
        assert.equal(needsMarket(applyListEntry(known(), told, 200), { ...ENTRY, newest_block: 9 }, 210, 2000), true);
    });

    test("has the blocks before it as earlier prices", () => {
        const block = (number, base, rewards) => ({ number, base_fee_per_gas: String(base), rewards });
        const seen = { ...known(), history: [{ block: 7, wei: 5n }] };
        const { history } = applyBlocks(seen, [block(5, 1, ["2"]), block(6, 1, null), block(7, 1, ["9"]), block(8, 1, ["9"])]);
        assert.deepEqual(history, [{ block: 5, wei: 3n }, { block: 7, wei: 5n }]);
        assert.deepEqual(applyBlocks(newChain(ENTRY), [block(5, 1, ["2"])]).history, [{ block: 5, wei: 3n }]);
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
        assert.equal(banner("polling"), "Live updates are not available; polling every 2 s.");
    });
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
    assert.equal(points([{ block: 1, wei: 1n }, { block: 4, wei: 3n }, { block: 5, wei: 2n }]), "2.0,26.0 89.0,2.0 118.0,14.0");
    // Small changes stay small.
    assert.equal(points([{ block: 1, wei: 1000n }, { block: 2, wei: 1001n }]), "2.0,14.2 118.0,13.8");
    assert.equal(points([{ block: 1, wei: 5n }, { block: 2, wei: 5n }]), "2.0,14.0 118.0,14.0");
});
