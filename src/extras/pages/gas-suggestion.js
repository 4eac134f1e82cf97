// <gas-suggestion service="https://gas.example" chain="ethereum" tier="medium">: a chain's live gas price in any page.
//
// Load this file with <script type="module" src="https://gas.example/gas-suggestion.js"></script>. `service` defaults to
// the origin and path of this file, `tier` (low, medium, high) to `medium`. With `verdict` the element says whether the
// price of the medium tier is usual, with `wait` how long a transaction of the tier waits; with `compact` it has no age
// while it is live. The element reads the route fee-market while the page is visible, and with `wait` the route fees once a
// minute. It has the attribute `state`: loading, live, stale, unavailable, unknown (no such chain) or disconnected.

const INTERVAL_MS = 5000;
const TIMEOUT_MS = 5000;
const TICK_MS = 1000;
// Age of the newest response above which a price is not live: the page was hidden.
const MAX_UNREAD_MS = 15_000;
const WAITS_INTERVAL_MS = 60_000;
const MAX_WAITS_AGE_MS = WAITS_INTERVAL_MS + 2 * INTERVAL_MS;
// A tier's waiting time is that in which this share of transactions is included.
const PROBABILITY = 0.8;
const LONGEST = 25;
const TIERS = ["low", "medium", "high"];
const GWEI_DECIMALS = 9;
const UNITS = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]];
const LEVELS = {
    low: "Low: cheaper than in most of the last 24 h",
    normal: "Normal for the last 24 h",
    high: "High: dearer than in most of the last 24 h",
};
const STYLE = `
:host { display: inline-flex; flex-wrap: wrap; gap: 0 var(--gas-suggestion-gap, 0.5em); align-items: baseline; font-variant-numeric: tabular-nums; }
:host([hidden]) { display: none; }
b { font-weight: 600; white-space: nowrap; color: var(--gas-suggestion-price, inherit); }
small { font-size: 0.8em; color: var(--gas-suggestion-muted, inherit); }
[part~="low"] { color: var(--gas-suggestion-low, light-dark(#14703d, #72d69b)); }
[part~="high"] { color: var(--gas-suggestion-high, light-dark(#85560a, #f0c274)); }
small:empty, :host(:not([verdict])) [part~="verdict"], :host(:not([wait])) [part="wait"], :host([compact][state="live"]) [part="age"] { display: none; }
:host([state="stale"]) b { opacity: 0.7; }
:host(:is([state="unavailable"], [state="unknown"], [state="disconnected"])) b { text-decoration: line-through; }`;

class GasSuggestion extends HTMLElement {
    static observedAttributes = ["service", "chain", "tier"];
    #price = part("b", "price");
    #verdict = part("small", "verdict");
    #wait = part("small", "wait");
    #age = part("small", "age");
    #internals = this.attachInternals();
    #market;
    /** When the newest response arrived, and when its data was read from a node, by `performance.now()`. */
    #respondedAt;
    #readAt;
    /** Waiting times by tier, and when they were requested. */
    #waits;
    #waitsAt;
    #blockTimeMs;
    #timers = [];
    #abort;
    #onVisible = () => document.hidden || this.#read();

