// The icon of the window: the price on a colour for the level.

import { shortGwei } from "./amounts.js";

const COLOURS = { low: "#14703d", high: "#a4480b", outdated: "#59606d", other: "#1f5fd6" };
// Sizes of the digits by their number.
const FONT_SIZES = { 1: 24, 2: 20, 3: 16 };

/**
 * Returns the address of an icon with the price, or `undefined` without a price.
 *
 * @param {{ price?: { wei: bigint }, level?: string | null, isOutdated: boolean } | undefined} shown
 */
export function iconUrl(shown) {
    if (!shown?.price) return undefined;
    const { price, level, isOutdated } = shown;
    const text = shortGwei(price.wei);
    const colour = COLOURS[isOutdated ? "outdated" : level] ?? COLOURS.other;
    const size = FONT_SIZES[text.replace(".", "").length] ?? FONT_SIZES[3];
    const markup =
        `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="${colour}"/>` +
        `<text x="16" y="${16 + size * 0.36}" fill="#fff" font-family="system-ui,sans-serif" font-size="${size}" ` +
        `font-weight="700" text-anchor="middle">${text}</text></svg>`;
    return `data:image/svg+xml,${encodeURIComponent(markup)}`;
}

/** Shows the icon with the price, or the service's own one. */
export class Favicon {
    constructor(link) {
        this.link = link;
        this.own = link.href;
    }

    show(shown) {
        const url = iconUrl(shown) ?? this.own;
        if (this.link.href !== url) this.link.href = url;
    }
}
