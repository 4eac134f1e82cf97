// What is known of the chains and of the connection, and what becomes of it by what the service says.
// Knows neither page nor network; instants are those of `performance.now()`.

/**
 * @typedef {object} Suggestion the five members of the interface
 *
 * @typedef {object} Chain
 * @property {string} key of the routes
 * @property {string} name
 * @property {number} id
 * @property {number} blockTimeMs
 * @property {'unknown' | 'fresh' | 'stale' | 'unavailable'} status
 * @property {string} [why] the service's code for why it is unavailable
 * @property {number} [block] the newest block, which the suggestion is of
 * @property {Suggestion} [suggestion]
 * @property {object} [market] the fee market, which may be that of another block
 * @property {{ atLeast: number, at: number }} [age] of the data, in milliseconds, at an instant
 * @property {number} [moved] when a new newest block was seen; absent if the page was not open then
 * @property {number} [since] when the newest block was first seen here
 * @property {number} heardAt when the last event came
 * @property {boolean} isWatched nothing was missed since it was last told
 *
 * @typedef {'opening' | 'live' | 'polling' | 'interrupted' | 'disconnected'} Connection
 */

const LEAST_STALE_MS = 2000;
const LEAST_PACE_MS = 2000;
const MOST_PACE_MS = 5000;
const FIRST_PAUSE_MS = 1000;
const MOST_PAUSE_MS = 15_000;

/** The age above which the service calls a chain's data stale. */
export function staleAfter({ blockTimeMs }) {
    return Math.max(2 * blockTimeMs, LEAST_STALE_MS);
}

/** How often to ask for the chains' states. */
export function paceOf(chains) {
    const shortest = Math.min(...chains.map(({ blockTimeMs }) => blockTimeMs), MOST_PACE_MS);
    return Math.max(shortest, LEAST_PACE_MS);
}

/**
 * How long to wait before the stream is opened again.
 *
 * @param {number} failures how often it broke off soon after it was opened, or was not opened
 * @param {number} chance from 0 to 1: not all pages are to come back at once
 */
export function pauseOf(failures, chance) {
    return Math.min(FIRST_PAUSE_MS * 2 ** failures, MOST_PAUSE_MS) * (0.5 + chance / 2);
}

/**
 * An event of the stream; nothing when it is none that can be read.
 *
 * @param {string} id chain id, newest block and entity tag with dashes between
 * @param {string} data
 */
export function readEvent(id, data) {
    const [, chainId, block] = /^(\d+)-(\d+)-./.exec(id) ?? [];
    const suggestion = parse(data);
    if (chainId === undefined || !isSuggestion(suggestion)) return undefined;
    return { chainId: Number(chainId), block: Number(block), suggestion };
}

/** Returns true if all that is shown of a fee market is in it. */
export function isMarket(market) {
    return (
        Number.isInteger(market?.newest_block) &&
        isSuggestion(market.suggestion) &&
        isWei(market.average_base_fee_per_gas) &&
        (market.next_base_fee_per_gas === null || isWei(market.next_base_fee_per_gas)) &&
        Number.isInteger(market.window?.blocks) &&
        [market.gas_used_ratio, market.covers_full_blocks].every((one) => one instanceof Object)
    );
}

/** A short name for a fee market, which another one does not have. */
export function markOf({ observed_at: _, ...market }) {
    let hash = 0;
    for (const character of JSON.stringify(market)) {
        hash = (Math.imul(hash, 31) + character.charCodeAt(0)) | 0;
    }
    return `${market.newest_block}-${(hash >>> 0).toString(36)}`;
}

/** Returns true if it is a list of chains. */
export function isList(list) {
    return Array.isArray(list) && list.every((entry) => typeof entry?.chain === "string");
}

function isSuggestion(value) {
    const tiers = [value?.medium, value?.high];
    const amounts = tiers.flatMap((tier) => [
        tier?.max_fee_per_gas,
        tier?.max_priority_fee_per_gas,
    ]);
    return [value?.base_fee_per_gas, ...amounts].every(isWei);
}

function isWei(text) {
    return typeof text === "string" && /^\d+$/.test(text);
}

