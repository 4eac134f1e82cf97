// How the price is made, and how earlier suggestions did.

import { element, pair, setText } from "./dom.js";

/** How the price was calculated. */
export class MarketDetails {
    constructor() {
        this.block = element("p", { className: "of" });
        this.warning = element("p", { className: "warning" });
        this.list = element("dl");
        /** @type {Map<string, HTMLElement>} */
        this.values = new Map();
        this.node = element(
            "details",
            { className: "market" },
            element("summary", {}, "How the price is made"),
            this.warning,
            this.block,
            this.list,
        );
    }

    show(market) {
        this.node.hidden = !market;
        if (!market) return;
        setText(this.block, `at block ${market.block}${market.behind}`);
        setText(this.warning, market.warning);
        this.warning.hidden = market.warning === "";
        const labels = market.rows.map(([label]) => label);
        if (String(labels) !== String([...this.values.keys()])) {
            this.values = new Map(labels.map((label) => [label, element("dd")]));
            this.list.replaceChildren(...[...this.values].map(([label, value]) => pair(label, value)));
        }
        for (const [label, text] of market.rows) setText(this.values.get(label), text);
    }
}

/** How the suggestions that were served did. */
export class ScoreDetails {
    constructor() {
        this.title = element("summary");
        const heads = ["Medium", "High"].map((title) => element("th", { scope: "col" }, title));
        this.rows = element("tbody");
        this.notes = element("div");
        this.node = element(
            "details",
            { className: "score" },
            this.title,
            element("table", {}, element("thead", {}, element("tr", {}, element("td"), ...heads)), this.rows),
            this.notes,
        );
    }

    show(score) {
        this.node.hidden = !score;
        const key = JSON.stringify(score);
        if (!score || key === this.shownKey) return;
        this.shownKey = key;
        setText(this.title, score.title);
        const rows = score.rows.map(({ label, cells }) => {
            const texts = cells.map(({ text, reason = "" }) => element("td", { title: reason }, text));
            return element("tr", {}, element("th", { scope: "row" }, label), ...texts);
        });
        this.rows.replaceChildren(...rows);
        this.notes.replaceChildren(...score.notes.map((note) => element("p", {}, note)));
    }
}
