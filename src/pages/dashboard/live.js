// Keeps up with the service: one stream of all chains' events, beside it polls of the list of chains,
// which see what no event tells, and the fee markets when they are asked for. Knows no page.

import { connectionOf, isList, isMarket, isSilent, paceOf, pauseOf, readEvent } from "./state.js";

// For an answer.
const PATIENCE_MS = 5000;
// Shortest time between two requests for a chain: blocks may come faster than a person can read.
const LEAST_ASK_MS = 200;
// For a stream to begin.
const OPENING_MS = 10_000;
// How long other windows have a connection for themselves.
const CROWDED_MS = 60_000;
// A stream that lasted for so long had not failed.
const STEADY_MS = 10_000;
// What the service says of a chain that has no fee market.
const UNAVAILABLE = ["no_data", "stale_data"];

/**
 * @typedef {object} Listener
 * @property {(event: object, now: number) => void} event
 * @property {(list: object[], sentAt: number, paceMs: number) => void} list
 * @property {(key: string, answer: object) => void} market
 * @property {() => void} gap blocks may be missed from now on
 * @property {(connection: import('./state.js').Connection, reason?: string) => void} connection
 */

/** From its construction until it is ended. */
export class Live {
    #base;
    /** @type {Listener} */
    #tell;
    #end = new AbortController();
    #facts = { stream: "opening", heardAt: -Infinity };
    /** @type {EventSource | undefined} */
    #source;
    #openedAt;
    #opening;
    #reopening;
    #failures = 0;
    // Whether the stream was left to other windows.
    #isAside = false;
    // Of the stream that is open: the newest blocks by it, and whether it told anything since `#list`.
    #told = new Map();
    #isQuiet = true;
    #list = [];
    #reason;
    #isPolling = false;
    #pollsAgain = false;
    #nextPoll;
    #paceMs = paceOf([]);
    // By the key of each chain that was asked about just now, whether that has to be done once more.
    #asked = new Map();

    /**
     * @param {URL} base
     * @param {Listener} tell
     */
    constructor(base, tell) {
        this.#base = base;
        this.#tell = tell;
        this.#open();
        this.#poll();
    }

