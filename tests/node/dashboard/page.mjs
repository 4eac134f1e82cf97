// Helpers of the dashboard's tests: the configuration of mock chains, and what a page shows.

import { becomes, visit } from "../browser.mjs";

// The tests count the blocks of polls, so no asks are read besides.
const NO_READINGS = "pricing.ask_interval = 0";
const FEES = 'pricing.base_fee_floor = "1 gwei"\npricing.priority_fee_floor = "20 gwei"\n' +
    "pricing.base_fee_change_denominator = 8";

// Returns a configuration with these chains of `nodes` by key, preceded by `more`. By default a chain's data expires 4 s
// after its node stops responding.
export function chainConfig(nodes, chains, more = "") {
    const tables = Object.entries(chains).map(([key, { id, name = key, fees = FEES, more = "" }]) => {
        const times = 'block_time = "1s"\nmax_age = "4s"\nstall_after = "0s"';
        return `[chains.${key}]\nchain_id = ${id}\nname = ${JSON.stringify(name)}\ncurrency = "RON"\n` +
            `rpc_urls = ["${nodes.url(id)}"]\n${fees}\n${NO_READINGS}\n${more || times}\n`;
    });
    return `[verification]\nurl = ""\n[delegation]\nsource = "off"\n${more}\n${tables.join("")}`;
}

// Interval at which the tests look at the page. Without it, they would look at each frame, which keeps a core busy.
const POLL_MS = 50;

// With blocks this rare, nothing changes during a test.
export const STILL = 'block_time = "1h"\nmax_age = "3h"';

// Runs in the page: returns the visible content of the open chain's page; `undefined` if there is none.
export function shownCard() {
    const card = document.querySelector("#chains > article");
    if (!card) return undefined;
    const isSeen = (node) => node.checkVisibility();
    const text = (selector) => [...card.querySelectorAll(selector)].find(isSeen)?.textContent;
    const pairs = (selector) => Object.fromEntries([...card.querySelectorAll(`${selector} dl > div`)]
        .map((row) => [row.querySelector("dt").textContent, row.querySelector("dd").textContent]));
    return {
        name: text("h2"),
        id: text(".id"),
        badge: text(".badge"),
        problem: text(".problem"),
        age: text(".age"),
        when: Object.fromEntries([...card.querySelectorAll(".when > div")]
            .map((row) => [row.firstChild.textContent, row.lastChild.textContent])),
        price: text(".tier:has(:checked) .price")?.replace(" per gas", ""),
        exact: card.querySelector(".tier:has(:checked) .price").title,
        isPast: card.querySelector(".tier:has(:checked) .price").classList.contains("past"),
        tiers: [...card.querySelectorAll(".tier")].filter(isSeen).map((tier) => ({
            name: tier.querySelector("input").value,
            price: tier.querySelector(".price").textContent.replace(" per gas", ""),
            exact: tier.querySelector(".price").title,
            wait: tier.querySelector(".wait").textContent,
            cost: tier.querySelector(".cost").checkVisibility() ? tier.querySelector(".cost").innerText.replace(/\s+/g, " ") : "",
        })),
        hint: text(".hint"),
        sendable: text(".sendable"),
        cap: text(".cap"),
        verdict: text(".verdict"),
        fees: [...card.querySelectorAll(".fees dl > div")].filter(isSeen)
            .map((row) => [row.querySelector("dt").textContent, row.querySelector(".amount").title]),
        costs: [...card.querySelectorAll(".costs td.coins")].filter(isSeen).map((cell) => cell.textContent),
        dollars: [...card.querySelectorAll(".costs td.dollars")].filter(isSeen).map((cell) => cell.textContent),
        exactCosts: [...card.querySelectorAll(".costs td.coins")].filter(isSeen).map((cell) => cell.title),
        of: card.querySelector(".of").textContent,
        market: card.querySelector(".market").hidden ? {} : pairs(".market"),
    };
}

// Runs in the page: returns the visible rows of the table of chains.
export function shownRows() {
    return [...document.querySelectorAll(".overview tbody tr")].filter((row) => row.checkVisibility()).map((row) => ({
        name: row.querySelector("a").textContent,
        price: row.querySelector(".price .amount").textContent,
        exact: row.querySelector(".price .amount").title,
        isPast: row.querySelector(".price .amount").classList.contains("past"),
        transfer: row.querySelector(".transfer").textContent,
        level: row.querySelector(".level").textContent,
        badge: row.querySelector(".badge").textContent,
        age: row.querySelector(".age").textContent,
        since: row.querySelector(".since").textContent,
        points: row.querySelector("polyline").getAttribute("points")?.split(" ").length ?? 0,
    }));
}

export class Dashboard {
    constructor(page) {
        this.page = page;
        this.banner = page.locator("#banner");
    }

    async card() {
        return this.page.evaluate(shownCard);
    }

    async rows() {
        return this.page.evaluate(shownRows);
    }

