// Series, texts and hours of a fee trend. Pure functions.

import { price } from "./amounts.js";

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const WEI_PER_GWEI = 1e9;
// Number of colours of the heat map.
const SHADES = 5;

export const PERIODS = { "1h": "1 hour", "24h": "24 hours", "7d": "7 days" };

/** Returns the data of the chart in gwei and seconds, rounded to numbers: they are drawn, not paid. */
export function series({ buckets }) {
    const column = (read) => buckets.map((bucket) => Number(read(bucket)) / WEI_PER_GWEI);
    return [
        buckets.map(({ start }) => Date.parse(start) / 1000),
        column(bucketPrice),
        column(({ base_fee_per_gas: fee }) => fee.max),
        column(({ base_fee_per_gas: fee }) => fee.min),
        column(({ base_fee_per_gas: fee }) => fee.median),
    ];
}

/** Returns the usual price per gas of a bucket: its median base fee and its median tip. */
export function bucketPrice({ base_fee_per_gas: fee, max_priority_fee_per_gas: tip }) {
    return BigInt(fee.median) + BigInt(tip.median);
}

/** Describes a bucket in words. */
export function bucketText(bucket, period) {
    const { base_fee_per_gas: fee, max_priority_fee_per_gas: tip, gas_used_ratio: used } = bucket;
    const full = used.median === null ? "" : `, blocks ${Math.round(used.median * 100)} % full`;
    return (
        `${timeText(bucket.start, period)}: ${price(bucketPrice(bucket))}, of which base fee ${price(fee.median)} ` +
        `(${price(fee.min)} to ${price(fee.max)}) and tip ${price(tip.median)}${full}`
    );
}

/** Formats the start of a bucket in the reader's time zone. */
export function timeText(start, period) {
    const day = period === "7d" ? { weekday: "short" } : {};
    return new Date(start).toLocaleTimeString(undefined, { ...day, hour: "2-digit", minute: "2-digit" });
}

/** Summarises a trend in a sentence. */
export function summary({ buckets }, period) {
    if (buckets.length === 0) return `No block is known in the last ${PERIODS[period]}.`;
    const prices = buckets.map(bucketPrice);
    const sorted = [...prices].sort(compare);
    const [least, middle, most] = [sorted[0], sorted[sorted.length >> 1], sorted.at(-1)];
    return (
        `Price per gas in the last ${PERIODS[period]}: usually ${price(middle)}, lowest ${price(least)}, ` +
        `highest ${price(most)}, now ${price(prices.at(-1))}.`
    );
}

/**
 * Returns the cells of the heat map by weekday and hour of the reader's time zone.
 *
 * @returns {{ day: string, hours: { text: string, shade?: number }[] }[]} Monday first; a cell without data has no shade
 */
export function heatMap({ buckets }) {
    const cells = WEEKDAYS.map((day) => ({ day, hours: Array.from({ length: 24 }, () => []) }));
    for (const bucket of buckets) {
        const start = new Date(bucket.start);
        cells[(start.getDay() + 6) % 7].hours[start.getHours()].push(bucketPrice(bucket));
    }
    const sorted = buckets.map(bucketPrice).sort(compare);
    const rank = (wei) => sorted.findIndex((other) => other >= wei) / Math.max(sorted.length - 1, 1);
    return cells.map(({ day, hours }) => ({
        day,
        hours: hours.map((prices, hour) => {
            const name = `${day} ${String(hour).padStart(2, "0")}:00`;
            if (prices.length === 0) return { text: `${name}: not known` };
            const wei = prices.reduce((one, other) => one + other) / BigInt(prices.length);
            const nearest = prices.length === 1 ? wei : sorted.find((other) => other >= wei) ?? wei;
            return { text: `${name}: ${price(wei)}`, shade: Math.min(Math.floor(rank(nearest) * SHADES), SHADES - 1) };
        }),
    }));
}

function compare(one, other) {
    return one < other ? -1 : one > other ? 1 : 0;
}
