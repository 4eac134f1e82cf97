// What the chart shows: the newest blocks, or a trend over time. Pure functions.

import { grouped, price } from "./amounts.js";
import { duration } from "./format.js";

const WEI_PER_GWEI = 1e9;
// Prices above this multiple of the 90th percentile are cut off, so that one peak does not flatten the rest.
const CUT_FACTOR = 2.5;
const HEADROOM = 1.08;
const HOUR = 3_600_000;
const LENGTHS = { "1h": HOUR, "24h": 24 * HOUR, "7d": 168 * HOUR };
// What tells the days of a period apart.
const DAYS = { "7d": { weekday: "short" } };
const TIME = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

export const PERIODS = { blocks: "Blocks", "1h": "1 hour", "24h": "24 hours", "7d": "7 days" };

/**
 * @typedef {object} Point
 * @property {number} x number of the block, or seconds since 1970
 * @property {string} name of the block or time
 * @property {bigint} base base fee
 * @property {bigint} [tip] absent if unknown
 * @property {bigint} [price] base fee and tip
 * @property {bigint} low lower edge of the area
 * @property {bigint} [high] upper edge of the area
 * @property {string} text describes the point in words
 */

/**
 * Returns the points of the newest blocks. The area is the tip.
 *
 * @param {object} history body of the fee-history route
 * @param {number} index of the reward percentile that stands for the tip
 * @returns {Point[]}
 */
export function blockPoints({ blocks }, index) {
    return blocks.map(({ number, base_fee_per_gas: base, rewards, gas_used_ratio: used }) => {
        const reward = rewards?.[index];
        const fees = { base: BigInt(base), tip: reward === undefined || reward === null ? undefined : BigInt(reward) };
        const paid = fees.tip === undefined ? undefined : fees.base + fees.tip;
        const name = `Block ${grouped(number)}`;
        const parts = paid === undefined
            ? `base fee ${price(base)}, tip not known`
            : `${price(paid)}, of which base fee ${price(base)} and tip ${price(reward)}`;
        const full = Number.isFinite(used) ? `, ${Math.round(used * 100)} % full` : "";
        return { x: number, name, ...fees, price: paid, low: fees.base, high: paid, text: `${name}: ${parts}${full}` };
    });
}

/**
 * Returns the points of a trend. The area reaches from the lowest to the highest base fee.
 *
 * @param {object} trend body of the fee-trend route
 * @param {string} period
 * @returns {Point[]}
 */
export function trendPoints({ buckets }, period) {
    return buckets.map((bucket) => {
        const { start, base_fee_per_gas: fee, max_priority_fee_per_gas: tip, gas_used_ratio: used } = bucket;
        const paid = bucketPrice(bucket);
        const name = timeText(start, period);
        const full = used === null || used.median === null ? "" : `, blocks ${Math.round(used.median * 100)} % full`;
        return {
            x: Date.parse(start) / 1000,
            name,
            base: BigInt(fee.median),
            tip: BigInt(tip.median),
            price: paid,
            low: BigInt(fee.min),
            high: BigInt(fee.max),
            text: `${name}: ${price(paid)}, of which base fee ${price(fee.median)} (${price(fee.min)} to ` +
                `${price(fee.max)}) and tip ${price(tip.median)}${full}`,
        };
    });
}

/** Returns the usual price per gas of a bucket: its median base fee and its median tip. */
export function bucketPrice({ base_fee_per_gas: fee, max_priority_fee_per_gas: tip }) {
    return BigInt(fee.median) + BigInt(tip.median);
}

/** Formats a time in the reader's time zone. */
function timeText(start, period) {
    return new Date(start).toLocaleString(undefined, { ...DAYS[period], ...TIME });
}

/** Formats a position on the horizontal axis. */
export function axisText(x, period) {
    if (period === "blocks") return Number.isInteger(x) ? grouped(x) : "";
    return timeText(x * 1000, period);
}

/** Summarises the points in a sentence. */
export function summary(points, period) {
    const over = period === "blocks" ? `the last ${points.length} blocks` : `the last ${knownTime(points, period)}`;
    const prices = points.map(({ price: paid }) => paid).filter((paid) => paid !== undefined);
    if (prices.length === 0) return period === "blocks" ? "No block is known yet." : `No block is known in ${over}.`;
    const sorted = [...prices].sort(compare);
    const [least, middle, most] = [sorted[0], sorted[sorted.length >> 1], sorted.at(-1)];
    // A bucket has the median of its blocks, of which some paid less or more.
    const range = period === "blocks" ? "from" : "medians from";
    return `Price per gas in ${over}: usually ${price(middle)}, ${range} ${price(least)} to ${price(most)}.`;
}

/** Returns the period, or the time that is known if that is much less. */
function knownTime(points, period) {
    const known = points.length > 1 ? (points.at(-1).x - points[0].x) * 1000 : 0;
    return known > 0 && known < 0.8 * LENGTHS[period] ? duration(known) : PERIODS[period];
}

/** Returns the data of the chart in gwei, rounded to numbers: they are drawn, not paid. `null` is a gap. */
export function series(points) {
    const column = (name) => points.map(({ [name]: wei }) => (wei === undefined ? null : toGwei(wei)));
    return [points.map(({ x }) => x), ...["price", "high", "low", "base"].map(column)];
}

/** Returns the upper end of the price axis in gwei, and whether peaks are above it. */
export function scale(points) {
    const prices = points.map(({ price: paid, base }) => toGwei(paid ?? base)).sort((one, other) => one - other);
    const all = points.map(({ price: paid, high, base }) => Math.max(...[paid, high, base].map((wei) => toGwei(wei ?? 0n))));
    const most = Math.max(0, ...all);
    const usual = prices[Math.floor((prices.length - 1) * 0.9)] ?? 0;
    // No base fee is cut off.
    const limit = Math.max(usual * CUT_FACTOR, ...points.map(({ base }) => toGwei(base)));
    const isCut = most > limit;
    // Of a scale with a peak, most would be empty.
    const top = isCut ? Math.max(usual * 1.5, ...points.map(({ base }) => toGwei(base))) : most;
    return { top: top > 0 ? top * HEADROOM : 1, isCut };
}

function toGwei(wei) {
    return Number(wei) / WEI_PER_GWEI;
}

export function compare(one, other) {
    return one < other ? -1 : one > other ? 1 : 0;
}
