// Tests of src/extras/pages/dashboard: the texts for each state, amounts, chart and icon.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ENTRY, known, market, pick, score, scored, suggestion, tier } from "./dashboard/fixtures.mjs";
import {
    coinPrice, coins, dollars, exactCoins, exactDollars, grouped, gwei, parseCoins, parseGas, parseGwei, price, priceParts,
    shortGwei,
} from "../../src/extras/pages/dashboard/amounts.js";
import { iconUrl } from "../../src/extras/pages/dashboard/favicon.js";
import { ago, announcementText, duration, nextBlockText, shortAgo } from "../../src/extras/pages/dashboard/format.js";
import { Alerts } from "../../src/extras/pages/dashboard/notify.js";
import { blockPoints, scale, series, summary, trendPoints } from "../../src/extras/pages/dashboard/points.js";
import { scoreView } from "../../src/extras/pages/dashboard/score.js";
import { snippets } from "../../src/extras/pages/dashboard/snippets.js";
import { points } from "../../src/extras/pages/dashboard/sparkline.js";
import { applyMarketResponse, isHistory, isTrend, newChain } from "../../src/extras/pages/dashboard/state.js";
import { heatMap } from "../../src/extras/pages/dashboard/trend.js";
import { blocksCovered, chainView, iconOf, rowView, windowTitle } from "../../src/extras/pages/dashboard/view.js";

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
        "the block is not mined yet", "no block to compare with yet",
        "the service does not request this reward percentile (pricing.reward_percentiles)", "no suggestion outbid a tenth of the next block",
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
    const reasons = { "outbid.10": "percentile_not_polled", "outbid.50": "percentile_not_polled" };
    const tier = scored({ outbid: { 10: null, 50: null, 60: 0.75 }, null_reasons: reasons });
    const { rows } = chainView(known({ score: score(3, tier, tier) }), "live", 200).score;
    assert.equal(rows.length, 4);
    assert.deepEqual(rows[1], {
        label: "Outbid 60 % of the next block", cells: [{ text: "75 %" }, { text: "75 %" }],
    });
});