    constructor() {
        super();
        const root = this.attachShadow({ mode: "open" });
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(STYLE);
        root.adoptedStyleSheets = [sheet];
        root.append(this.#price, this.#verdict, this.#wait, this.#age);
        this.#wait.title = "8 of 10 transactions get into a block in this time";
        this.#internals.role = "group";
    }

    connectedCallback() {
        this.#timers = [setInterval(this.#onVisible, INTERVAL_MS), setInterval(() => this.#tick(), TICK_MS)];
        document.addEventListener("visibilitychange", this.#onVisible);
        this.#restart();
    }

    disconnectedCallback() {
        for (const timer of this.#timers.splice(0)) clearInterval(timer);
        document.removeEventListener("visibilitychange", this.#onVisible);
        this.#abort?.abort();
    }

    attributeChangedCallback(name) {
        // The attributes of the page's source are set before the element is connected.
        if (this.#timers.length === 0) return;
        if (name === "tier") this.#show(this.getAttribute("state"));
        else this.#restart();
    }

    #restart() {
        this.#abort?.abort();
        this.#abort = this.#market = this.#readAt = this.#waits = this.#waitsAt = this.#blockTimeMs = undefined;
        this.#show("loading");
        this.#read();
    }

    async #read() {
        if (this.#abort) return;
        const abort = new AbortController();
        this.#abort = abort;
        // False if an attribute changed or the element was removed meanwhile.
        const isCurrent = () => this.#abort === abort && this.isConnected;
        const state = await this.#requestPrice(abort.signal);
        if (!isCurrent()) return;
        this.#show(state);
        if (state === "live" && this.hasAttribute("wait") && !(performance.now() - this.#waitsAt < WAITS_INTERVAL_MS)) {
            await this.#requestWaits(abort.signal);
            if (!isCurrent()) return;
            this.#show(state);
        }
        this.#abort = undefined;
    }

    #request(path, aborted) {
        const service = this.getAttribute("service") ?? new URL(".", import.meta.url).href;
        const url = new URL(`v1/${path}`, service.endsWith("/") ? service : `${service}/`);
        return fetch(url, { cache: "no-store", signal: AbortSignal.any([aborted, AbortSignal.timeout(TIMEOUT_MS)]) });
    }

    get #chain() {
        return encodeURIComponent(this.getAttribute("chain") ?? "");
    }

    /** Requests the price. Returns the state. */
    async #requestPrice(aborted) {
        try {
            const sentAt = performance.now();
            const response = await this.#request(`${this.#chain}/fee-market`, aborted);
            if (!response.ok) {
                // A proxy in front of the service may answer with any text.
                const { code } = await response.json().catch(() => ({}));
                return code === "unknown_chain" ? "unknown" : "unavailable";
            }
            const market = await response.json();
            if (aborted.aborted) return "loading";
            for (const tier of TIERS) expectedPrice(market, tier);
            this.#market = market;
            this.#respondedAt = performance.now();
            this.#readAt = sentAt - (Number(response.headers.get("age")) * 1000 || 0);
            return market.stale ? "stale" : "live";
        } catch {
            return "disconnected";
        }
    }

    /** Requests the waiting times. Without an answer, there are none until the next request. */
    async #requestWaits(aborted) {
        this.#waitsAt = performance.now();
        let waits;
        try {
            const market = this.#market;
            const read = async (path) => (await this.#request(path, aborted)).json();
            this.#blockTimeMs ??= (await read("chains")).find(({ chain_id: id }) => id === market.chain_id).block_time_ms;
            const { cells } = await read(`${this.#chain}/fees`);
            waits = Object.fromEntries(TIERS.map((tier) => [tier, waitText(cells, tierFees(market, tier), this.#blockTimeMs)]));
        } catch {
            // The route is off, the service knows too few blocks, or it does not respond.
        }
        if (!aborted.aborted) this.#waits = waits;
    }

    #show(state) {
        this.setAttribute("state", state);
        const market = this.#market;
        const attribute = this.getAttribute("tier");
        const tier = TIERS.includes(attribute) ? attribute : "medium";
        const wei = market && expectedPrice(market, tier);
        this.#price.textContent = wei === undefined ? "–" : price(wei);
        this.#price.title = wei === undefined ? "" : `${wei} wei per gas on ${market.chain_name}`;
        const isLive = state === "live";
        // A verdict is about the price of the medium tier.
        const verdict = isLive && tier === "medium" ? verdictText(market) : "";
        this.#verdict.textContent = verdict;
        this.#verdict.part = verdict ? `verdict ${market.level}` : "verdict";
        const hasWaits = isLive && !hasToWait(market, tier) && performance.now() - this.#waitsAt < MAX_WAITS_AGE_MS;
        this.#wait.textContent = (hasWaits && this.#waits?.[tier]) || "";
        this.#internals.ariaLabel = `Gas price of ${market?.chain_name ?? this.getAttribute("chain")}, ${tier}`;
        this.#showAge();
    }

    #tick() {
        const isUnread = performance.now() - this.#respondedAt > MAX_UNREAD_MS;
        if (isUnread && this.getAttribute("state") === "live") this.#show("stale");
        else this.#showAge();
    }

    #showAge() {
        const state = this.getAttribute("state");
        const age = ago(performance.now() - this.#readAt);
        const word = { loading: "loading…", live: "", stale: "stale, ", unavailable: "unavailable, ", unknown: "unknown chain, ",
            disconnected: "no connection, " }[state] ?? "";
        const text = age ? word + age : word.replace(", ", "");
        if (this.#age.textContent !== text) this.#age.textContent = text;
    }
}

function part(name, partName) {
    const node = document.createElement(name);
    node.part = partName;
    return node;
}

/** Returns the price per gas of a transaction in the next block: min(max fee, next base fee + tip). */
function expectedPrice(market, tier) {
    return BigInt(market.expected_price_per_gas[tier]);
}

// The functions below say the same as those of the dashboard. They stand here too, so that pages load one file.

/** Returns what the level means, with its distance from the median of the last 24 hours; empty if it is not known. */
function verdictText({ level, level_deviation: deviation }) {
    if (level === "normal" || !Number.isFinite(deviation)) return LEVELS[level] ?? "";
    const size = Math.round(Math.abs(deviation) * 100);
    const distances = { high: `High: ${grouped(size)} % above usual`, low: `Low: ${size} % below usual` };
    return distances[level] ?? "";
}

/** Returns the fees of a tier. The price of the low tier exceeds its tip by as much as that of the medium tier does. */
function tierFees({ suggestion, expected_price_per_gas: expected }, tier) {
    if (tier !== "low") return suggestion[tier];
    const isLegacy = suggestion.type === "legacy";
    const tip = BigInt(expected.low) - (isLegacy ? 0n : BigInt(expected.medium) - BigInt(suggestion.medium.max_priority_fee_per_gas));
    return { max_priority_fee_per_gas: tip, max_fee_per_gas: isLegacy ? tip : BigInt(suggestion.base_fee_per_gas) + tip };
}

/** Returns true if the tier's max fee is below the next block's base fee, so that no known horizon holds. */
function hasToWait(market, tier) {
    const { next_base_fee_per_gas: next, suggestion } = market;
    return suggestion.type !== "legacy" && BigInt(tierFees(market, tier).max_fee_per_gas) < BigInt(next ?? 0);
}

/** Returns how long a transaction with these fees waits: the smallest horizon whose fees they reach. */
function waitText(cells, fees, blockTimeMs) {
    const reaches = (member, cell) => BigInt(fees[member]) >= BigInt(cell[member]);
    const isReached = (cell) => reaches("max_fee_per_gas", cell) && reaches("max_priority_fee_per_gas", cell);
    const reached = cells.filter((cell) => cell.probability >= PROBABILITY && isReached(cell));
    const blocks = Math.min(...reached.map(({ within }) => within));
    if (blocks === Infinity) return `more than ${LONGEST} blocks`;
    return blocks === 1 ? "next block" : `about ${blocks} blocks, ${duration(blocks * blockTimeMs) || "less than 1 s"}`;
}

/** Formats an age; empty if it is not known. */
function ago(milliseconds) {
    if (Number.isNaN(milliseconds)) return "";
    return milliseconds < 1000 ? "just now" : `${duration(milliseconds)} ago`;
}

/** Formats a duration in its two largest units, rounded down; empty below a second. */
function duration(milliseconds) {
    const [largest, next] = UNITS.slice(UNITS.findIndex(([size]) => milliseconds >= size));
    if (milliseconds < 1000) return "";
    const count = ([size, name], left) => `${Math.floor(left / size)} ${name}`;
    const rest = milliseconds % largest[0];
    return count(largest, milliseconds) + (next && rest >= next[0] ? ` ${count(next, rest)}` : "");
}

/** Formats a price with three significant digits. */
function price(wei) {
    const step = 10n ** BigInt(Math.max(String(wei).length - 3, 0));
    const digits = String(((wei + step / 2n) / step) * step).padStart(GWEI_DECIMALS + 1, "0");
    const cut = digits.length - GWEI_DECIMALS;
    const fraction = digits.slice(cut).replace(/0+$/, "");
    return `${grouped(digits.slice(0, cut))}${fraction && `.${fraction}`} gwei`;
}

function grouped(number) {
    return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

if (!customElements.get("gas-suggestion")) customElements.define("gas-suggestion", GasSuggestion);
