// The history on a chain's page: the choice of a period, the chart, the heat map, and the requests for them.

import { Choice, element } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { PriceChart } from "./price-chart.js";
import { PERIODS, blockPoints, trendPoints } from "./points.js";
import { marketKey } from "./state.js";

// Interval of the requests for the trend.
const TREND_MS = 60_000;
// Delay before blocks that could not be loaded are requested again.
const RETRY_MS = 10_000;
// The page opens with the trend if it has at least this many buckets, otherwise with the newest blocks.
const MIN_BUCKETS = 6;
const BLOCKS = "blocks";
const DEFAULT_TREND = "24h";
const NOT_AVAILABLE = "Not available right now.";
const NOT_KEPT = "This service keeps fewer days.";

export class History {
    #trendAskedAt = -Infinity;
    #blocksPausedUntil = -Infinity;
    // The market at which the blocks were requested.
    #market;
    #blocksKey;
    #isAskingBlocks = false;
    // True once the first period is known: by the first trend, or by the reader's choice.
    #isOpened = false;
    #live;

    /** @param {string} key of the chain */
    constructor(key) {
        this.key = key;
        this.period = new Choice("Period", PERIODS, () => this.#choose());
        this.chart = new PriceChart();
        this.heatMap = new HeatMap(() => this.#requestHeatMap());
        this.node = element("section", { className: "history" },
            element("header", {}, element("h3", {}, "History"), this.period.node),
            this.chart.node, this.heatMap.node);
        this.node.hidden = true;
    }

    /** Requests what is due. Called with every change of the chain, and several times a second. */
    update({ suggestion, market }, live, now) {
        this.#live = live;
        if (!live || !suggestion) return;
        if (now - this.#trendAskedAt >= TREND_MS) this.#requestTrend(now);
        const isDue = this.#isOpened && this.period.value === BLOCKS && !this.#isAskingBlocks;
        if (!isDue || !market || market === this.#market || now < this.#blocksPausedUntil) return;
        const key = marketKey(market);
        if (key !== this.#blocksKey) this.#requestBlocks(market, key);
        else this.#market = market;
    }

    stop() {
        this.#live = undefined;
        this.chart.stop();
    }

    #choose() {
        this.#isOpened = true;
        this.#market = this.#blocksKey = undefined;
        this.#blocksPausedUntil = -Infinity;
        if (this.period.value !== BLOCKS) this.#requestTrend(performance.now());
    }

    async #requestTrend(now) {
        this.#trendAskedAt = now;
        const live = this.#live;
        const { value } = this.period;
        const period = value === BLOCKS ? DEFAULT_TREND : value;
        const trend = await live?.requestTrend(this.key, period);
        if (!this.#isCurrent(live)) return;
        if (!this.#isOpened && trend?.buckets.length >= MIN_BUCKETS) this.period.select(DEFAULT_TREND);
        this.#isOpened = true;
        const missing = trend === null ? NOT_KEPT : NOT_AVAILABLE;
        if (this.period.value === period) this.#show(trend && trendPoints(trend, period), period, missing);
        if (this.heatMap.isOpen) this.#requestHeatMap();
    }

    async #requestBlocks(market, key) {
        const live = this.#live;
        this.#isAskingBlocks = true;
        const history = await live.requestBlocks(this.key);
        this.#isAskingBlocks = false;
        if (!this.#isCurrent(live)) return;
        if (history) [this.#market, this.#blocksKey] = [market, key];
        else this.#blocksPausedUntil = performance.now() + RETRY_MS;
        if (this.period.value !== BLOCKS) return;
        const index = Math.max(history?.reward_percentiles.indexOf(market.window.reward_percentiles?.[0]) ?? 0, 0);
        this.#show(history && blockPoints(history, index), BLOCKS);
    }

    async #requestHeatMap() {
        const live = this.#live;
        const trend = await live?.requestTrend(this.key, "7d");
        if (this.#isCurrent(live)) this.heatMap.show(trend);
    }

    /** Returns false if the page was closed or hidden while a response was on its way. */
    #isCurrent(live) {
        return live !== undefined && live === this.#live && !live.isStopped;
    }

    #show(points, period, missing = NOT_AVAILABLE) {
        this.node.hidden = false;
        if (points) this.chart.show(points, period);
        else this.chart.showMissing(period, missing);
    }
}
