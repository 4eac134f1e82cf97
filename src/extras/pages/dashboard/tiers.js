// The three tiers: what they pay, and how long they wait. Pure functions.

import { isWei } from "./amounts.js";
import { duration } from "./format.js";

export const TIERS = { low: "Low", medium: "Medium", high: "High" };
export const DEFAULT_TIER = "medium";

// A tier's waiting time is that in which at least this share of transactions is included.
const PROBABILITY = 0.8;
const LONGEST = 25;

/** Returns the fees of a tier. */
export function tierFees({ low, suggestion }, tier) {
    return { low, ...suggestion }[tier];
}

/** Returns true if `fees` has both amounts. */
export function isTier(fees) {
    return isWei(fees?.max_fee_per_gas) && isWei(fees.max_priority_fee_per_gas);
}

/** Returns true if `fees` has every member that the page shows. */
export function isFees(fees) {
    const isCell = (cell) => Number.isInteger(cell?.within) && Number.isFinite(cell.probability) && isTier(cell);
    return Array.isArray(fees?.cells) && fees.cells.every(isCell);
}

/**
 * Returns how long transactions with these fees wait, in words: the smallest horizon whose fees they reach, and the share of
 * them that is included by then.
 *
 * @param {object[]} cells of the fees route
 */
export function waitText(cells, fees, blockTimeMs) {
    const reaches = (member, cell) => BigInt(fees[member]) >= BigInt(cell[member]);
    const reached = cells
        .filter(({ probability }) => probability >= PROBABILITY)
        .filter((cell) => reaches("max_fee_per_gas", cell) && reaches("max_priority_fee_per_gas", cell));
    if (reached.length === 0) return `less than ${percent(PROBABILITY)} in ${LONGEST} blocks`;
    const blocks = Math.min(...reached.map(({ within }) => within));
    const share = percent(Math.max(...reached.filter(({ within }) => within === blocks).map((cell) => cell.probability)));
    if (blocks === 1) return `${share} in the next block`;
    const time = blocks * blockTimeMs;
    return `${share} in about ${blocks} blocks, ${time < 1000 ? "less than 1 s" : duration(time)}`;
}

function percent(share) {
    return `${Math.round(share * 100)} %`;
}
