// The table of all chains.

import { Sparkline } from "./sparkline.js";
import { element, setText, setTitle, unseen } from "./dom.js";

const HEADS = { name: "Chain", price: "Price now", transfer: "Transfer", recent: "Recent", state: "Status" };

export class Overview {
    /** @param {URL} json address of the same data as JSON */
    constructor(json) {
        this.filter = element("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: false });
        this.filter.addEventListener("input", () => this.#applyFilter());
        const label = element("label", { htmlFor: "filter" }, "Find a chain");
        this.rows = element("tbody");
        const heads = Object.entries(HEADS).map(([className, text]) =>
            element("th", { scope: "col", className }, text));
        // On narrow screens, the column of prices has the costs too.
        heads[1].append(element("span", { className: "small-transfer" }, "Transfer"));
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
            element("a", { href: String(json) }, "JSON"),
        );
        this.node = element(
            "section",
            { className: "overview" },
            this.unknown,
            element("div", { className: "find" }, label, this.filter),
            this.table,
            this.none,
            this.word,
        );
        this.node.setAttribute("aria-label", "All chains");
        /** @type {Map<string, Row>} */
        this.shown = new Map();
    }

    /** Shows these chains in this order. */
    show(views) {
        const keys = new Set(views.map(({ key }) => key));
        for (const [key, row] of this.shown) {
            if (keys.has(key)) continue;
            row.node.remove();
            this.shown.delete(key);
        }
        for (const [index, view] of views.entries()) {
            let row = this.shown.get(view.key);
            if (!row) {
                row = new Row(view.key);
                this.shown.set(view.key, row);
            }
            if (this.rows.children[index] !== row.node) this.rows.insertBefore(row.node, this.rows.children[index] ?? null);
            row.show(view);
        }
        this.#applyFilter();
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
    constructor(key) {
        this.key = key;
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
        this.node = element(
            "tr",
            {},
            element("th", { scope: "row", className: "name" }, this.link),
            element("td", { className: "price" }, this.price, " ", this.trend, " ", this.warning, " ",
                element("span", { className: "below" }, this.level, " ", this.smallTransfer)),
            this.transfer,
            element("td", { className: "recent" }, this.spark.node),
            element("td", { className: "state" }, this.badge, " ", this.age),
        );
    }

    show(view) {
        const { name, id, price, transfer, trend, level, verdict, state } = view;
        this.words = `${name} ${this.key} ${id}`.toLowerCase();
        setText(this.link, name);
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
        setText(this.transfer, transfer?.text ?? "–");
        setTitle(this.transfer, transfer?.exact ?? "");
        setText(this.smallTransfer, transfer?.text ?? "");
        this.node.classList.toggle("outdated", price?.isPast ?? false);
        setText(this.warning, view.warning?.short ?? "");
        setTitle(this.warning, view.warning?.text ?? "");
        this.spark.show(view.history);
        setText(this.badge, view.badge);
        setText(this.age, view.shortAge ?? "");
    }
}
