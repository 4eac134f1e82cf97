// <gas-suggestion service="https://gas.example" chain="ethereum" tier="medium">: a chain's live gas price in any page.
//
// Load this file with <script type="module" src="https://gas.example/gas-suggestion.js"></script>. `service` defaults to
// the origin and path of this file, `tier` to `medium`. The element reads the route fee-market while the page is visible,
// and has the attribute `state`: loading, live, stale, unavailable, unknown (no such chain) or disconnected.

const INTERVAL_MS = 5000;
const TIMEOUT_MS = 5000;
const TICK_MS = 1000;
const GWEI_DECIMALS = 9;
const STYLE = `
:host { display: inline-flex; gap: 0.5em; align-items: baseline; font-variant-numeric: tabular-nums; white-space: nowrap; }
:host([hidden]) { display: none; }
b { font-weight: 600; }
small { font-size: 0.8em; }
:host([state="stale"]) b { opacity: 0.7; }
:host(:is([state="unavailable"], [state="unknown"], [state="disconnected"])) b { text-decoration: line-through; }`;

class GasSuggestion extends HTMLElement {
    static observedAttributes = ["service", "chain", "tier"];
    #price = document.createElement("b");
    #age = document.createElement("small");
    #market;
    /** When the data was read from a node, by `performance.now()`. */
    #readAt;
    #timers = [];
    #abort;
    #onVisible = () => document.hidden || this.#read();

    constructor() {
        super();
        const root = this.attachShadow({ mode: "open" });
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(STYLE);
        root.adoptedStyleSheets = [sheet];
        root.append(this.#price, this.#age);
    }

    connectedCallback() {
        this.#timers = [setInterval(this.#onVisible, INTERVAL_MS), setInterval(() => this.#showAge(), TICK_MS)];
        document.addEventListener("visibilitychange", this.#onVisible);
        this.#restart();
    }

    disconnectedCallback() {
        for (const timer of this.#timers) clearInterval(timer);
        document.removeEventListener("visibilitychange", this.#onVisible);
        this.#abort?.abort();
    }

    attributeChangedCallback() {
        if (this.isConnected) this.#restart();
    }

    #restart() {
        this.#abort?.abort();
        this.#abort = undefined;
        this.#market = undefined;
        this.#readAt = undefined;
        this.#show("loading");
        this.#read();
    }

    async #read() {
        if (this.#abort) return;
        const abort = new AbortController();
        this.#abort = abort;
        const state = await this.#request(abort.signal);
        // An attribute changed or the element was removed meanwhile.
        if (this.#abort !== abort || !this.isConnected) return;
        this.#abort = undefined;
        this.#show(state);
    }

    /** Requests the price. Returns the state. */
    async #request(aborted) {
        try {
            const service = this.getAttribute("service") ?? new URL(".", import.meta.url).href;
            const chain = encodeURIComponent(this.getAttribute("chain") ?? "");
            const url = new URL(`v1/${chain}/fee-market`, service.endsWith("/") ? service : `${service}/`);
            const signal = AbortSignal.any([aborted, AbortSignal.timeout(TIMEOUT_MS)]);
            const sentAt = performance.now();
            const response = await fetch(url, { cache: "no-store", signal });
            if (response.status === 404) return "unknown";
            if (!response.ok) return "unavailable";
            const market = await response.json();
            if (aborted.aborted) return "loading";
            for (const tier of ["medium", "high"]) expectedPrice(market, tier);
            this.#market = market;
            this.#readAt = sentAt - (Number(response.headers.get("age")) * 1000 || 0);
            return market.stale ? "stale" : "live";
        } catch {
            return "disconnected";
        }
    }

    #show(state) {
        this.setAttribute("state", state);
        const tier = this.getAttribute("tier") === "high" ? "high" : "medium";
        const wei = this.#market && expectedPrice(this.#market, tier);
        this.#price.textContent = wei === undefined ? "–" : price(wei);
        this.#price.title = wei === undefined ? "" : `${wei} wei per gas on ${this.#market.chain_name}`;
        this.#showAge();
    }

    #showAge() {
        const state = this.getAttribute("state");
        const seconds = Math.floor((performance.now() - this.#readAt) / 1000);
        const age = Number.isNaN(seconds) ? "" : seconds < 1 ? "just now" : seconds < 60 ? `${seconds} s ago` :
            `${Math.floor(seconds / 60)} min ago`;
        const word = { loading: "loading…", live: "", stale: "stale, ", unavailable: "unavailable, ", unknown: "unknown chain, ",
            disconnected: "no connection, " }[state] ?? "";
        const text = age ? word + age : word.replace(", ", "");
        if (this.#age.textContent !== text) this.#age.textContent = text;
    }
}

/** Returns the price per gas of a transaction in the next block: min(max fee, next base fee + tip). */
function expectedPrice(market, tier) {
    return BigInt(market.expected_price_per_gas[tier]);
}

/** Formats a price with three significant digits. */
function price(wei) {
    const step = 10n ** BigInt(Math.max(String(wei).length - 3, 0));
    const digits = String(((wei + step / 2n) / step) * step).padStart(GWEI_DECIMALS + 1, "0");
    const cut = digits.length - GWEI_DECIMALS;
    const fraction = digits.slice(cut).replace(/0+$/, "");
    return `${digits.slice(0, cut).replace(/\B(?=(\d{3})+$)/g, ",")}${fraction && `.${fraction}`} gwei`;
}

if (!customElements.get("gas-suggestion")) customElements.define("gas-suggestion", GasSuggestion);