function parse(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

/**
 * A chain as the list has it, of which nothing else is known.
 *
 * @returns {Chain}
 */
export function chainOf(entry) {
    return { ...configOf(entry), status: "unknown", heardAt: -Infinity, isWatched: false };
}

function configOf(entry) {
    const { chain: key, chain_name: name, chain_id: id, block_time_ms: blockTimeMs } = entry;
    return { key, name, id, blockTimeMs };
}

/** The same chain from when blocks may be missed, as the connection broke off. */
export function leave(chain) {
    return { ...chain, isWatched: false };
}

/** After an event of the stream. */
export function hear(chain, { block, suggestion }, now) {
    const isNew = block !== chain.block || !isEqual(suggestion, chain.suggestion);
    const { isWatched } = chain;
    return {
        ...at(chain, block, now),
        suggestion,
        status: block === chain.block && chain.status === "stale" ? "stale" : "fresh",
        why: undefined,
        // What the stream begins with may have been known for long.
        age: isWatched ? { atLeast: 0, at: now } : isNew ? undefined : chain.age,
        heardAt: now,
    };
}

/**
 * After an answer about the fee market.
 *
 * @param {Chain} chain
 * @param {{ market?: object, code?: string, ageMs?: number, sentAt: number }} answer the market, or
 *     the code of why there is none; how old it is; when it was asked for
 * @param {boolean} isStreaming whether events come
 * @param {number} now
 */
export function learn(chain, { market, code, ageMs, sentAt }, isStreaming, now) {
    const isOvertaken = chain.heardAt > sentAt;
    if (market === undefined) {
        if (isOvertaken) return chain;
        return { ...chain, ...NOTHING, status: "unavailable", why: code, isWatched: true };
    }
    const { newest_block: block, suggestion } = market;
    const isSame = block === chain.block && isEqual(suggestion, chain.suggestion);
    // It may come from another instance than the events do, which is behind.
    const isLower = isStreaming && block < chain.block;
    if ((isOvertaken && !isSame && !(block > chain.block)) || isLower) {
        // No longer the price, but the newest that is known of what stands behind one.
        const isNewer = block < chain.block && !(block <= chain.market?.newest_block);
        return isNewer ? { ...chain, market } : chain;
    }
    return {
        ...at(chain, block, now),
        suggestion,
        market,
        status: market.stale ? "stale" : "fresh",
        why: undefined,
        age: { atLeast: ageMs, at: sentAt },
    };
}

/** After a list of the chains that was asked for at `sentAt`, in which this is the chain's entry. */
export function list(chain, entry, sentAt) {
    const listed = { ...chain, ...configOf(entry) };
    if (chain.heardAt > sentAt) return listed;
    if (entry.status === "unavailable" && chain.status !== "unavailable") {
        return { ...listed, ...NOTHING, status: "unavailable", why: undefined, isWatched: true };
    }
    const isStale = entry.status === "stale" && entry.newest_block === chain.block;
    return isStale ? { ...listed, status: "stale" } : listed;
}

/** Returns true if the fee market has to be asked for after that list, as there may be no event for it. */
export function isBehind(chain, entry, now, paceMs) {
    const isKnown = entry.status === chain.status && entry.newest_block === (chain.block ?? null);
    if (!isKnown || chain.market?.newest_block !== chain.block) return true;
    if (chain.status === "unavailable") return chain.why === undefined;
    return chain.age === undefined || now - chain.age.at >= paceMs;
}

/** Members without data, for a chain whose data may not be shown any more. */
const NOTHING = {
    block: undefined,
    suggestion: undefined,
    market: undefined,
    age: undefined,
    moved: undefined,
    since: undefined,
};

function at(chain, block, now) {
    if (block === chain.block) return { ...chain, isWatched: true };
    const moved = chain.isWatched && chain.block !== undefined ? now : undefined;
    return { ...chain, block, moved, since: now, isWatched: true };
}

function isEqual(one, other) {
    return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * How the page is connected.
 *
 * @param {object} facts
 * @param {'opening' | 'open' | 'lost'} facts.stream
 * @param {number} [facts.lostAt] when the stream was lost
 * @param {number} facts.heardAt when the last event came
 * @param {{ isWell: boolean, sentAt: number }} [facts.poll] the last list of chains
 * @returns {Connection}
 */
export function connectionOf({ stream, lostAt, heardAt, poll }) {
    if (poll && !poll.isWell && heardAt <= poll.sentAt) return "disconnected";
    if (stream === "open") return "live";
    if (stream === "opening") return "opening";
    return poll?.isWell && poll.sentAt >= lostAt ? "polling" : "interrupted";
}

/**
 * Returns true if a stream that seems open tells nothing: a chain was further than the events by the list
 * before already, and no event has come since.
 *
 * @param {Map<number, number>} told the newest blocks by the events, by chain id
 * @param {object[]} before the list before
 * @param {boolean} isQuiet no event has come since that
 */
export function isSilent(told, before, isQuiet) {
    const isAhead = ({ chain_id: id, newest_block: block }) =>
        block !== null && block > (told.get(id) ?? -1);
    return isQuiet && before.some(isAhead);
}
