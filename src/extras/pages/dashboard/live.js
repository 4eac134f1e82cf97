// Receives updates from the service: a stream with the events of all chains, polls of the list of chains for changes
// without an event, and fee markets, trends and scores on request. Has no access to the page.

import {
    connectionState,
    isHistory,
    isList,
    isMarket,
    isScore,
    isStreamSilent,
    isTrend,
    pollInterval,
    readEvent,
    retryDelay,
    splitMarkets,
} from "./state.js";
import { isFees } from "./tiers.js";

// Timeout of a request.
const TIMEOUT_MS = 5000;
// Minimum time between two fee market requests for a chain: blocks may arrive faster than a person can read.
const MIN_MARKET_INTERVAL_MS = 200;
// Minimum time between two requests for the fee markets of all chains.
const MIN_MARKETS_INTERVAL_MS = 2000;
// Interval of the requests of a hidden page.
const HIDDEN_INTERVAL_MS = 60_000;
// Timeout for opening the stream.
const OPEN_TIMEOUT_MS = 10_000;
// Maximum time for which this window leaves its connection to other windows.
const YIELD_MS = 60_000;
// A stream that was open for this long resets the back-off when it ends.
const STABLE_MS = 10_000;
// Problem codes of the service for a chain without a fee market.
const UNAVAILABLE = ["no_data", "stale_data"];

/**
 * @typedef {object} Listener
 * @property {(event: object, now: number) => void} onEvent
 * @property {(list: object[], sentAt: number, pollMs: number, servedAt: number) => void} onList `servedAt` is the
 *     time at which the service sent the list, by its own clock
 * @property {(key: string, response: object) => void} onMarket
 * @property {(responses: Map<number, object>) => void} onMarkets fee markets by chain id; empty if the request failed
 * @property {(key: string, score: object) => void} onScore
 * @property {() => void} onGap blocks may be missed from now on
 * @property {(connection: import('./state.js').Connection, reason?: string) => void} onConnection
 */

/** Connection to the service. It is active from its construction until `stop` is called. */
export class LiveUpdates {
    #base;
    /** @type {Listener} */
    #listener;
    #abort = new AbortController();
    #inputs = { stream: "opening", lastEventAt: -Infinity };
    /** @type {EventSource | undefined} */
    #source;
    #openedAt;
    #opening;
    #reopening;
    #failures = 0;
    // True while this window leaves its connection to other windows.
    #hasYielded = false;
    // For the open stream: the newest block of each chain's events, and true if no event has arrived since
    // `#previousList`.
    #streamedBlocks = new Map();
    #isQuiet = true;
    #previousList = [];
    #reason;
    #isPolling = false;
    #mustPollAgain = false;
    #nextPoll;
    #pollMs = pollInterval([]);
    // Chains with a recent fee market request, by key. The value is true if the market must be requested once more.
    #marketRequests = new Map();
    #isAskingMarkets = false;
    #mustAskMarketsAgain = false;
    #blocks;

    /**
     * @param {URL} base
     * @param {Listener} listener
     * @param {number} blocks on a chart, at most as many as every chain keeps
     */
    constructor(base, listener, blocks) {
        this.#base = base;
        this.#blocks = blocks;
        this.#listener = listener;
        // A browser without event sources polls.
        if ("EventSource" in globalThis) this.#openStream();
        else this.#inputs = { stream: "lost", lostAt: -Infinity, lastEventAt: -Infinity };
        this.#poll();
    }

    get isStopped() {
        return this.#abort.signal.aborted;
    }

