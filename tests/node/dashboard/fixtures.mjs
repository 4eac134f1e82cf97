// Messages of the service, and states after them, for the unit tests of the dashboard.

import { applyEvent, applyMarketResponse, newChain } from "../../../src/extras/pages/dashboard/state.js";

export const ENTRY = {
    chain: "ronin", chain_name: "Ronin", chain_id: 2020, block_time_ms: 2000, status: "fresh", newest_block: 7,
};
export const tier = (max, priority) => ({ max_priority_fee_per_gas: priority, max_fee_per_gas: max });
export const suggestion = (max = "22000000000", type = "eip-1559") => ({
    chain_name: "Ronin", type, base_fee_per_gas: "2000000000",
    medium: tier(max, "20000000000"), high: tier("26000000000", "24000000000"),
});
// The low tier has half of the medium tip.
const lowTier = ({ type, medium }) => {
    const tip = BigInt(medium?.max_priority_fee_per_gas ?? 0) / 2n;
    return type === "legacy" ? medium : tier(String(BigInt(medium?.max_fee_per_gas ?? 0) - tip), String(tip));
};
// Returns what each tier pays in the next block.
const expectedPrices = ({ low, suggestion, next_base_fee_per_gas: next }) =>
    Object.fromEntries(Object.entries({ low, medium: suggestion.medium, high: suggestion.high }).map(([name, fees]) => {
        const cap = BigInt(fees?.max_fee_per_gas ?? 0);
        if (suggestion.type === "legacy") return [name, String(cap)];
        const paid = BigInt(next ?? suggestion.base_fee_per_gas ?? 0) + BigInt(fees?.max_priority_fee_per_gas ?? 0);
        return [name, String(paid < cap ? paid : cap)];
    }));
export const market = (block, changes = {}) => {
    const made = {
        newest_block: block, stale: false, window: { oldest_block: 1, blocks: 20, reward_percentiles: [60] },
        average_base_fee_per_gas: "1000000000", next_base_fee_per_gas: "1125000000", average_reward_per_gas: ["20000000000"],
        gas_used_ratio: { latest: 0.51, average: 0.434 }, base_fee_trend: "rising",
        suggestion: suggestion(), covers_full_blocks: { medium: 6, high: 100 }, level: null, level_deviation: null,
        data_fee: { kind: "none" }, data_fee_reason: null, fees_ready: true, observed_at: "2026-11-20T17:31:34.123Z", ...changes,
    };
    const priced = made.suggestion && { low: lowTier(made.suggestion), ...made };
    return { expected_price_per_gas: priced && expectedPrices(priced), ...made, ...priced };
};
export const scored = (changes = {}) => ({
    covered: { 1: 1, 5: 1, 25: 0.9 }, outbid: { 10: 0.996, 50: 0.62, 60: 0.5 },
    price_over_fair: { p50: 1.3641, p95: 2 }, null_reasons: {}, ...changes,
});
export const score = (heads, medium, high, changes = {}) =>
    ({ window: { seconds: 3600, heads }, tips_decide: true, tiers: { medium, high }, ...changes });
// Returns a chain after an event and a fee market response for block 7.
export const known = (changes = {}) => {
    const response = { market: market(7), ageMs: 1000, sentAt: 100 };
    return { ...applyMarketResponse(applyEvent(newChain(ENTRY), event(7), 50), response, true, 120), ...changes };
};
export const event = (block, max) => ({ chainId: 2020, block, suggestion: suggestion(max) });
export const pick = (object, ...keys) => Object.fromEntries(keys.map((key) => [key, object[key]]));
