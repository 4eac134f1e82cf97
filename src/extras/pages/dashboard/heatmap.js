// A table of the usual price in each hour of the week.

import { element, setText, unseen } from "./dom.js";
import { cheapHoursText, heatMap } from "./trend.js";

// Hours below each label.
const LABELLED = 6;
const HOURS = 24;
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const HELP = "Use the arrow keys to read the hours.";

export class HeatMap {
    /** @param {() => void} onOpen called when the reader opens the table */
    constructor(onOpen) {
        this.cheap = element("p", { className: "cheap" });
        this.word = element("p", { className: "word" });
        this.readout = element("p", { className: "readout" });
        this.rows = element("tbody");
        const hours = Array.from({ length: HOURS / LABELLED }, (_, index) =>
            element("th", { scope: "colgroup", colSpan: LABELLED }, `${index * LABELLED}:00`));
        const corner = element("th", { scope: "col" }, unseen("Day"));
        const caption = element("caption", { className: "unseen" }, "Price per gas by weekday and hour");
        const head = element("thead", {}, element("tr", {}, corner, ...hours));
        const table = element("table", {}, caption, head, this.rows);
        this.place = element("div", { className: "hours", tabIndex: 0 }, table);
        this.place.setAttribute("role", "group");
        this.place.setAttribute("aria-label", `Price per gas by weekday and hour. ${HELP}`);
        this.place.addEventListener("keydown", (event) => this.#onKey(event));
        this.place.addEventListener("focus", () => this.readout.setAttribute("role", "status"));
        this.place.addEventListener("blur", () => this.readout.removeAttribute("role"));
        for (const name of ["pointerdown", "pointermove"]) {
            this.place.addEventListener(name, ({ target }) => this.#point(target.closest("td")));
        }
        this.body = element("div", {}, this.place, this.readout);
        this.body.hidden = true;
        this.details = element("details", { className: "heat" },
            element("summary", {}, "Cheapest hours of the week"), this.body, this.word);
        this.details.addEventListener("toggle", () => this.details.open && onOpen());
        this.node = element("div", {}, this.cheap, this.details);
    }

    get isOpen() {
        return this.details.open;
    }

    /** @param {object | undefined} trend of 7 days; `undefined` if it could not be loaded */
    show(trend) {
        setText(this.cheap, trend ? cheapHoursText(trend, new Date()) : "");
        this.body.hidden = !trend;
        const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
        const legend = `Your time (${zone}). Hours in a stronger colour were cheaper, hatched ones are not known.`;
        setText(this.word, trend ? legend : "The hours are not available right now.");
        if (!trend) return;
        const at = this.at && this.#cells().indexOf(this.at);
        this.rows.replaceChildren(...heatMap(trend).map(({ day, hours }) => {
            const head = element("th", { scope: "row" }, day.slice(0, 2), unseen(day.slice(2)));
            const cells = hours.map(({ text, shade }) => {
                const cell = element("td", { className: shade === undefined ? "unknown" : `shade-${shade}` });
                cell.append(unseen(text));
                return cell;
            });
            return element("tr", {}, head, ...cells);
        }));
        this.#point(this.#cells()[at]);
    }

    #cells() {
        return [...this.rows.querySelectorAll("td")];
    }

    /** Shows the price of a cell. */
    #point(cell) {
        this.at?.classList.remove("at");
        this.at = cell ?? undefined;
        this.at?.classList.add("at");
        setText(this.readout, cell?.textContent ?? HELP);
    }

    #onKey(event) {
        const step = STEPS[event.key];
        if (!step) return;
        event.preventDefault();
        const cells = this.#cells();
        const index = this.at ? cells.indexOf(this.at) : -1;
        const [row, column] = index < 0 ? [0, 0] : [Math.floor(index / HOURS) + step[0], (index % HOURS) + step[1]];
        const isInside = row >= 0 && column >= 0 && column < HOURS;
        if (isInside && cells[row * HOURS + column]) this.#point(cells[row * HOURS + column]);
    }
}
