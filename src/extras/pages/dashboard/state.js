// The state of the chains and of the connection, and how each message of the service changes it. Pure functions
// without access to the page or the network. Points in time are in milliseconds of `performance.now()`.

import { expectedPrice, isWei } from "./amounts.js";
import { isTier } from "./tiers.js";

/**
 * @typedef {object} Suggestion the body of the gas-suggestion route
 *
 * @typedef {object} Chain
 * @property {string} key the chain's key in the routes
 * @property {string} name
 * @property {number} id
 * @property {number} blockTimeMs
 * @property {'unknown' | 'fresh' | 'stale' | 'unavailable'} status
 * @property {string} [errorCode] the problem code of the service while the chain is unavailable
 * @property {boolean} [wasRead] false if the service never had data of the chain
 * @property {{ atLeast: number, at: number, since: number }} [silence] time since the service's last reply of a node, at
 *     the time `at`; and when that was, in milliseconds since 1970
 * @property {{ atLeast: number, at: number, block: number }} [standing] age of the newest block that the list has
 * @property {{ cells: object[], block: number, at: number } | null} [fees] fees by horizon and probability; `null` if the
 *     service has none
 * @property {object} [dataFees] fees for the data of transactions, from the route `cost`
 * @property {bigint} [pastPrice] usual medium price of the newest trend, for a chain without data
 * @property {number} [block] the newest block; the suggestion belongs to it
 * @property {Suggestion} [suggestion]
 * @property {object} [market] the fee market, possibly of another block
 * @property {string | null} [nextBefore] `next_base_fee_per_gas` of the market before, of another block
 * @property {object} [score] the body of the score route
 * @property {{ block: number, wei: bigint }[]} [history] expected medium prices that this page saw, oldest first
 * @property {{ market: object, age: object }} [last] the last known market of a chain without data
 * @property {{ atLeast: number, at: number }} [age] minimum age of the data in milliseconds, at the time `at`
 * @property {number} [blockArrivedAt] when the newest block arrived; absent if this page did not see it arrive
 * @property {number} [blockSeenAt] when this page first saw the newest block
 * @property {number} lastEventAt when the last event arrived
 * @property {boolean} isContinuous true while no change can have been missed since the last update
 *
 * @typedef {'opening' | 'live' | 'polling' | 'interrupted' | 'disconnected'} Connection
 */

const MIN_STALE_MS = 2000;
const MIN_POLL_MS = 2000;
const MAX_POLL_MS = 5000;
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 15_000;
const SCORE_INTERVAL_MS = 60_000;
// Delay before a score that could not be loaded is requested again.
const SCORE_RETRY_MS = 10_000;
// Minimum time between two requests for the fees by horizon.
const FEES_INTERVAL_MS = 5000;
// Prices that a sparkline shows.
const HISTORY_LENGTH = 60;

/** Returns the age in milliseconds above which the service reports a chain's data as stale. */
export function staleAfter({ blockTimeMs }) {
    return Math.max(2 * blockTimeMs, MIN_STALE_MS);
}

/** Returns the poll interval of the list of chains in milliseconds: the shortest block time, within bounds. */
export function pollInterval(chains) {
    const shortest = Math.min(...chains.map(({ blockTimeMs }) => blockTimeMs), MAX_POLL_MS);
    return Math.max(shortest, MIN_POLL_MS);
}

/**
 * Returns the delay in milliseconds before the stream is reopened. It doubles with every failure, up to a maximum.
 *
 * @param {number} failures number of consecutive streams that could not be opened or ended early
 * @param {number} chance random number from 0 to 1, which spreads the reconnections of many pages
 */
export function retryDelay(failures, chance) {
    return Math.min(FIRST_RETRY_MS * 2 ** failures, MAX_RETRY_MS) * (0.5 + chance / 2);
}

/**
 * Parses an event of the stream. Returns `undefined` if it is malformed.
 *
 * @param {string} id chain id, newest block and entity tag, separated by dashes
 * @param {string} data
 */
export function readEvent(id, data) {
    const [, chainId, block] = /^(\d+)-(\d+)-./.exec(id) ?? [];
    const suggestion = parse(data);
    if (chainId === undefined || !isSuggestion(suggestion)) return undefined;
    return { chainId: Number(chainId), block: Number(block), suggestion };
}

