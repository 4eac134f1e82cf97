// The three tiers: what they pay, and how long they wait. Pure functions.

import { duration } from "./format.js";

export const TIERS = { low: "Low", medium: "Medium", high: "High" };
export const DEFAULT_TIER = "medium";

// A tier's waiting time is that in which this share of transactions is included.
const PROBABILITY = 0.8;
const LONGEST = 25;

/**
 * Returns the fees of a tier, as a suggestion has them. The fee market has the expected price of the low tier alone, which
 * exceeds its tip by as much as that of the medium tier does.
 */
export function tierFees({ suggestion, expected_price_per_gas: expected }, tier) {
    if (tier !== "low") return suggestion[tier];
    const baseFee = BigInt(expected.medium) - BigInt(suggestion.medium.max_priority_fee_per_gas);
    const tip = suggestion.type === "legacy" ? BigInt(expected.low) : BigInt(expected.low) - baseFee;
    const max = suggestion.type === "legacy" ? tip : BigInt(suggestion.base_fee_per_gas) + tip;
    return { max_priority_fee_per_gas: String(tip), max_fee_per_gas: String(max) };
}

/** Returns true if `fees` has every member that the page shows. */
export function isFees(fees) {
    const isWei = (text) => typeof text === "string" && /^\d+$/.test(text);
    const isCell = (cell) =>
        Number.isInteger(cell?.within) &&
        Number.isFinite(cell.probability) &&
        isWei(cell.max_fee_per_gas) &&
        isWei(cell.max_priority_fee_per_gas);
    return Array.isArray(fees?.cells) && fees.cells.every(isCell);
}

/**
 * Returns how long a transaction with these fees waits, in words: the smallest horizon whose fees they reach.
 *
 * @param {object[]} cells of the fees route
 */
export function waitText(cells, fees, blockTimeMs) {
    const reaches = (member, cell) => BigInt(fees[member]) >= BigInt(cell[member]);
    const within = cells
        .filter(({ probability }) => probability >= PROBABILITY)
        .filter((cell) => reaches("max_fee_per_gas", cell) && reaches("max_priority_fee_per_gas", cell))
        .map((cell) => cell.within);
    if (within.length === 0) return `more than ${LONGEST} blocks`;
    const blocks = Math.min(...within);
    if (blocks === 1) return "next block";
    const time = blocks * blockTimeMs;
    return `about ${blocks} blocks, ${time < 1000 ? "less than 1 s" : duration(time)}`;
}
