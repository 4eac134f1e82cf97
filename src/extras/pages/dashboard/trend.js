// The hours of a week by price, of a fee trend. Pure functions.

import { price } from "./amounts.js";
import { bucketPrice, compare } from "./points.js";

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
// Number of colours of the heat map.
const SHADES = 5;

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

