// Texts for amounts, times and states. Pure functions without access to the page or the network.

import { staleAfter } from "./state.js";

// Maximum of the service's `covers_full_blocks`.
const MAX_COVERED_BLOCKS = 100;
// Usual lag of the market data: the page requests it only after the event with the price.
const USUAL_LAG_BLOCKS = 2;
export const TITLE = "Gas prices";
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STALLED = "Stale: no new block";

const SCORE_ROWS = [
    {
        label: "Covered the base fee 5 blocks later",
        name: "covered.5",
        value: ({ covered }) => covered["5"],
        format: shareText,
    },
    {
        label: "Outbid a tenth of the next block",
        name: "outbid.10",
        value: ({ outbid }) => outbid["10"],
        format: shareText,
    },
    {
        label: "Outbid half of the next block",
        name: "outbid.50",
        value: ({ outbid }) => outbid["50"],
        format: shareText,
    },
    {
        label: "Multiple of the fair price paid (median)",
        name: "price_over_fair",
        value: ({ price_over_fair: price }) => price.p50,
        format: timesText,
    },
];
// By the service's `null_reasons`.
const NULL_REASONS = {
    percentile_not_polled: "the service does not request this reward percentile (score.percentiles)",
    nothing_judged: "no block to compare with yet",
    none_outbid: "no suggestion outbid a tenth of the next block",
    fair_price_zero: "the fair price is 0",
    not_mined_yet: "the block is not mined yet",
};
const SCORE_NOTE =
    "The blocks that followed are compared with the suggestions; no transaction was sent. The fair price is the next " +
    "block’s base fee and the tip that outbids a tenth of it.";

/**
 * Converts wei to gwei, exact to the last digit.
 *
 * @param {string} wei decimal digits
 */
export function gwei(wei) {
    const digits = BigInt(wei).toString().padStart(10, "0");
    const fraction = digits.slice(-9).replace(/0+$/, "");
    return digits.slice(0, -9) + (fraction && `.${fraction}`);
}

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

/** Formats the number of full blocks for which a price suffices. */
export function blocksCovered(count) {
    if (count >= MAX_COVERED_BLOCKS) return `${MAX_COVERED_BLOCKS} or more`;
    return String(count);
}

/** Formats a ratio as a percentage; `null` if unknown. */
function percent(ratio) {
    return ratio === null ? "unknown" : `${Math.round(ratio * 100)} %`;
}

/**
 * Returns everything that a chain's card shows.
 *
 * @param {import('./state.js').Chain} chain
 * @param {import('./state.js').Connection} connection
 * @param {number} now
 */
export function cardView(chain, connection, now) {
    const { name, suggestion, block } = chain;
    const isLive = chain.isContinuous && !["interrupted", "disconnected"].includes(connection);
    const sinceBlockMs = chain.blockArrivedAt === undefined ? undefined : now - chain.blockArrivedAt;
    const age = chain.age && ago(now - chain.age.at + chain.age.atLeast);
    const [state, problem] = cardState(chain, isLive, connection, now);
    return {
        name,
        id: `chain id ${chain.id}`,
        state,
        problem,
        isLive,
        block: block === undefined ? undefined : String(block),
        age: age && `read ${age}`,
        bar: isLive && chain.blockArrivedAt !== undefined ? progressBar(chain) : undefined,
        next: nextBlockRow(chain, isLive, sinceBlockMs),
        tiers: suggestion && ["medium", "high"].map((tier) => tierRows(name, suggestion, tier)),
        baseFee: suggestion?.type === "eip-1559" ? suggestion.base_fee_per_gas : undefined,
        market: chain.market && marketView(chain.market, block),
        score: chain.score && scoreView(chain.score),
    };
}

function nextBlockRow({ block, blockTimeMs }, isLive, sinceBlockMs) {
    if (block === undefined) return undefined;
    return isLive ? nextBlockText(sinceBlockMs, blockTimeMs) : "unknown";
}

/** Returns start and duration of the bar that runs until the next block is due. */
function progressBar({ blockArrivedAt, blockTimeMs }) {
    return { from: blockArrivedAt, milliseconds: blockTimeMs };
}

function tierRows(name, suggestion, tier) {
    const { max_fee_per_gas: max, max_priority_fee_per_gas: priority } = suggestion[tier];
    const amounts =
        suggestion.type === "legacy"
            ? { "Gas price": max }
            : { "Max fee": max, "Priority fee": priority };
    return Object.entries(amounts).map(([label, wei]) => ({
        label,
        wei,
        description: `${tier} ${label.toLowerCase()} of ${name}`,
    }));
}

/** Returns what the card shows of a fee market. `newest` is the block of the price. */
function marketView(market, newest) {
    const { covers_full_blocks: covers, gas_used_ratio: used, window } = market;
    const next = market.next_base_fee_per_gas;
    return {
        block: String(market.newest_block),
        behind: lagText(newest - market.newest_block),
        nextBaseFee: next === null ? "unknown" : `${gwei(next)} gwei`,
        averageBaseFee: `${gwei(market.average_base_fee_per_gas)} gwei`,
        averageOf: `over ${window.blocks} ${window.blocks === 1 ? "block" : "blocks"}`,
        trend: market.base_fee_trend,
        gasUsed: `${percent(used.latest)}, on average ${percent(used.average)}`,
        covers: { medium: blocksCovered(covers.medium), high: blocksCovered(covers.high) },
        warning: floorWarning(market.floors_above_market ?? {}),
    };
}