    // Waits until `holds` returns true for the open chain's page, which has this name, and `given`. Returns what it shows.
    async waitForCard(name, holds, given) {
        return this.#waitFor(`[(${shownCard})()]`, name, holds, given);
    }

    // Waits until `holds` returns true for the row with this name and `given`. Returns the row.
    async waitForRow(name, holds, given) {
        return this.#waitFor(`(${shownRows})()`, name, holds, given);
    }

    async #waitFor(read, name, holds, given) {
        const isThere = new Function("given", `
            const shown = ${read}.find((one) => one?.name === given.name);
            return shown && (${holds})(shown, given.given) ? shown : false;`);
        const found = await this.page.waitForFunction(isThere, { name, given }, { polling: POLL_MS }).catch(async (cause) => {
            const shown = JSON.stringify(await this.page.evaluate(read));
            throw new Error(`${name} is not as wanted: ${holds}, given ${given}; shown: ${shown}`, { cause });
        });
        return found.jsonValue();
    }

    async waitForLive(name) {
        return this.waitForCard(name, ({ badge, price }) => badge === "Live" && price !== "– ");
    }

    async waitForLiveRow(name) {
        return this.waitForRow(name, ({ badge, price }) => badge === "Live" && price !== "– ");
    }

    // Waits for a live page with a block above this one.
    async waitForBlockAbove(name, block) {
        const isAbove = ({ badge, when }, block) => badge === "Live" && parseInt(when.Block.replaceAll(",", ""), 10) > block;
        return this.waitForCard(name, isAbove, block);
    }

    async waitForBanner(banner) {
        await this.banner.filter({ hasText: banner }).waitFor();
    }

    async waitForNoBanner() {
        await becomes(this.page, () => document.querySelector("#banner").textContent, "");
    }

    async waitForTitle(title) {
        await becomes(this.page, () => document.title, title);
    }

    // Waits until the status region has announced `text`.
    async waitForAnnouncement(text) {
        const isAnnounced = (text) => window.announcements.some((announcement) => announcement.includes(text));
        await this.page.waitForFunction(isAnnounced, text);
    }

    // Waits until the focused button has had this label and the status region has this text.
    async waitForButton(button, text) {
        // The button shows the result for two seconds only.
        const isBoth = ({ button, text }) => window.labels.has(button) && document.querySelector("#news").textContent === text;
        await this.page.waitForFunction(isBoth, { button, text });
    }
}

// Returns the number of the block that a page shows. A text may follow it, which says that the market's numbers are older.
export const blockOf = ({ when }) => parseInt(when.Block.replaceAll(",", ""), 10);

// Opens the page at `url` and runs `run` with it.
export const openDashboard = (browser, url, run, options = {}) => visit(browser, url, options, async (page, seen) => {
    await page.evaluate(() => {
        const news = document.querySelector("#news");
        window.announcements = [];
        const watch = new MutationObserver(() => window.announcements.push(news.textContent));
        watch.observe(news, { childList: true });
        window.labels = new Set();
        const labels = new MutationObserver(() => window.labels.add(document.activeElement.textContent));
        labels.observe(document.querySelector("#chains"), { subtree: true, childList: true, characterData: true });
    });
    await run(new Dashboard(page), seen);
});

// Chooses a tier.
export const choose = (page, tier) => page.getByRole("radio", { name: tier, exact: true }).check();

// Makes the page hidden or visible. Returns its titles before and after.
export const hide = (page, isHidden) => page.evaluate((isHidden) => {
    const before = document.title;
    Object.defineProperty(document, "hidden", { configurable: true, value: isHidden });
    document.dispatchEvent(new Event("visibilitychange"));
    return [before, document.title];
}, isHidden);

// For the option `init`: shortens the interval of a hidden page from a minute to 300 ms.
export const fastMinutes = () => {
    const { setInterval } = window;
    window.setInterval = (run, delay) => setInterval(run, delay === 60_000 ? 300 : delay);
};

// Returns the body of the fee-trend route for a period, ending now, with a price that has ups and downs.
export function trendBody(period) {
    const [seconds, count] = { "1h": [60, 60], "24h": [600, 144], "7d": [3600, 168] }[period];
    const end = Math.floor(Date.now() / 1000 / seconds) * seconds;
    const buckets = Array.from({ length: count }, (_, index) => {
        const fee = (share) => String(Math.round((2 + Math.sin(index / 9)) * share) * 1_000_000);
        return {
            start: new Date((end - (count - index) * seconds) * 1000).toISOString(),
            blocks: 300,
            base_fee_per_gas: { min: fee(800), median: fee(1000), max: fee(1300) },
            max_priority_fee_per_gas: { min: "1000000000", median: "1000000000", max: "1500000000" },
            gas_used_ratio: { min: 0.1, median: 0.5, max: 1 },
        };
    });
    return { chain_name: "chain", chain_id: 1, period, bucket_seconds: seconds, level: "low", buckets };
}

// A host name other than localhost, so that the origin is not secure.
export const INSECURE_HOST = "gas.example";