/** Returns true if `market` has every member that the page shows. */
export function isMarket(market) {
    return (
        Number.isInteger(market?.newest_block) &&
        isSuggestion(market.suggestion) &&
        isTier(market.low) &&
        isWei(market.average_base_fee_per_gas) &&
        (market.next_base_fee_per_gas === null || isWei(market.next_base_fee_per_gas)) &&
        Number.isInteger(market.window?.blocks) &&
        Array.isArray(market.average_reward_per_gas) &&
        market.average_reward_per_gas.every((reward) => reward === null || isWei(reward)) &&
        ["low", "normal", "high", null].includes(market.level) &&
        (market.level_deviation === null || Number.isFinite(market.level_deviation)) &&
        ["low", "medium", "high"].every((tier) => isWei(market.expected_price_per_gas?.[tier])) &&
        [market.gas_used_ratio, market.covers_full_blocks].every((one) => one instanceof Object)
    );
}

/** Returns true if `score` has every member that the page shows. */
export function isScore(score) {
    const isKnownTier = (tier) =>
        [tier?.covered, tier?.outbid, tier?.price_over_fair, tier?.null_reasons].every((one) => one instanceof Object);
    return Number.isInteger(score?.window?.heads) && isKnownTier(score.tiers?.medium) && isKnownTier(score.tiers.high);
}

/** Returns a short key that changes when anything in the fee market except `observed_at` changes. */
export function marketKey({ observed_at: _, ...market }) {
    let hash = 0;
    for (const character of JSON.stringify(market)) {
        hash = (Math.imul(hash, 31) + character.charCodeAt(0)) | 0;
    }
    return `${market.newest_block}-${(hash >>> 0).toString(36)}`;
}

/** Returns true if `list` is a list of chains. */
export function isList(list) {
    return Array.isArray(list) && list.every((entry) => typeof entry?.chain === "string");
}

function isSuggestion(value) {
    return isWei(value?.base_fee_per_gas) && isTier(value.medium) && isTier(value.high);
}

