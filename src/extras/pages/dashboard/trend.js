// What a fee trend says about when gas is cheap. Pure functions.

import { price } from "./amounts.js";
import { bucketPrice, compare } from "./points.js";

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const HOURS = 24;
const WEEK = WEEKDAYS.length * HOURS;
// Number of colours of the heat map.
const SHADES = 5;
// Hours that must be known before the page says which are cheap.
const MIN_HOURS = 24;
// A cheap hour is at least this much below the usual price, in percent.
const MIN_DEVIATION = 5n;
// Buckets of a day that must be known before the page suggests a limit.
const MIN_BUCKETS = 6;

/**
 * Returns the cells of the heat map by weekday and hour of the reader's time zone. The cheapest have the highest shade.
 *
 * @returns {{ day: string, hours: { text: string, shade?: number }[] }[]} Monday first; a cell without data has no shade
 */
export function heatMap({ buckets }) {
    const hours = weekHours(buckets);
    const sorted = buckets.map(bucketPrice).sort(compare);
    const rank = (wei) => sorted.findIndex((other) => other >= wei) / Math.max(sorted.length - 1, 1);
    return WEEKDAYS.map((day, index) => ({
        day,
        hours: hours.slice(index * HOURS, (index + 1) * HOURS).map((wei, hour) => {
            const name = `${day} ${clock(hour)}`;
            if (wei === undefined) return { text: `${name}: not known` };
            const nearest = sorted.find((other) => other >= wei) ?? wei;
            const shade = SHADES - 1 - Math.min(Math.floor(rank(nearest) * SHADES), SHADES - 1);
            return { text: `${name}: ${price(wei)}`, shade };
        }),
    }));
}

/**
 * Returns in words when gas was cheapest in the last week, and the next hours of the week that were cheap; empty if too
 * little is known.
 *
 * @param {Date} now
 */
export function cheapHoursText({ buckets }, now) {
    const hours = weekHours(buckets);
    const known = hours.filter((wei) => wei !== undefined).sort(compare);
    if (known.length < MIN_HOURS) return "";
    const [least, quarter, usual] = [known[0], known[Math.floor((known.length - 1) / 4)], known[known.length >> 1]];
    const isCheap = hours.map((wei) => wei !== undefined && wei <= quarter && 100n * wei <= (100n - MIN_DEVIATION) * usual);
    if (!isCheap.includes(true)) return "In the last week, no hour was much cheaper than the others.";
    const cheapest = runAround(isCheap, hours.indexOf(least));
    const below = (100n * (usual - least)) / usual;
    const text = `Usually cheapest: ${dayAndHours(cheapest)}, down to ${price(least)}, ${below} % below usual.`;
    const at = hourOfWeek(now);
    if (isCheap[at]) return `${text} The price is usually low now, until ${clock(endOf(isCheap, at) % HOURS)}.`;
    const ahead = Array.from({ length: WEEK }, (_, step) => (at + step) % WEEK).find((hour) => isCheap[hour]);
    const next = runAround(isCheap, ahead);
    return String(next) === String(cheapest) ? text : `${text} Next cheap hours: ${dayAndHours(next)}.`;
}

/** Returns the price that a quarter of the last 24 hours was not above; `undefined` if too little is known. */
export function cheapQuarter({ period, buckets }) {
    if (period !== "24h" || buckets.length < MIN_BUCKETS) return undefined;
    const sorted = buckets.map(bucketPrice).sort(compare);
    return sorted[Math.floor((sorted.length - 1) / 4)];
}

/** Returns the usual price in each hour of the week, Monday first; `undefined` for hours that are not known. */
function weekHours(buckets) {
    const prices = Array.from({ length: WEEK }, () => []);
    for (const bucket of buckets) prices[hourOfWeek(new Date(bucket.start))].push(bucketPrice(bucket));
    const mean = (some) => some.reduce((one, other) => one + other) / BigInt(some.length);
    return prices.map((some) => (some.length === 0 ? undefined : mean(some)));
}

function hourOfWeek(date) {
    return ((date.getDay() + 6) % WEEKDAYS.length) * HOURS + date.getHours();
}

/** Returns the first hour and the end of the cheap hours around one. The week is a circle. */
function runAround(isCheap, hour) {
    let from = hour;
    while (isCheap[(from - 1 + WEEK) % WEEK] && from > hour - WEEK) from -= 1;
    return [(from + WEEK) % WEEK, endOf(isCheap, hour)];
}

function endOf(isCheap, hour) {
    let end = hour + 1;
    while (isCheap[end % WEEK] && end < hour + WEEK) end += 1;
    return end % WEEK;
}

function dayAndHours([from, end]) {
    const day = (hour) => WEEKDAYS[Math.floor(hour / HOURS)];
    const isSameDay = day(from) === day((end - 1 + WEEK) % WEEK);
    return `${day(from)} ${clock(from % HOURS)} to ${isSameDay ? "" : `${day(end)} `}${clock(end % HOURS)}`;
}

function clock(hour) {
    return `${String(hour).padStart(2, "0")}:00`;
}
