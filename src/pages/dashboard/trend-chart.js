// The interactive chart of a fee trend, drawn by uPlot, which is loaded when the first chart is shown.

import { price } from "./amounts.js";
import { element, setText } from "./dom.js";
import { bucketPrice, bucketText, series, summary, timeText } from "./trend.js";

const HEIGHT = 260;
const WEI_PER_GWEI = 1e9;
// Minimum distance of two labels of the time axis, in CSS pixels.
const LABEL_SPACE = 64;

export class TrendChart {
    constructor() {
        this.place = element("div", { className: "plot", tabIndex: 0 });
        this.place.setAttribute("role", "group");
        this.place.setAttribute("aria-roledescription", "chart");
        this.readout = element("p", { className: "readout" });
        this.rows = element("tbody");
        const heads = ["Time", "Price", "Base fee", "Tip"].map((text) => element("th", { scope: "col" }, text));
        const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), this.rows);
        // The keyboard scrolls only what it can focus.
        const scroll = element("div", { className: "scroll", tabIndex: 0 }, table);
        scroll.setAttribute("role", "region");
        scroll.setAttribute("aria-label", "Numbers of the chart");
        this.table = element("details", { className: "data" }, element("summary", {}, "Show the numbers"), scroll);
        this.table.addEventListener("toggle", () => this.#fillTable());
        const legend = element("p", { className: "legend" },
            element("span", { className: "key paid" }, "price: base fee and tip"),
            element("span", { className: "key base" }, "base fee"),
            element("span", { className: "key band" }, "lowest to highest base fee"));
        this.node = element("div", { className: "trend-chart" }, legend, this.place, this.readout, this.table);
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

    /** Shows a trend. */
    async show(trend, period) {
        [this.trend, this.period] = [trend, period];
        const text = summary(trend, period);
        this.place.setAttribute("aria-label", `${text} Use the arrow keys to read the values.`);
        this.summary = text;
        if (this.index === undefined) setText(this.readout, text);
        this.#fillTable();
        if (!this.uPlot) {
            const { default: uPlot } = await import("./uplot/uPlot.esm.js");
            if (!this.uPlot) {
                this.resizing.observe(this.place);
                this.scheme.addEventListener("change", this.onScheme);
            }
            this.uPlot = uPlot;
        }
        this.#draw();
    }

    stop() {
        this.resizing.disconnect();
        this.scheme.removeEventListener("change", this.onScheme);
        this.plot?.destroy();
        this.plot = undefined;
        this.isStopped = true;
    }

    #draw() {
        if (this.isStopped || !this.place.isConnected) return;
        const data = series(this.trend);
        if (this.plot && this.drawnPeriod === this.period && this.drawnDark === this.scheme.matches) {
            this.plot.setData(data);
            this.#point(this.index);
            return;
        }
        this.plot?.destroy();
        [this.drawnPeriod, this.drawnDark] = [this.period, this.scheme.matches];
        this.index = undefined;
        setText(this.readout, this.summary);
        this.plot = new this.uPlot(this.#options(), data, this.place);
    }

    #options() {
        const style = getComputedStyle(this.place);
        const color = (name) => style.getPropertyValue(name).trim();
        const font = `12px ${style.fontFamily}`;
        const axis = { stroke: color("--muted"), font, grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
        const line = (stroke, width) => ({ stroke, width, points: { show: false } });
        const times = (plot, seconds) => seconds.map((at) => timeText(at * 1000, this.period));
        return {
            width: this.place.clientWidth,
            height: HEIGHT,
            legend: { show: false },
            cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
            scales: { y: { range: (plot, least, most) => range(least, most) } },
            axes: [
                { ...axis, values: times, space: LABEL_SPACE + (this.period === "7d" ? 32 : 0) },
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

    /** Shows the values of the bucket at `index`, or the summary. */
    #point(index) {
        const count = this.trend?.buckets.length ?? 0;
        this.index = index === undefined || count === 0 ? undefined : Math.min(Math.max(index, 0), count - 1);
        if (!this.plot) return;
        if (this.index === undefined) {
            this.plot.setCursor({ left: -10, top: -10 });
            setText(this.readout, this.summary);
            return;
        }
        const bucket = this.trend.buckets[this.index];
        const left = this.plot.valToPos(this.plot.data[0][this.index], "x");
        this.plot.setCursor({ left, top: 0 });
        setText(this.readout, bucketText(bucket, this.period));
    }

    #onKey(event) {
        const count = this.trend?.buckets.length ?? 0;
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
        if (!this.table.open || !this.trend) return;
        const rows = this.trend.buckets.toReversed().map((bucket) => {
            const { base_fee_per_gas: fee, max_priority_fee_per_gas: tip } = bucket;
            const amounts = [bucketPrice(bucket), fee.median, tip.median].map((wei) => element("td", {}, price(wei)));
            return element("tr", {}, element("th", { scope: "row" }, timeText(bucket.start, this.period)), ...amounts);
        });
        this.rows.replaceChildren(...rows);
    }
}

/** Returns the range of the price axis, which begins at 0. */
function range(least, most) {
    return [0, most > 0 ? most * 1.08 : 1];
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
