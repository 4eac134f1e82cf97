// A small line of the prices that the page has seen.

import { svg } from "./dom.js";

const [WIDTH, HEIGHT, MARGIN] = [120, 28, 2];

/**
 * Returns the points of the line, scaled to the drawing. Prices are compared with BigInt and drawn with numbers.
 *
 * @param {{ wei: bigint }[]} history oldest first
 */
export function points(history) {
    if (history.length < 2) return "";
    const prices = history.map(({ wei }) => wei);
    const least = prices.reduce((one, other) => (other < one ? other : one));
    const most = prices.reduce((one, other) => (other > one ? other : one));
    const range = most - least;
    const x = (index) => MARGIN + (index * (WIDTH - 2 * MARGIN)) / (prices.length - 1);
    const y = (wei) => {
        const share = range === 0n ? 0.5 : Number(((wei - least) * 1000n) / range) / 1000;
        return HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN);
    };
    return prices.map((wei, index) => `${x(index).toFixed(1)},${y(wei).toFixed(1)}`).join(" ");
}

export class Sparkline {
    constructor() {
        this.line = svg("polyline", {});
        const size = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", "aria-hidden": "true" };
        this.node = svg("svg", size, this.line);
    }

    show(history) {
        if (history === this.shown) return;
        this.shown = history;
        this.line.setAttribute("points", points(history));
    }
}
