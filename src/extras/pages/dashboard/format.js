// Texts for times, and for the states of the connection and of chains. Pure functions without access to the page or the
// network.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Formats a duration in its two largest units, rounded down. */
export function duration(milliseconds) {
    const left = Math.max(milliseconds, 0);
    const count = (size) => Math.floor(left / size);
    const two = (size, name, part, partName) => {
        const rest = Math.floor((left % size) / part);
        return rest === 0 ? `${count(size)} ${name}` : `${count(size)} ${name} ${rest} ${partName}`;
    };
    if (left < MINUTE) return `${count(SECOND)} s`;
    if (left < HOUR) return two(MINUTE, "min", SECOND, "s");
    if (left < DAY) return two(HOUR, "h", MINUTE, "min");
    return two(DAY, "d", HOUR, "h");
}

/** Formats an age. */
export function ago(milliseconds) {
    return milliseconds < SECOND ? "just now" : `${duration(milliseconds)} ago`;
}

/** Formats an age in its largest unit, for places with little room. */
export function shortAgo(milliseconds) {
    return largestUnit(ago(milliseconds));
}

/** Formats since when something lasts, and how long: `since 22:21 (14 min)`, in the reader's time zone. */
export function sinceText(since, milliseconds) {
    const day = milliseconds < 20 * HOUR ? {} : { month: "short", day: "numeric" };
    const time = new Date(since).toLocaleString(undefined, { ...day, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    return `since ${time} (${largestUnit(duration(milliseconds))})`;
}

function largestUnit(text) {
    return text.replace(/^(\d+ \w+) \d+ \w+/, "$1");
}

/**
 * Formats the time until the next block.
 *
 * @param {number | undefined} sinceBlockMs time since the newest block arrived; `undefined` if unknown
 * @param {number} blockTimeMs
 */
export function nextBlockText(sinceBlockMs, blockTimeMs) {
    if (sinceBlockMs === undefined) return "not known yet";
    const left = blockTimeMs - sinceBlockMs;
    // The service polls about once per block time, so the arrival time is not more exact than that.
    if (-left >= Math.max(SECOND, blockTimeMs / 2)) return `overdue by ${duration(-left)}`;
    if (left <= 0) return "due now";
    return left < SECOND ? "in less than 1 s" : `in about ${duration(left + SECOND / 2)}`;
}

/**
 * Returns the banner's text; empty while the connection works. `isFirst` is true before the first list of chains.
 *
 * @param {{ connection: import('./state.js').Connection, since?: string, reason?: string,
 *     pollMs: number, isFirst: boolean }} status
 */
export function bannerText({ connection, since, reason, pollMs, isFirst }) {
    const details = reason ? ` (${reason})` : "";
    switch (connection) {
        case "interrupted":
            return isFirst ? "" : "Live updates lost. Reconnecting…";
        case "disconnected":
            return isFirst
                ? `No response from the service yet${details}. Retrying…`
                : `Disconnected from the service since ${since}${details}. Retrying…`;
        case "polling":
            return `Live updates are not available; polling every ${pollMs / SECOND} s.`;
        default:
            return isFirst ? "Loading prices…" : "";
    }
}

/** Returns the text that announces a change of a chain's state; empty if the change needs no announcement. */
export function announcementText(name, before, after) {
    // Without data, the reason follows a little later and is announced too. Other problems of the same state are not:
    // the duration of a stall changes all the time.
    const isSame = before.problem === after.problem || after.state !== "none";
    if (before.state === after.state && isSame) return "";
    if (after.state === "old" || after.state === "wait") return "";
    if (after.problem) return `${name}: ${after.problem}`;
    return ["stale", "none"].includes(before.state) ? `${name} is up to date again.` : "";
}
