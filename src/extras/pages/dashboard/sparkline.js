// A small line of the prices that the page has seen.

import { svg } from "./dom.js";

const [WIDTH, HEIGHT, MARGIN] = [120, 28, 2];
// A change by less than this part of the price does not fill the height.
const FULL_HEIGHT = 20n;

/**
 * Returns the points of the line, scaled to the drawing. Prices are compared with BigInt and drawn with numbers.
 *
 * @param {{ block: number, wei: bigint }[]} history oldest first
 */
export function points(history) {
    if (history.length < 2) return "";
    const prices = history.map(({ wei }) => wei);
    const least = prices.reduce((one, other) => (other < one ? other : one));
    const most = prices.reduce((one, other) => (other > one ? other : one));
    const range = most - least > most / FULL_HEIGHT ? most - least : most / FULL_HEIGHT + 1n;
    const [first, span] = [history[0].block, Math.max(history.at(-1).block - history[0].block, 1)];
    const x = (block) => MARGIN + ((block - first) * (WIDTH - 2 * MARGIN)) / span;
    // The middle of the prices is in the middle of the drawing.
    const y = (wei) => {
        const share = 0.5 + Number(((2n * wei - least - most) * 1000n) / (2n * range)) / 1000;
        return HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN);
    };
    return history.map(({ block, wei }) => `${x(block).toFixed(1)},${y(wei).toFixed(1)}`).join(" ");
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