    end() {
        this.#end.abort();
        this.#source?.close();
        for (const timer of [this.#opening, this.#reopening, this.#nextPoll]) clearTimeout(timer);
    }

    /** Asks for the fee market of a chain; where that was done just now, once more after a moment. */
    async ask(key) {
        const isTooSoon = this.#asked.has(key);
        this.#asked.set(key, isTooSoon);
        if (isTooSoon) return;
        do {
            this.#asked.set(key, false);
            const sentAt = performance.now();
            const path = `v1/${encodeURIComponent(key)}/fee-market`;
            const { status, headers, json } = await this.#get(path);
            if (this.#end.signal.aborted) return;
            if (status === 200 && isMarket(json)) {
                const ageMs = Number(headers.get("age")) * 1000 || 0;
                this.#tell.market(key, { market: json, ageMs, sentAt });
            } else if (status === 503 && UNAVAILABLE.includes(json?.code)) {
                this.#tell.market(key, { code: json.code, sentAt });
            }
            const rest = sentAt + LEAST_ASK_MS - performance.now();
            if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
            if (this.#end.signal.aborted) return;
        } while (this.#asked.get(key));
        this.#asked.delete(key);
    }

    #open() {
        this.#told.clear();
        this.#list = [];
        this.#isAside = false;
        this.#openedAt = undefined;
        const source = new EventSource(new URL("v1/gas-suggestions/stream", this.#base));
        this.#source = source;
        this.#opening = setTimeout(() => this.#lose(), OPENING_MS);
        source.addEventListener("open", () => {
            clearTimeout(this.#opening);
            this.#openedAt = performance.now();
            const isBack = this.#facts.stream === "lost";
            this.#facts.stream = "open";
            this.#report();
            // It may know other chains now.
            if (isBack) this.#pollNow();
        });
        source.addEventListener("gas-suggestion", ({ lastEventId, data }) => {
            const event = readEvent(lastEventId, data);
            if (event === undefined) return;
            const now = performance.now();
            this.#facts.heardAt = now;
            this.#told.set(event.chainId, event.block);
            this.#isQuiet = false;
            this.#tell.event(event, now);
            this.#report();
        });
        // By itself the browser would not come back from an answer that is no stream.
        source.addEventListener("error", () => this.#lose());
    }

    /** The stream is over or was none: opens another after a while. */
    #lose() {
        this.#isAside = false;
        const isSteady = performance.now() - this.#openedAt >= STEADY_MS;
        this.#failures = isSteady ? 0 : this.#failures + 1;
        this.#leave(pauseOf(this.#failures, Math.random()));
    }

    /** Ends the stream, and opens another after the pause. */
    #leave(pause) {
        const now = performance.now();
        this.#source.close();
        clearTimeout(this.#opening);
        clearTimeout(this.#reopening);
        this.#reopening = setTimeout(() => this.#open(), pause);
        if (this.#facts.stream === "lost") return;
        this.#facts.stream = "lost";
        this.#facts.lostAt = now;
        this.#tell.gap();
        this.#report();
        this.#pollNow();
    }

    #pollNow() {
        if (this.#isPolling) this.#pollsAgain = true;
        else this.#poll();
    }

    async #poll() {
        clearTimeout(this.#nextPoll);
        this.#isPolling = true;
        this.#pollsAgain = false;
        const sentAt = performance.now();
        const { status, json, isLate } = await this.#get("v1/chains");
        if (this.#end.signal.aborted) return;
        if (isLate && this.#facts.stream === "open") {
            // The service may hang, or be out of reach behind the streams of other windows: a browser has six
            // connections to it. Without this one, the next poll tells.
            this.#isPolling = false;
            this.#isAside = true;
            this.#leave(CROWDED_MS * (0.5 + Math.random() / 2));
            return;
        }
        const wasWell = this.#facts.poll?.isWell;
        const isWell = status === 200 && isList(json);
        this.#facts.poll = { isWell, sentAt };
        this.#reason = status > 0 && !isWell ? `it answers with status ${status}` : undefined;
        if (isWell) this.#takeList(json, sentAt);
        else this.#doubt(status, sentAt);
        if (isWell && wasWell === false && this.#facts.stream === "lost") {
            // The service is back: no need to wait any longer.
            this.#source.close();
            clearTimeout(this.#opening);
            clearTimeout(this.#reopening);
            this.#open();
        }
        this.#report();
        this.#isPolling = false;
        if (this.#pollsAgain) this.#poll();
        else this.#nextPoll = setTimeout(() => this.#poll(), this.#paceMs);
    }

    #takeList(list, sentAt) {
        const isOpen = this.#facts.stream === "open";
        if (isOpen && isSilent(this.#told, this.#list, this.#isQuiet)) this.#lose();
        this.#list = list;
        this.#isQuiet = true;
        this.#paceMs = paceOf(list.map((entry) => ({ blockTimeMs: entry.block_time_ms })));
        this.#tell.list(list, sentAt, this.#paceMs);
    }

    /** There was no list; what the stream tells may be worth nothing either. */
    #doubt(status, sentAt) {
        if (this.#facts.heardAt > sentAt) return;
        this.#tell.gap();
        if (status === 0 && (this.#facts.stream !== "lost" || this.#isAside)) this.#lose();
    }

    #report() {
        this.#tell.connection(connectionOf(this.#facts), this.#reason);
    }

    /** An answer as of now, whatever a cache has; of none the status is 0. */
    async #get(path) {
        const signal = AbortSignal.any([this.#end.signal, AbortSignal.timeout(PATIENCE_MS)]);
        try {
            const response = await fetch(new URL(path, this.#base), { cache: "no-store", signal });
            const text = await response.text();
            return { status: response.status, headers: response.headers, json: parse(text) };
        } catch (error) {
            return { status: 0, isLate: error.name === "TimeoutError" };
        }
    }
}

function parse(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}