    stop() {
        this.#abort.abort();
        this.#source?.close();
        for (const timer of [this.#opening, this.#reopening, this.#nextPoll]) clearTimeout(timer);
    }

    /** Requests the fee market of a chain. Calls that follow each other quickly are combined. */
    async requestMarket(key) {
        const isTooSoon = this.#marketRequests.has(key);
        this.#marketRequests.set(key, isTooSoon);
        if (isTooSoon) return;
        do {
            this.#marketRequests.set(key, false);
            const sentAt = performance.now();
            const path = `v1/${encodeURIComponent(key)}/fee-market`;
            const { status, headers, json } = await this.#get(path);
            if (this.#abort.signal.aborted) return;
            if (status === 200 && isMarket(json)) {
                const ageMs = Number(headers.get("age")) * 1000 || 0;
                this.#listener.onMarket(key, { market: json, ageMs, sentAt });
            } else if (status === 503 && UNAVAILABLE.includes(json?.code)) {
                this.#listener.onMarket(key, { code: json.code, sentAt });
            }
            const delay = sentAt + MIN_MARKET_INTERVAL_MS - performance.now();
            if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
            if (this.#abort.signal.aborted) return;
        } while (this.#marketRequests.get(key));
        this.#marketRequests.delete(key);
    }

    /** Requests the fee markets of all chains. Calls that follow each other quickly are combined. */
    async requestMarkets() {
        this.#mustAskMarketsAgain = this.#isAskingMarkets;
        if (this.#isAskingMarkets) return;
        this.#isAskingMarkets = true;
        do {
            this.#mustAskMarketsAgain = false;
            const nextAt = performance.now() + MIN_MARKETS_INTERVAL_MS;
            const responses = await getMarkets(this.#base, this.#abort.signal);
            if (!this.#abort.signal.aborted) this.#listener.onMarkets(responses ?? new Map());
            await new Promise((resolve) => setTimeout(resolve, nextAt - performance.now()));
            if (this.#abort.signal.aborted) return;
        } while (this.#mustAskMarketsAgain);
        this.#isAskingMarkets = false;
    }

    /** Requests the score of a chain. */
    async requestScore(key) {
        const { status, json } = await this.#get(`v1/${encodeURIComponent(key)}/score`);
        if (status === 200 && isScore(json)) this.#listener.onScore(key, json);
    }

    /** Requests the fees of a chain by horizon and probability. Returns `undefined` if the service has none. */
    async requestFees(key) {
        const { status, json } = await this.#get(`v1/${encodeURIComponent(key)}/fees`);
        return status === 200 && isFees(json) ? json : undefined;
    }

    /** Requests the cost of a transaction. Returns `undefined` if it is not known. */
    async requestCost(key, { gas, bytes, ...more }) {
        const query = new URLSearchParams({ gas, bytes, ...more });
        const { status, json } = await this.#get(`v1/${encodeURIComponent(key)}/cost?${query}`);
        return status === 200 ? json : undefined;
    }

    /** Requests the trend of a chain's fees. Returns `undefined` if the service has none. */
    async requestTrend(key, period) {
        const { status, json } = await this.#get(`v1/${encodeURIComponent(key)}/fee-trend?period=${period}`);
        return status === 200 && isTrend(json) ? json : undefined;
    }

    /** Requests the newest blocks of a chain. Returns `undefined` if they are not available. */
    async requestBlocks(key) {
        const { status, json } = await this.#get(`v1/${encodeURIComponent(key)}/fee-history?blocks=${this.#blocks}`);
        return status === 200 && isHistory(json) ? json : undefined;
    }

    #openStream() {
        this.#streamedBlocks.clear();
        this.#previousList = [];
        this.#hasYielded = false;
        this.#openedAt = undefined;
        const source = new EventSource(new URL("v1/gas-suggestions/stream", this.#base));
        this.#source = source;
        this.#opening = setTimeout(() => this.#onStreamLost(), OPEN_TIMEOUT_MS);
        source.addEventListener("open", () => {
            clearTimeout(this.#opening);
            this.#openedAt = performance.now();
            const isReopened = this.#inputs.stream === "lost";
            this.#inputs.stream = "open";
            this.#report();
            // The service may have been restarted with other chains, so the list is polled at once.
            if (isReopened) this.#pollNow();
        });
        source.addEventListener("gas-suggestion", ({ lastEventId, data }) => {
            const event = readEvent(lastEventId, data);
            if (event === undefined) return;
            const now = performance.now();
            this.#inputs.lastEventAt = now;
            this.#streamedBlocks.set(event.chainId, event.block);
            this.#isQuiet = false;
            this.#listener.onEvent(event, now);
            this.#report();
        });
        // Browsers do not reconnect by themselves after a response that is not a stream.
        source.addEventListener("error", () => this.#onStreamLost());
    }

    /** Reopens a stream that ended or could not be opened, after a back-off delay. */
    #onStreamLost() {
        this.#hasYielded = false;
        const wasStable = performance.now() - this.#openedAt >= STABLE_MS;
        this.#failures = wasStable ? 0 : this.#failures + 1;
        this.#reopenAfter(retryDelay(this.#failures, Math.random()));
    }

    /** Closes the stream and opens another after `delay` milliseconds. */
    #reopenAfter(delay) {
        const now = performance.now();
        this.#source.close();
        clearTimeout(this.#opening);
        clearTimeout(this.#reopening);
        this.#reopening = setTimeout(() => this.#openStream(), delay);
        if (this.#inputs.stream === "lost") return;
        this.#inputs.stream = "lost";
        this.#inputs.lostAt = now;
        this.#listener.onGap();
        this.#report();
        this.#pollNow();
    }

    #pollNow() {
        if (this.#isPolling) this.#mustPollAgain = true;
        else this.#poll();
    }

    async #poll() {
        clearTimeout(this.#nextPoll);
        this.#isPolling = true;
        this.#mustPollAgain = false;
        const sentAt = performance.now();
        const { status, headers, json, isLate } = await this.#get("v1/chains");
        if (this.#abort.signal.aborted) return;
        if (isLate && this.#inputs.stream === "open") {
            // Either the service hangs, or the streams of other windows occupy all connections: a browser opens six per
            // host. This window closes its stream, so that the next poll shows which of the two it is.
            this.#isPolling = false;
            this.#hasYielded = true;
            this.#reopenAfter(YIELD_MS * (0.5 + Math.random() / 2));
            return;
        }
        const wasOk = this.#inputs.poll?.isOk;
        const isOk = status === 200 && isList(json);
        this.#inputs.poll = { isOk, sentAt };
        this.#reason = status > 0 && !isOk ? `status ${status}` : undefined;
        if (isOk) this.#onList(json, sentAt, Date.parse(headers.get("date")));
        else this.#onPollFailed(status, sentAt);
        if (isOk && wasOk === false && this.#inputs.stream === "lost" && this.#source) {
            // The service responds again, so the stream is reopened without further delay.
            this.#source.close();
            clearTimeout(this.#opening);
            clearTimeout(this.#reopening);
            this.#openStream();
        }
        this.#report();
        this.#isPolling = false;
        if (this.#mustPollAgain) this.#poll();
        else this.#nextPoll = setTimeout(() => this.#poll(), this.#pollMs);
    }

    #onList(list, sentAt, servedAt) {
        const isOpen = this.#inputs.stream === "open";
        if (isOpen && isStreamSilent(this.#streamedBlocks, this.#previousList, this.#isQuiet)) this.#onStreamLost();
        this.#previousList = list;
        this.#isQuiet = true;
        this.#pollMs = pollInterval(list.map((entry) => ({ blockTimeMs: entry.block_time_ms })));
        this.#listener.onList(list, sentAt, this.#pollMs, servedAt);
    }

    /** Handles a failed poll. Unless an event has arrived since it was sent, the stream may be dead too. */
    #onPollFailed(status, sentAt) {
        if (this.#inputs.lastEventAt > sentAt) return;
        this.#listener.onGap();
        if (status === 0 && (this.#inputs.stream !== "lost" || this.#hasYielded)) this.#onStreamLost();
    }

    #report() {
        this.#listener.onConnection(connectionState(this.#inputs), this.#reason);
    }

    #get(path) {
        return get(this.#base, path, this.#abort.signal);
    }
}

/** Updates of a hidden page: one request a minute. Active from its construction until `stop` is called. */
export class HiddenUpdates {
    #abort = new AbortController();
    #timer;

    /**
     * @param {URL} base
     * @param {(responses: Map<number, object> | undefined) => void} onMarkets receives the fee markets by chain id, or
     *     `undefined` if the service does not respond
     */
    constructor(base, onMarkets) {
        this.#timer = setInterval(async () => {
            const responses = await getMarkets(base, this.#abort.signal);
            if (!this.#abort.signal.aborted) onMarkets(responses);
        }, HIDDEN_INTERVAL_MS);
    }

    stop() {
        this.#abort.abort();
        clearInterval(this.#timer);
    }
}

/** Requests the fee markets of all chains. Returns them by chain id, or `undefined` without a valid response. */
async function getMarkets(base, signal) {
    const sentAt = performance.now();
    const { status, headers, json } = await get(base, "v1/fee-markets", signal);
    if (status !== 200 || !Array.isArray(json)) return undefined;
    return splitMarkets(json, Date.parse(headers.get("date")), sentAt);
}

/** Sends a GET request that bypasses caches. Returns status 0 if there is no response. */
async function get(base, path, abort) {
    // `AbortSignal.any` and `AbortSignal.timeout` are not in every browser.
    const controller = new AbortController();
    const stop = () => controller.abort();
    let isLate = false;
    const timer = setTimeout(() => {
        isLate = true;
        stop();
    }, TIMEOUT_MS);
    abort.addEventListener("abort", stop);
    if (abort.aborted) stop();
    try {
        const response = await fetch(new URL(path, base), { cache: "no-store", signal: controller.signal });
        const text = await response.text();
        return { status: response.status, headers: response.headers, json: parse(text) };
    } catch {
        return { status: 0, isLate };
    } finally {
        clearTimeout(timer);
        abort.removeEventListener("abort", stop);
    }
}

function parse(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}