test("durations show their two largest units, rounded down", () => {
    const cases = [
        [-1, "0 s"], [0, "0 s"], [999, "0 s"], [1000, "1 s"], [59_999, "59 s"], [60_000, "1 min"],
        [61_000, "1 min 1 s"], [3_599_999, "59 min 59 s"], [3_600_000, "1 h"], [7_261_000, "2 h 1 min"],
        [86_400_000, "1 d"], [90_000_000, "1 d 1 h"], [10 * 86_400_000 + 59_000, "10 d"],
    ];
    for (const [milliseconds, expected] of cases) assert.equal(duration(milliseconds), expected);
    assert.deepEqual([0, 59_999, 131_000, 3_600_000, 90_000_000].map(shortAgo),
        ["just now", "59 s ago", "2 min ago", "1 h ago", "1 d ago"]);
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

test("only state changes are announced, and once", () => {
    const [fresh, old, wait] = ["live", "old", "wait"].map((state) => ({ state }));
    const stale = { state: "stale", problem: "Stale: of old." };
    const none = { state: "none", problem: "No data received yet." };
    const other = { state: "none", problem: "No new data since 22:21." };
    const older = { state: "stale", problem: "Stale: of older." };
    const cases = [
        [{}, wait, ""], [wait, fresh, ""], [fresh, stale, "Ronin: Stale: of old."], [stale, older, ""],
        [none, none, ""], [none, other, "Ronin: No new data since 22:21."],
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

test("prices have three significant digits, and are in gwei however small they are", () => {
    const cases = {
        0: "0 gwei", 1: "0.000000001 gwei", 999: "0.000000999 gwei", 1234: "0.00000123 gwei", 999_499: "0.000999 gwei",
        84_700: "0.0000847 gwei", 1_234_567: "0.00123 gwei", 3_412_345_678: "3.41 gwei", 3_405_000_000: "3.41 gwei",
        3_400_000_001: "3.4 gwei", 22_000_000_000: "22 gwei", 9_999_999_999: "10 gwei", 123_456_000_000_000: "123,000 gwei",
        "123456789012345678901234567890": "1.23 × 10²⁰ gwei", "200000000000000000000000000": "2 × 10¹⁷ gwei",
    };
    for (const [wei, expected] of Object.entries(cases)) assert.equal(price(wei), expected, wei);
    assert.deepEqual(priceParts("1234"), { number: "0.00000123", unit: "gwei" });
    assert.deepEqual([0, 999, 1000, 23597753, "123456789012345678901"].map(grouped),
        ["0", "999", "1,000", "23,597,753", "123,456,789,012,345,678,901"]);
});

test("costs are in coins and dollars", () => {
    assert.equal(coins(71_659_259_238_000n, "ETH"), "0.0000717 ETH");
    assert.equal(exactCoins(71_659_259_238_000n, "ETH"), "0.000071659259238 ETH");
    assert.equal(coins(71_659_259_238_000n, null), "0.0000717 coins");
    assert.equal(coins(0n, "ETH"), "0 ETH");
    assert.equal(coins(147_000n, "ETH"), "< 0.000000001 ETH");
    assert.equal(coins(1_050_000_000_000n, "ETH"), "0.00000105 ETH");
    assert.equal(coins(150_000n * 10n ** 18n, "RON"), "150,000 RON");
    assert.deepEqual([coinPrice("3012.55"), coinPrice("0.000000000000000001"), coinPrice("7")],
        [3012_550_000_000_000_000_000n, 1n, 7n * 10n ** 18n]);
    for (const bad of [undefined, null, "", "-1", "1e3", ".5", "1."]) assert.equal(coinPrice(bad), undefined, bad);
    const cases = {
        0: "$0", "0.00009": "< $0.0001", "0.0001": "$0.0001", "0.00123": "$0.0012", "0.0999": "$0.1", "0.1": "$0.10",
        "0.159": "$0.16", "1.5": "$1.50", "12.345": "$12.35", "99.98": "$99.98", "123.4": "$123", "12345.6": "$12,350",
    };
    for (const [text, expected] of Object.entries(cases)) assert.equal(dollars(coinPrice(text) * 10n ** 18n), expected, text);
    assert.equal(exactDollars(coinPrice("0.15937251") * 10n ** 18n), "$0.1594");
});

test("typed amounts are read, or rejected", () => {
    assert.deepEqual(["1.5", " 2 ", "0,001", "3.1234567891", "0", "1,000", "1 000.5"].map(parseGwei),
        [1_500_000_000n, 2_000_000_000n, 1_000_000n, 3_123_456_789n, 0n, 1_000_000_000_000n, 1_000_500_000_000n]);
    for (const text of ["", "a", "1.5 gwei", "-1", "1e9", "1.2.3"]) assert.equal(parseGwei(text), undefined, text);
    assert.deepEqual(["100000", "1,000,000", "21 000"].map(parseGas), [100_000n, 1_000_000n, 21_000n]);
    for (const text of ["", "x", "-5", "21.5", "21,5", "1234567890123"]) assert.equal(parseGas(text), undefined, text);
    assert.deepEqual(["1.5", "0,000000000000000001", "1,000"].map(parseCoins), [15n * 10n ** 17n, 1n, 10n ** 21n]);
    for (const text of ["", "x", "-1", "0.0000000000000000001", "1 ETH"]) assert.equal(parseCoins(text), undefined, text);
});

const bucket = (start, base, changes = {}) => ({
    start, blocks: 9, base_fee_per_gas: { min: "1", median: base, max: "3000000000" },
    max_priority_fee_per_gas: { min: "0", median: "1000000000", max: "2000000000" },
    gas_used_ratio: { min: 0, median: 0.5, max: 1 }, ...changes,
});

test("a trend becomes points, a summary and a heat map", () => {
    const buckets = [bucket("2026-11-23T05:00:00Z", "1000000000"), bucket("2026-11-23T06:00:00Z", "2000000000"),
        bucket("2026-11-24T05:00:00Z", "3000000000")];
    const trend = { buckets };
    assert(isTrend(trend) && isTrend({ buckets: [] }));
    assert(isTrend({ buckets: [bucket("2026-11-23T05:00:00Z", "1", { gas_used_ratio: null })] }));
    for (const bad of [undefined, {}, { buckets: [bucket("never", "1")] },
        { buckets: [bucket("2026-11-24T05:00:00Z", "x")] }]) {
        assert(!isTrend(bad), JSON.stringify(bad));
    }
    const shown = trendPoints(trend, "24h");
    const [times, paid, most, least, base] = series(shown);
    assert.deepEqual([times[0], paid, most[0], least[0], base],
        [Date.parse("2026-11-23T05:00:00Z") / 1000, [2, 3, 4], 3, 1e-9, [1, 2, 3]]);
    assert.match(shown[0].text,
        /: 2 gwei, of which base fee 1 gwei \(0.000000001 gwei to 3 gwei\) and tip 1 gwei, blocks 50 % full$/);
    assert.equal(summary(shown, "24h"),
        "Price per gas in the last 24 hours: usually 3 gwei, medians from 2 gwei to 4 gwei.");
    assert.match(summary(shown, "7d"), /^Price per gas in the last 1 d: usually/);
    assert.equal(summary([], "7d"), "No block is known in the last 7 days.");
    const map = heatMap(trend);
    assert.deepEqual([map.length, ...map.map(({ hours }) => hours.length)], [7, 24, 24, 24, 24, 24, 24, 24]);
    const filled = map.flatMap(({ hours }) => hours).filter(({ shade }) => shade !== undefined);
    // The cheapest hour has the highest shade.
    assert.deepEqual(filled.map(({ text, shade }) => [text.slice(-6), shade]).sort(),
        [["2 gwei", 4], ["3 gwei", 2], ["4 gwei", 0]]);
    assert.match(filled[0].text, /^(Sun|Mon)day \d\d:00: [234] gwei$/);
});

test("blocks become points, and a block without rewards a gap", () => {
    const block = (number, base, ...rewards) => ({ number, base_fee_per_gas: base, gas_used_ratio: 0.5, rewards });
    const history = (...blocks) => ({ reward_percentiles: [10, 60], blocks });
    const some = history(block(1000, "2000000000", "1", "1000000000"), block(1001, "3000000000"));
    assert(isHistory(some) && isHistory(history()));
    for (const bad of [undefined, {}, { blocks: [] }, history(block("1", "1")), history(block(1, 5)), history(block(1, "1", 7))]) {
        assert(!isHistory(bad), JSON.stringify(bad));
    }
    const shown = blockPoints(some, 1);
    assert.deepEqual(series(shown), [[1000, 1001], [3, null], [3, null], [2, 3], [2, 3]]);
    assert.deepEqual(shown.map(({ text }) => text), [
        "Block 1,000: 3 gwei, of which base fee 2 gwei and tip 1 gwei, 50 % full",
        "Block 1,001: base fee 3 gwei, tip not known, 50 % full",
    ]);
    assert.equal(summary(shown, "blocks"),
        "Price per gas in the last 2 blocks: usually 3 gwei, from 3 gwei to 3 gwei.");
    assert.equal(summary([], "blocks"), "No block is known yet.");
});

test("a peak of the tip does not set the scale, a base fee does", () => {
    const gweis = (...prices) => prices.map((tip) => ({ base: 10n ** 9n, price: BigInt(tip) * 10n ** 9n }));
    assert.deepEqual(scale(gweis(2, 3, 4, 5)), { top: 5 * 1.08, isCut: false });
    assert.deepEqual(scale(gweis(...Array(20).fill(4), 900)), { top: 6 * 1.08, isCut: true });
    const risen = [...gweis(...Array(20).fill(4)), { base: 900n * 10n ** 9n, price: 901n * 10n ** 9n }];
    assert(scale(risen).top > 900);
    assert.deepEqual(scale([]), { top: 1, isCut: false });
    assert.deepEqual(scale([{ base: 0n, price: 0n }]), { top: 1, isCut: false });
});

test("the window's icon has a short price and the colour of its level", () => {
    const texts = { 0: "0", 1: "0", 4_999_999: "0", 10_000_000: ".01", 99_000_000: ".09", 990_000_000: ".99", 3_412_345_678: "3.4",
        3_450_000_000: "3.5", 9_990_000_000: "10", 12_345_000_000: "12", 123_000_000_000: "123", "5000000000000": "999" };
    for (const [wei, text] of Object.entries(texts)) assert.equal(shortGwei(wei), text, wei);
    const url = (level, isOutdated = false) => decodeURIComponent(iconUrl({ price: { wei: 3_412_345_678n }, level, isOutdated }));
    assert.match(url("low"), /^data:image\/svg\+xml,<svg .*fill="#14703d".*>3\.4<\/text><\/svg>$/);
    assert.match(url("high"), /#a4480b/);
    assert.match(url("normal"), /#1f5fd6/);
    assert.match(url("low", true), /#59606d/);
    assert.equal(iconUrl({ isOutdated: false }), undefined);
    assert.equal(iconUrl(undefined), undefined);
    const rows = [rowView(newChain(ENTRY), "live", 1), rowView(known({ key: "other", market: market(7, { level: "high" }) }), "live", 121)];
    assert.deepEqual(pick(iconOf(rows, undefined, "live"), "level", "isOutdated"), { level: "high", isOutdated: false });
    assert.equal(iconOf(rows, "ronin", "live").price, undefined);
    assert.equal(iconOf(rows, "other", "disconnected").isOutdated, true);
});

test("code to copy uses the tier and the kind of transaction", () => {
    const url = "https://gas.example/v1/ronin/gas-suggestion";
    const { curl, viem, ethers } = snippets(url, "high", false);
    assert.equal(curl, `curl -s '${url}'`);
    assert.match(viem, /const { high: fee } = .*\nawait walletClient.sendTransaction\({\n.*\n.*\n    maxFeePerGas: BigInt\(fee.max_fee_per_gas\),\n    maxPriority/);
    assert.match(ethers, /await signer.sendTransaction/);
    assert.match(snippets(url, "low", false).viem, /const { tiers: { low: fee } } = await response.json\(\);/);
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
