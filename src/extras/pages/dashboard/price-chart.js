// The interactive chart of the newest blocks or of a trend, drawn by uPlot, which is loaded when the first chart is shown.

import { gwei, price } from "./amounts.js";
import { element, setText, setTitle } from "./dom.js";
import { axisText, scale, series, summary } from "./points.js";

const HEIGHT = 250;
const WEI_PER_GWEI = 1e9;
// Minimum distance of two labels of the time axis, in CSS pixels.
const LABEL_SPACES = { blocks: 88, "1h": 64, "24h": 64, "7d": 96 };
const AREAS = { blocks: "tip", trend: "lowest to highest base fee" };

export class PriceChart {
    constructor() {
        this.place = element("div", { className: "plot", tabIndex: 0 });
        this.place.setAttribute("role", "group");
        this.place.setAttribute("aria-roledescription", "chart");
        this.readout = element("p", { className: "readout" });
        this.rows = element("tbody");
        this.first = element("th", { scope: "col" });
        const heads = [this.first, ...["Price", "Base fee", "Tip"].map((text) => element("th", { scope: "col" }, text))];
        const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), this.rows);
        // The keyboard scrolls only what it can focus.
        const scroll = element("div", { className: "scroll", tabIndex: 0 }, table);
        scroll.setAttribute("role", "region");
        scroll.setAttribute("aria-label", "Numbers of the chart");
        this.table = element("details", { className: "data" }, element("summary", {}, "Show the numbers"), scroll);
        this.table.addEventListener("toggle", () => this.#fillTable());
        this.area = element("span", { className: "key band" });
        this.cut = element("span", {}, "Peaks are off the scale.");
        this.legend = element("p", { className: "legend" },
            element("span", { className: "key paid" }, "price: base fee and tip"),
            element("span", { className: "key base" }, "base fee"), this.area, this.cut);
        this.node = element("div", { className: "price-chart" }, this.legend, this.place, this.readout, this.table);
        this.place.addEventListener("keydown", (event) => this.#onKey(event));
        // Only the reader's own steps through the chart are announced.
        this.place.addEventListener("focus", () => this.readout.setAttribute("role", "status"));
        this.place.addEventListener("blur", () => {
            this.readout.removeAttribute("role");
            this.#point(undefined);
        });
        for (const name of ["pointerdown", "pointermove"]) {
            this.place.addEventListener(name, (event) => this.#onPointer(event));
        }
        // A finger that is lifted leaves the values on the screen.
        this.place.addEventListener("pointerleave", ({ pointerType }) => pointerType !== "touch" && this.#point(undefined));
        this.resizing = new ResizeObserver(() => this.#resize());
        this.scheme = matchMedia("(prefers-color-scheme: dark)");
        this.onScheme = () => this.#draw();
    }

    /**
     * Shows these points.
     *
     * @param {import('./points.js').Point[]} points oldest first
     * @param {string} period
     */
    async show(points, period) {
        if (period !== this.period) this.index = undefined;
        // A point that the reader looks at stays the same when older ones leave the chart.
        const at = this.points?.[this.index]?.x;
        if (at !== undefined) this.index = Math.max(points.findIndex(({ x }) => x === at), 0);
        [this.points, this.period, this.scale] = [points, period, scale(points)];
        this.summary = summary(points, period);
        this.place.setAttribute("aria-label", `${this.summary} Use the arrow keys to read the values.`);
        this.#showAround(true);
        setText(this.readout, points[this.index]?.text ?? this.summary);
        setText(this.area, AREAS[period] ?? AREAS.trend);
        this.cut.hidden = !this.scale.isCut;
        this.#fillTable();
        if (!this.uPlot) {
            const { default: uPlot } = await import("./uplot/uPlot.esm.js");
            if (!this.uPlot && !this.isStopped) {
                this.resizing.observe(this.place);
                this.scheme.addEventListener("change", this.onScheme);
            }
            this.uPlot = uPlot;
        }
        this.#draw();
    }

    /** Shows why there are no points, unless the chart has some of this period. */
    showMissing(period, reason) {
        if (this.points && this.period === period) return;
        this.plot?.destroy();
        this.plot = this.points = this.index = undefined;
        this.#showAround(false);
        setText(this.readout, reason);
    }

    #showAround(isShown) {
        for (const node of [this.legend, this.place, this.table]) node.hidden = !isShown;
    }

    stop() {
        this.resizing.disconnect();
        this.scheme.removeEventListener("change", this.onScheme);
        this.plot?.destroy();
        this.plot = undefined;
        this.isStopped = true;
    }

    #draw() {
        if (this.isStopped || !this.points || !this.place.isConnected) return;
        const data = series(this.points);
        const isSame = this.plot && this.drawnPeriod === this.period && this.drawnDark === this.scheme.matches;
        if (isSame) {
            this.plot.setData(data);
            if (this.index !== undefined) this.#point(this.index);
            return;
        }
        this.plot?.destroy();
        [this.drawnPeriod, this.drawnDark] = [this.period, this.scheme.matches];
        this.plot = new this.uPlot(this.#options(), data, this.place);
        this.#point(this.index);
    }

    #options() {
        const style = getComputedStyle(this.place);
        const color = (name) => style.getPropertyValue(name).trim();
        const font = `12px ${style.fontFamily}`;
        const axis = { stroke: color("--muted"), font, grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
        const line = (stroke, width) => ({ stroke, width, points: { show: false } });
        const names = (plot, positions) => positions.map((x) => axisText(x, this.period));
        return {
            width: this.place.clientWidth,
            height: HEIGHT,
            // The half of a label at the right end fits: at one o'clock that of midnight is whole.
            padding: [8, LABEL_SPACES[this.period] / 2, 0, 0],
            legend: { show: false },
            cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
            scales: { x: { time: this.period !== "blocks" }, y: { range: () => [0, this.scale.top] } },
            axes: [
                { ...axis, values: names, space: LABEL_SPACES[this.period], size: 32, gap: 9 },
                {
                    ...axis,
                    size: (plot, values) => axisSize(plot, values),
                    values: (plot, ticks) => ticks.map((gwei) => price(BigInt(Math.round(gwei * WEI_PER_GWEI)))),
                },
            ],
            series: [
                {},
                line(color("--accent"), 2),
                line("transparent", 0),
                line("transparent", 0),
                line(color("--good"), 1.5),
            ],
            bands: [{ series: [2, 3], fill: color("--band") }],
        };
    }

    #resize() {
        const width = this.place.clientWidth;
        if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
    }

    /** Shows the values of the point at `index`, or the summary. */
    #point(index) {
        const count = this.points?.length ?? 0;
        this.index = index === undefined || count === 0 ? undefined : Math.min(Math.max(index, 0), count - 1);
        if (!this.plot) return;
        if (this.index === undefined) {
            this.plot.setCursor({ left: -10, top: -10 });
            setText(this.readout, this.summary);
            return;
        }
        const left = this.plot.valToPos(this.plot.data[0][this.index], "x");
        this.plot.setCursor({ left, top: 0 });
        setText(this.readout, this.points[this.index].text);
    }

    #onKey(event) {
        const count = this.points?.length ?? 0;
        const at = this.index ?? count;
        const target = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: count - 1 }[event.key];
        if (event.key === "Escape") this.#point(undefined);
        if (target === undefined || count === 0) return;
        event.preventDefault();
        this.#point(target);
    }

    #onPointer({ clientX }) {
        if (!this.plot) return;
        const { left } = this.plot.over.getBoundingClientRect();
        this.#point(this.plot.posToIdx(clientX - left));
    }

    #fillTable() {
        setText(this.first, this.period === "blocks" ? "Block" : "Time");
        if (!this.table.open || !this.points) return;
        const cell = (wei) => {
            const node = element("td", {}, wei === undefined ? "–" : price(wei));
            setTitle(node, wei === undefined ? "" : `${gwei(wei)} gwei`);
            return node;
        };
        const rows = [...this.points].reverse().map(({ name, price: paid, base, tip }) =>
            element("tr", {}, element("th", { scope: "row" }, name.replace("Block ", "")), ...[paid, base, tip].map(cell)));
        this.rows.replaceChildren(...rows);
    }
}

/** Returns a width in which the longest label fits. */
function axisSize(plot, values) {
    const longest = (values ?? []).reduce((one, other) => (other.length > one.length ? other : one), "");
    plot.ctx.save();
    plot.ctx.font = plot.axes[1].font[0];
    const width = plot.ctx.measureText(longest).width / devicePixelRatio;
    plot.ctx.restore();
    return Math.ceil(width) + 14;
}
