// The chart of the newest blocks, which the service draws. Shown if the service has no history of its fees.

import { element } from "./dom.js";

const CHART_TIMEOUT_MS = 10_000;
// Delay before a chart that failed to load is requested again.
const CHART_RETRY_MS = 10_000;

/** The chart. Its image is replaced once the next one has loaded. */
export class BlockChart {
    constructor() {
        this.image = undefined;
        this.message = element("p", { className: "word" }, "The chart is not available right now.");
        this.message.hidden = true;
        this.node = element("figure", {}, this.message);
        // Index of the URL to try first.
        this.firstIndex = 0;
        this.pausedUntil = -Infinity;
    }

    /**
     * Shows the chart at the first of these URLs that loads. While another chart is loading, only the latest call is
     * queued.
     *
     * @param {string} key identifies the chart: a chart that is shown or loading is not requested again
     * @param {URL[]} urls
     * @param {string} text the text alternative
     */
    async show(key, urls, text) {
        this.queued = key === (this.loadingKey ?? this.shownKey) ? undefined : { key, urls, text };
        if (this.loadingKey !== undefined || performance.now() < this.pausedUntil) return;
        while (this.queued) {
            const { key, urls, text } = this.queued;
            this.queued = undefined;
            this.loadingKey = key;
            const { image, index } = await loadFirst(urls, this.firstIndex);
            this.loadingKey = undefined;
            this.firstIndex = index;
            this.shownKey = image && key;
            this.message.hidden = image !== undefined;
            if (image) image.alt = text;
            this.#replace(image);
            if (!image) {
                this.pausedUntil = performance.now() + CHART_RETRY_MS;
                break;
            }
        }
    }

    /** Drops the queued chart, so that nothing more is requested until the next call of `show`. */
    stop() {
        this.queued = undefined;
    }

    /** Replaces the previous image; `undefined` removes it. */
    #replace(image) {
        const previous = this.image;
        this.image = image;
        // Replacing the image in one step keeps the scroll position.
        if (previous && image) return previous.replaceWith(image);
        previous?.remove();
        if (!image) return;
        this.node.prepend(image);
    }
}

/** Loads and decodes the first available image, starting at the index `first`. Returns it with its index. */
async function loadFirst(urls, first) {
    for (const [index, url] of [...urls.entries()].slice(first)) {
        const image = new Image();
        image.src = url;
        const timeout = new Promise((_, reject) => setTimeout(reject, CHART_TIMEOUT_MS));
        try {
            await Promise.race([image.decode(), timeout]);
            return { image, index };
        } catch {
            // Without a source, the browser cancels the request if it is still in flight.
            image.removeAttribute("src");
        }
    }
    return { index: 0 };
}