/** Returns a sentence about floors that are far above what the market pays; empty if none is. */
function floorWarning({ base_fee: baseFee, priority_fee: priorityFee }) {
    const floors = [baseFee && "base fee", priorityFee && "priority fee"].filter(Boolean);
    if (floors.length === 0) return "";
    return `The configured minimum of the ${floors.join(" and of the ")} is more than ten times what the market pays.`;
}

/** Returns what the card shows of a score. */
function scoreView({ window, tips_decide: tipsDecide, tiers }) {
    const rows = scoreRows(tiers.medium).map(({ label, name, value, format }) => {
        const cells = [tiers.medium, tiers.high].map((tier) => {
            const known = value(tier);
            if (Number.isFinite(known)) return { text: format(known) };
            return { text: "–", reason: NULL_REASONS[tier.null_reasons[name]] ?? "not known" };
        });
        return { label, cells };
    });
    const reasons = rows.flatMap(({ cells }) => cells.map(({ reason }) => reason)).filter(Boolean);
    const notes = [...new Set(reasons)].map((reason) => `–: ${reason}`);
    if (tipsDecide === false) notes.push("No block paid a tip at its median: any tip is enough.");
    return {
        title: window.heads === 1 ? "How the last suggestion did" : `How the last ${window.heads} suggestions did`,
        rows,
        notes: [...notes, SCORE_NOTE],
    };
}

/** Returns the rows of a score. If percentile 10 is not requested, each one that is has a row. */
function scoreRows({ outbid, null_reasons: nullReasons }) {
    if (nullReasons["outbid.10"] !== "percentile_not_polled") return SCORE_ROWS;
    const known = Object.keys(outbid).filter((percentile) => !["10", "50"].includes(percentile));
    const rows = known.map((percentile) => ({
        label: `Outbid ${percentile} % of the next block`,
        name: `outbid.${percentile}`,
        value: (tier) => tier.outbid[percentile],
        format: shareText,
    }));
    return [SCORE_ROWS[0], ...rows, ...SCORE_ROWS.slice(1)];
}

/** Formats a share of suggestions. Only all of them are 100 %, and only none of them 0 %. */
function shareText(share) {
    if (share === 0 || share === 1) return `${share * 100} %`;
    return `${Math.min(Math.max(Math.round(share * 1000) / 10, 0.1), 99.9)} %`;
}

function timesText(ratio) {
    return `${ratio < 100 ? ratio.toFixed(2) : Math.round(ratio)} ×`;
}

/** Returns a text if the market data lags by more than usual. It normally arrives a moment after the price. */
function lagText(blocks) {
    return blocks > USUAL_LAG_BLOCKS ? `, ${blocks} blocks behind` : "";
}

/** Returns a chain's state, and a sentence if something is wrong. */
function cardState(chain, isLive, connection, now) {
    if (chain.status === "unknown") return ["wait"];
    if (chain.status === "unavailable") {
        const sentences = {
            no_data: "No data received yet.",
            stale_data: "The newest data is too old to serve.",
        };
        return ["none", sentences[chain.errorCode] ?? "No data available."];
    }
    if (!isLive) return ["old"];
    if (chain.status === "fresh") return [connection === "polling" ? "polled" : "live"];
    // The service reports the age in whole seconds, rounded down.
    const isOld = chain.age && chain.age.atLeast + SECOND > staleAfter(chain);
    if (isOld) return ["stale", "Stale: the data is older than two block times."];
    const stalledMs = now - (chain.blockArrivedAt ?? chain.blockSeenAt);
    if (chain.blockArrivedAt !== undefined) return ["stale", `${STALLED} for ${duration(stalledMs)}.`];
    // The page did not see the block arrive, so it knows at most a lower bound of the time.
    return [
        "stale",
        stalledMs < MINUTE ? `${STALLED} for some time.` : `${STALLED} for at least ${duration(stalledMs)}.`,
    ];
}

/** Returns the text alternative of a chart. */
export function chartText(name, market) {
    const { nextBaseFee, averageBaseFee, averageOf, trend, gasUsed, block } = marketView(market);
    return (
        `Chart of ${name}’s recent blocks. At block ${block}: base fee ${trend}, ` +
        `${averageBaseFee} ${averageOf}, next ${nextBaseFee}; gas used ${gasUsed}.`
    );
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
            return `Live updates are not available; polling every ${pollMs / SECOND} s. Reconnecting…`;
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

/** Returns the window's title: the problem if there is one, or else the price of a single chain. */
export function windowTitle(cards, connection) {
    if (connection === "disconnected") return `Disconnected – ${TITLE}`;
    const outdated = cards.filter(({ state }) => ["stale", "none"].includes(state)).length;
    if (outdated > 0) return `${outdated} of ${cards.length} not up to date – ${TITLE}`;
    const [card] = cards;
    if (cards.length !== 1 || !card.isLive || !card.tiers) return TITLE;
    return `${gwei(card.tiers[0][0].wei)} gwei on ${card.name} – ${TITLE}`;
}
