// The table of all chains.

import { costTitle } from "./cards.js";
import { element, setText, setTitle, unseen } from "./dom.js";
import { ORDERS, sortRows } from "./sorting.js";
import { Sparkline } from "./sparkline.js";
import { recall, remember } from "./store.js";

const HEADS = { name: "Chain", price: "Price now", transfer: "Transfer", recent: "Recent", state: "Status" };
// Minimum time between two changes of the order, so that rows stay where the reader looks.
const SORT_MS = 10_000;
// Chains up to which each has a card instead of a row.
const MAX_CARDS = 3;

export class Overview {
    /** @param {URL} json address of the same data as JSON */
    constructor(json) {
        this.filter = element("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: false });
        this.filter.addEventListener("input", () => this.#applyFilter());
        const label = element("label", { htmlFor: "filter" }, "Find a chain");
        this.rows = element("tbody");
        /** @type {Map<string, HTMLElement>} */
        this.heads = new Map(Object.entries(HEADS).map(([className, text]) => [className, this.#head(className, text)]));
        const heads = [...this.heads.values()];
        this.order = recall("order", null);
        this.favourites = new Set(recall("favourites", []));
        this.sortedAt = -Infinity;
        const caption = element("caption", { className: "unseen" }, "Gas prices of all chains");
        this.table = element("table", {}, caption, element("thead", {}, element("tr", {}, ...heads)), this.rows);
        this.none = element("p", { className: "word" }, "No chain matches.");
        this.none.setAttribute("role", "status");
        this.none.hidden = true;
        this.unknown = element("p", { className: "notice" });
        this.unknown.hidden = true;
        this.word = element(
            "p",
            { className: "word" },
            "Price now is what a medium transaction pays per gas in the next block. " +
                "Low, normal and high compare it with the last 24 h. ",
            element("a", { href: "#mini" }, "Small view"), " ",
            element("a", { href: String(json) }, "JSON"),
        );
        this.all = element("p", { className: "all" }, element("a", { href: "#" }, "All chains"));
        this.node = element(
            "section",
            { className: "overview" },
            this.unknown,
            element("div", { className: "find" }, label, this.filter),
            this.table,
            this.none,
            this.word,
            this.all,
        );
        this.node.setAttribute("aria-label", "All chains");
        /** @type {Map<string, Row>} */
        this.shown = new Map();
    }

    /** Shows these chains. */
    show(views, now = performance.now()) {
        const keys = new Set(views.map(({ key }) => key));
        const isOther = keys.size !== this.shown.size || [...keys].some((key) => !this.shown.has(key));
        for (const [key, row] of this.shown) {
            if (keys.has(key)) continue;
            row.node.remove();
            this.shown.delete(key);
        }
        this.views = views;
        this.node.classList.toggle("few", views.length <= MAX_CARDS);
        for (const view of views) {
            let row = this.shown.get(view.key);
            if (!row) {
                row = new Row(view.key, (key) => this.#toggleFavourite(key));
                this.shown.set(view.key, row);
            }
            row.show(view);
        }
        // Rows do not move below a pointer or the focus.
        const isUsed = this.rows.matches(":hover, :focus-within");
        const hasNewPrices = views.filter(({ price }) => price).length !== this.sortedPrices;
        if (isOther || hasNewPrices || (now - this.sortedAt >= SORT_MS && !isUsed)) this.#sort(now);
        this.#applyFilter();
    }

    #head(className, text) {
        const head = element("th", { scope: "col", className: `for-${className}` }, text);
        if (ORDERS.includes(className)) {
            const title = `Sort by ${text.toLowerCase()}`;
            const button = element("button", { type: "button", className: "sort", title }, text);
            button.addEventListener("click", () => {
                this.order = this.order === className ? null : className;
                remember("order", this.order);
                this.#sort(performance.now());
            });
            head.replaceChildren(button);
        }
        return head;
    }

    /** Puts the rows in order. Without a choice, that is by cost if one is known in dollars, otherwise the service's. */
    #sort(now) {
        this.sortedAt = now;
        this.sortedPrices = this.views.filter(({ price }) => price).length;
        const hasDollars = this.views.some(({ transfer }) => transfer?.usd !== undefined);
        const order = this.order ?? (hasDollars ? "transfer" : null);
        for (const [name, head] of this.heads) {
            if (name === order) head.setAttribute("aria-sort", "ascending");
            else head.removeAttribute("aria-sort");
        }
        for (const [index, { key }] of sortRows(this.views, order, this.favourites).entries()) {
            const row = this.shown.get(key);
            row.markFavourite(this.favourites.has(key));
            if (this.rows.children[index] !== row.node) this.rows.insertBefore(row.node, this.rows.children[index] ?? null);
        }
        this.node.classList.toggle("has-favourites", this.views.some(({ key }) => this.favourites.has(key)));
    }

    #toggleFavourite(key) {
        if (!this.favourites.delete(key)) this.favourites.add(key);
        remember("favourites", [...this.favourites]);
        this.#sort(performance.now());
        // Moving a row takes the focus from it.
        this.shown.get(key)?.star.focus();
    }

    /** Says that there is no chain with this key; empty: says nothing. */
    sayUnknown(key) {
        this.unknown.hidden = key === "";
        setText(this.unknown, `This service has no chain “${key}”.`);
    }

    focus(key) {
        (this.shown.get(key)?.link ?? this.filter).focus();
    }

    #applyFilter() {
        const wanted = this.filter.value.trim().toLowerCase();
        let count = 0;
        for (const row of this.shown.values()) {
            row.node.hidden = !row.words.includes(wanted);
            count += row.node.hidden ? 0 : 1;
        }
        this.none.hidden = count > 0 || this.shown.size === 0;
    }
}

class Row {
    constructor(key, onStar) {
        this.key = key;
        this.star = element("button", { type: "button", className: "star" });
        this.star.addEventListener("click", () => onStar(key));
        this.words = key.toLowerCase();
        this.link = element("a", { href: `#${encodeURIComponent(key)}`, dir: "auto" });
        this.number = element("span", { className: "number" });
        this.unit = element("span", { className: "unit" });
        this.trend = element("span", { className: "trend" });
        this.level = element("span", { className: "level" });
        this.warning = element("span", { className: "price-warning" });
        this.price = element("span", { className: "amount" }, this.number, " ", this.unit);
        this.transfer = element("td", { className: "transfer" });
        this.smallTransfer = element("span", { className: "small-transfer" });
        this.spark = new Sparkline();
        this.badge = element("span", { className: "badge" });
        this.age = element("span", { className: "age" });
        this.since = element("span", { className: "since" });
        this.node = element(
            "tr",
            {},
            element("th", { scope: "row", className: "name" }, element("span", {}, this.star, this.link)),
            element("td", { className: "price" }, this.price, " ", this.trend, " ", this.warning, " ",
                element("span", { className: "below" }, this.level, " ", this.smallTransfer)),
            this.transfer,
            element("td", { className: "recent" }, this.spark.node),
            element("td", { className: "state" }, this.badge, " ", this.age, this.since),
        );
    }

    show(view) {
        const { name, id, price, transfer, trend, level, verdict, state } = view;
        this.words = `${name} ${this.key} ${id}`.toLowerCase();
        setText(this.link, name);
        if (this.star.ariaLabel !== `Favourite: ${name}`) this.star.ariaLabel = `Favourite: ${name}`;
        if (this.node.dataset.state !== state) this.node.dataset.state = state;
        setText(this.number, price?.number ?? "–");
        setText(this.unit, price?.unit ?? "");
        setTitle(this.price, price?.exact ?? "");
        this.price.classList.toggle("past", price?.isPast ?? false);
        if (this.trend.dataset.trend !== trend) {
            this.trend.replaceChildren(...(trend ? [unseen(trend)] : []));
            if (trend) this.trend.dataset.trend = trend;
            else delete this.trend.dataset.trend;
            setTitle(this.trend, trend ? `Base fee trend: ${trend}` : "");
        }
        setText(this.level, level ?? "");
        setTitle(this.level, verdict?.text ?? "");
        this.level.dataset.level = level ?? "";
        const cost = transfer && (transfer.dollars ?? transfer.coins) + (transfer.hasMore ? " +" : "");
        const title = transfer ? `${transfer.coins}: ${costTitle(transfer)}` : "";
        for (const node of [this.transfer, this.smallTransfer]) setTitle(node, title);
        setText(this.transfer, cost ?? "–");
        setText(this.smallTransfer, cost ?? "");
        this.node.classList.toggle("outdated", price?.isPast ?? false);
        setText(this.warning, view.warning?.short ?? "");
        setTitle(this.warning, view.warning?.text ?? "");
        this.spark.show(view.history);
        setText(this.badge, view.badge);
        setText(this.age, view.since ? "" : view.shortAge ?? "");
        setText(this.since, view.since ?? "");
    }

    markFavourite(isFavourite) {
        this.node.classList.toggle("favourite", isFavourite);
        setText(this.star, isFavourite ? "★" : "☆");
        this.star.ariaPressed = String(isFavourite);
    }
}