function parse(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

/**
 * Creates a chain from its entry in the list, without data.
 *
 * @returns {Chain}
 */
export function newChain(entry) {
    return { ...configFrom(entry), status: "unknown", lastEventAt: -Infinity, isContinuous: false };
}

function configFrom(entry) {
    const { chain: key, chain_name: name, chain_id: id, block_time_ms: blockTimeMs } = entry;
    return { key, name, id, blockTimeMs };
}

/** Marks that blocks may be missed from now on, because the connection was lost. */
export function applyGap(chain) {
    return { ...chain, isContinuous: false };
}

/** Applies an event of the stream. */
export function applyEvent(chain, { block, suggestion }, now) {
    const isNew = block !== chain.block || !isEqual(suggestion, chain.suggestion);
    const { isContinuous } = chain;
    return {
        ...withBlock(chain, block, now),
        suggestion,
        status: block === chain.block && chain.status === "stale" ? "stale" : "fresh",
        errorCode: undefined,
        // The first event of a stream repeats the current state, which may be old.
        age: isContinuous ? { atLeast: 0, at: now } : isNew ? undefined : chain.age,
        lastEventAt: now,
    };
}

/**
 * Applies a response of the fee market route.
 *
 * @param {Chain} chain
 * @param {{ market?: object, code?: string, ageMs?: number, sentAt: number }} response the market with its
 *     age, or the problem code; and when the request was sent
 * @param {boolean} isStreaming true while the stream is open
 * @param {number} now
 */
export function applyMarketResponse(chain, { market, code, ageMs, sentAt }, isStreaming, now) {
    const isOvertaken = chain.lastEventAt > sentAt;
    if (market === undefined) {
        if (isOvertaken) return chain;
        return { ...withoutData(chain), status: "unavailable", errorCode: code, isContinuous: true };
    }
    const { newest_block: block, suggestion } = market;
    const { market: before } = chain;
    const nextBefore = block === before?.newest_block ? chain.nextBefore : before?.next_base_fee_per_gas;
    const isSame = block === chain.block && isEqual(suggestion, chain.suggestion);
    // The response may come from another replica than the stream, and that replica may be behind.
    const isLower = isStreaming && block < chain.block;
    if ((isOvertaken && !isSame && !(block > chain.block)) || isLower) {
        // The price in the response is outdated, but its market data is the newest so far.
        const isNewer = block < chain.block && !(block <= chain.market?.newest_block);
        return isNewer ? { ...chain, market, nextBefore } : chain;
    }
    return {
        ...withBlock(chain, block, now),
        suggestion,
        market,
        nextBefore,
        history: withPrice(chain.history, market),
        status: market.stale ? "stale" : "fresh",
        errorCode: undefined,
        age: { atLeast: ageMs, at: sentAt },
    };
}

/** Applies the chain's `entry` in a list of chains that was requested at `sentAt` and sent at `servedAt`. */
export function applyListEntry(chain, entry, sentAt, servedAt = NaN) {
    const ages = agesFrom(entry, sentAt, servedAt);
    const listed = { ...chain, ...configFrom(entry), wasRead: entry.newest_block !== null, ...ages };
    if (chain.lastEventAt > sentAt) return listed;
    if (entry.status === "unavailable" && chain.status !== "unavailable") {
        return { ...withoutData(listed), status: "unavailable", errorCode: codeOf(entry), isContinuous: true };
    }
    const isStale = entry.status === "stale" && entry.newest_block === chain.block;
    return isStale ? { ...listed, status: "stale" } : listed;
}

/** Returns the problem code with which the service answers for a chain without data. */
function codeOf({ reason }) {
    return reason && (reason === "no_data" ? "no_data" : "stale_data");
}

/** Returns the ages in an entry, by the service's clock. */
function agesFrom({ newest_block: block, newest_block_at: blockAt, observed_at: observedAt }, sentAt, servedAt) {
    const age = (time) => {
        const since = Date.parse(time ?? "");
        return Number.isFinite(servedAt - since) ? { atLeast: Math.max(servedAt - since, 0), at: sentAt, since } : undefined;
    };
    const standing = age(blockAt);
    return { silence: age(observedAt), standing: standing && { ...standing, block } };
}

/** Returns true if the service has earlier prices of the chain. */
export function hasHistory({ suggestion, status, wasRead }) {
    return suggestion !== undefined || (status === "unavailable" && wasRead === true);
}

/** Returns true if the page must request the fees of a visible card, which it last requested at `askedAt`. */
export function needsFees({ market, fees, status }, askedAt, now) {
    if (!market?.fees_ready || status === "unavailable") return false;
    return fees?.block !== market.newest_block && now - askedAt >= FEES_INTERVAL_MS;
}

/** Returns true if the service has said that, and why, the chain has no fee market. A request for it would fail. */
export function isWithoutMarket({ status, errorCode }) {
    return status === "unavailable" && errorCode !== undefined;
}

/** Returns true if the page must request the fee market after this list, because no event may report the change. */
export function needsMarket(chain, entry, now, pollMs) {
    if (entry.status === "unavailable" && isWithoutMarket(chain)) return false;
    const isKnown = entry.status === chain.status && entry.newest_block === (chain.block ?? null);
    if (!isKnown || chain.market?.newest_block !== chain.block) return true;
    return chain.age === undefined || now - chain.age.at >= pollMs;
}

/** Returns true if the page must request the score of a visible card, which it last requested at `askedAt`. */
export function needsScore(chain, askedAt, now) {
    const interval = chain.score === undefined ? SCORE_RETRY_MS : SCORE_INTERVAL_MS;
    return chain.suggestion !== undefined && now - askedAt >= interval;
}

/**
 * Returns the responses of single chains that a list of fee markets amounts to, by chain id.
 *
 * @param {object[]} markets
 * @param {number} servedAt time at which the service sent the list, by its own clock
 * @param {number} sentAt when the request was sent
 */
export function splitMarkets(markets, servedAt, sentAt) {
    const responses = new Map();
    for (const market of markets.filter(isMarket)) {
        const ageMs = Math.max(servedAt - Date.parse(market.observed_at), 0) || 0;
        responses.set(market.chain_id, { market, ageMs, sentAt });
    }
    return responses;
}

/** Returns true if `trend` has every member that the page shows. */
export function isTrend(trend) {
    const isRange = (range, isValue) => [range?.min, range?.median, range?.max].every(isValue);
    const isBucket = (bucket) =>
        !Number.isNaN(Date.parse(bucket?.start)) &&
        isRange(bucket.base_fee_per_gas, isWei) &&
        isRange(bucket.max_priority_fee_per_gas, isWei) &&
        (bucket.gas_used_ratio === null || isRange(bucket.gas_used_ratio, Number.isFinite));
    return Array.isArray(trend?.buckets) && trend.buckets.every(isBucket);
}

/** Returns true if `history` has every member that the chart shows. */
export function isHistory(history) {
    const isBlock = (block) =>
        Number.isInteger(block?.number) &&
        isWei(block.base_fee_per_gas) &&
        (block.rewards ?? []).every((reward) => reward === null || isWei(reward));
    return Array.isArray(history?.reward_percentiles) && Array.isArray(history.blocks) && history.blocks.every(isBlock);
}

/** Adds the expected price of a block to the prices of a sparkline. */
function withPrice(history = [], market) {
    const point = { block: market.newest_block, wei: expectedPrice(market, "medium") };
    const newest = history.at(-1);
    if (newest?.block === point.block && newest.wei === point.wei) return history;
    const others = newest?.block === point.block ? history.slice(0, -1) : history;
    return [...others, point].slice(-HISTORY_LENGTH);
}

/** Adds the prices of these blocks, of the fee-history route, before those that the page has seen. */
export function applyBlocks(chain, blocks) {
    const { history = [] } = chain;
    const earlier = blocks
        .filter(({ number, rewards }) => !(number >= history[0]?.block) && isWei(rewards?.[0]))
        .map(({ number, base_fee_per_gas: base, rewards }) => ({ block: number, wei: BigInt(base) + BigInt(rewards[0]) }));
    return { ...chain, history: [...earlier, ...history].slice(-HISTORY_LENGTH) };
}

/** Removes data that must no longer be shown as current, and keeps the last market. */
function withoutData(chain) {
    const last = chain.market ? { market: chain.market, age: chain.age } : chain.last;
    return { ...chain, ...NO_DATA, last };
}

/** Empty members for a chain whose data must no longer be shown. */
const NO_DATA = {
    block: undefined,
    suggestion: undefined,
    market: undefined,
    nextBefore: undefined,
    score: undefined,
    fees: undefined,
    age: undefined,
    blockArrivedAt: undefined,
    blockSeenAt: undefined,
};

function withBlock(chain, block, now) {
    if (block === chain.block) return { ...chain, isContinuous: true };
    const blockArrivedAt = chain.isContinuous && chain.block !== undefined ? now : undefined;
    return { ...chain, block, blockArrivedAt, blockSeenAt: now, isContinuous: true };
}

function isEqual(one, other) {
    return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * Derives the state of the page's connection.
 *
 * @param {object} inputs
 * @param {'opening' | 'open' | 'lost'} inputs.stream
 * @param {number} [inputs.lostAt] when the stream was lost
 * @param {number} inputs.lastEventAt when the last event arrived
 * @param {{ isOk: boolean, sentAt: number }} [inputs.poll] the last poll of the list of chains
 * @returns {Connection}
 */
export function connectionState({ stream, lostAt, lastEventAt, poll }) {
    if (poll && !poll.isOk && lastEventAt <= poll.sentAt) return "disconnected";
    if (stream === "open") return "live";
    if (stream === "opening") return "opening";
    return poll?.isOk && poll.sentAt >= lostAt ? "polling" : "interrupted";
}

/**
 * Returns true if an open stream delivers no events: a chain in the previous list was already ahead of its events,
 * and no event has arrived since.
 *
 * @param {Map<number, number>} streamedBlocks the newest block of each chain's events, by chain id
 * @param {object[]} previousList the previous list of chains
 * @param {boolean} isQuiet true if no event has arrived since that list
 */
export function isStreamSilent(streamedBlocks, previousList, isQuiet) {
    const isAhead = ({ chain_id: id, newest_block: block }) =>
        block !== null && block > (streamedBlocks.get(id) ?? -1);
    return isQuiet && previousList.some(isAhead);
}
