// A table of the usual price in each hour of the week.

import { element, setText, unseen } from "./dom.js";
import { heatMap } from "./trend.js";

// Hours below each label.
const LABELLED = 6;

export class HeatMap {
    /** @param {() => void} onOpen called when the reader opens the table */
    constructor(onOpen) {
        this.word = element("p", { className: "word" });
        this.rows = element("tbody");
        const hours = Array.from({ length: 24 / LABELLED }, (_, index) =>
            element("th", { scope: "colgroup", colSpan: LABELLED }, `${index * LABELLED}:00`));
        const corner = element("th", { scope: "col" }, unseen("Day"));
        const caption = element("caption", { className: "unseen" }, "Price per gas by weekday and hour");
        const head = element("thead", {}, element("tr", {}, corner, ...hours));
        this.table = element("table", {}, caption, head, this.rows);
        this.table.hidden = true;
        this.node = element("details", { className: "heat" },
            element("summary", {}, "Cheapest hours of the week"), this.table, this.word);
        this.node.addEventListener("toggle", () => this.node.open && onOpen());
    }

    get isOpen() {
        return this.node.open;
    }

    /** @param {object | undefined} trend of 7 days; `undefined` if it could not be loaded */
    show(trend) {
        this.table.hidden = !trend;
        const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
        const legend = `Your time (${zone}). Darker hours were dearer, hatched ones are not known.`;
        setText(this.word, trend ? legend : "The hours are not available right now.");
        if (!trend) return;
        this.rows.replaceChildren(...heatMap(trend).map(({ day, hours }) => {
            const head = element("th", { scope: "row" }, day.slice(0, 2), unseen(day.slice(2)));
            const cells = hours.map(({ text, shade }) => {
                const cell = element("td", { title: text, className: shade === undefined ? "unknown" : `shade-${shade}` });
                cell.append(unseen(text));
                return cell;
            });
            return element("tr", {}, head, ...cells);
        }));
    }
}
