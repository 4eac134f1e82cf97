// The history on a chain's page: the choice of a period, the chart, the heat map, and the requests for them.

import { Choice, element } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { PriceChart } from "./price-chart.js";
import { PERIODS, blockPoints, trendPoints } from "./points.js";
import { hasHistory, marketKey } from "./state.js";

// Interval of the requests for the trend.
const TREND_MS = 60_000;
// Interval of the requests for the week, which has the usual hours, and their delay behind what the page shows first.
const WEEK_MS = 600_000;
const WEEK_DELAY_MS = 1500;
// Delay before blocks that could not be loaded are requested again.
const RETRY_MS = 10_000;
// The page opens with the trend if it has at least this many buckets, otherwise with the newest blocks.
const MIN_BUCKETS = 6;
const BLOCKS = "blocks";
const DEFAULT_TREND = "24h";
const WEEK = "7d";
const HOUR = "1h";
const NOT_AVAILABLE = "Not available right now.";

export class History {
    #trendAskedAt = -Infinity;
    #blocksPausedUntil = -Infinity;
    // The market at which the blocks were requested.
    #market;
    #blocksKey;
    #isAskingBlocks = false;
    // True once the first period is known: by the first trend, or by the reader's choice.
    #isOpened = false;
    #weekAskedAt = -Infinity;
    // True once the trend of a day was requested.
    #hasDay = false;
    #startedAt;
    #live;

    /**
     * @param {string} key of the chain
     * @param {boolean} hasWeek true if the service keeps the prices of a week
     * @param {() => void} onPeriod called when the reader chooses a period
     * @param {(trend: object) => void} onTrend receives each trend
     */
    constructor(key, hasWeek, onPeriod, onTrend) {
        Object.assign(this, { key, hasWeek, onTrend });
        const { [WEEK]: _, ...shorter } = PERIODS;
        this.period = new Choice("Period", hasWeek ? PERIODS : shorter, () => {
            this.#onChoice();
            onPeriod();
        });
        this.chart = new PriceChart();
        this.heatMap = new HeatMap(() => this.#requestHeatMap());
        this.node = element("section", { className: "history" },
            element("header", {}, element("h3", {}, "History"), this.period.node),
            this.chart.node, this.heatMap.node);
        this.node.hidden = true;
        this.heatMap.node.hidden = !hasWeek;
    }

    /** Requests what is due. Called with every change of the chain, and several times a second. */
    update(chain, live, now) {
        const { market } = chain;
        this.#live = live;
        this.isStopped = chain.status === "unavailable";
        if (!live || !hasHistory(chain)) return;
        this.#startedAt ??= now;
        if (now - this.#trendAskedAt >= TREND_MS) this.#requestTrend(now);
        const isWeekDue = now - this.#weekAskedAt >= WEEK_MS && now - this.#startedAt >= WEEK_DELAY_MS;
        if (this.#isOpened && isWeekDue) this.#requestHeatMap(now);
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

    /** Shows the period that the address names, if it names one. */
    choose(period) {
        if (!this.period.buttons.has(period) || (this.chosen && this.period.value === period)) return;
        this.period.select(period);
        this.#onChoice();
    }

    #onChoice() {
        this.#isOpened = true;
        this.chosen = this.period.value;
        this.#market = this.#blocksKey = undefined;
        this.#blocksPausedUntil = -Infinity;
        // Without a connection, the next update requests it.
        if (!this.#live) this.#trendAskedAt = -Infinity;
        else if (this.period.value !== BLOCKS) this.#requestTrend(performance.now());
    }

    async #requestTrend(now) {
        this.#trendAskedAt = now;
        const live = this.#live;
        const { value } = this.period;
        const period = value === BLOCKS ? DEFAULT_TREND : value;
        const trend = await live?.requestTrend(this.key, period);
        if (!this.#isCurrent(live)) return;
        if (trend) this.onTrend(trend);
        this.#hasDay ||= period === DEFAULT_TREND;
        if (!this.#isOpened && trend?.buckets.length >= MIN_BUCKETS) this.period.select(DEFAULT_TREND);
        else if (!this.#isOpened && this.isStopped && trend) {
            // The chain stopped longer ago, or soon after its first block. It has no newest blocks.
            this.period.select(trend.buckets.length === 0 && this.hasWeek ? WEEK : HOUR);
            this.#isOpened = true;
            return this.#requestTrend(now);
        }
        this.#isOpened = true;
        if (this.period.value === period) this.#show(trend && trendPoints(trend, period), period);
        if (this.heatMap.isOpen) this.#requestHeatMap(now);
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

    async #requestHeatMap(now = performance.now()) {
        this.#weekAskedAt = now;
        const live = this.#live;
        const trend = this.hasWeek ? await live?.requestTrend(this.key, WEEK) : undefined;
        if (this.#isCurrent(live)) this.heatMap.show(trend);
        if (this.#hasDay || !this.#isCurrent(live)) return;
        this.#hasDay = true;
        const day = await live.requestTrend(this.key, DEFAULT_TREND);
        if (day && this.#isCurrent(live)) this.onTrend(day);
    }

    /** Returns false if the page was closed or hidden while a response was on its way. */
    #isCurrent(live) {
        return live !== undefined && live === this.#live && !live.isStopped;
    }

    #show(points, period) {
        this.node.hidden = false;
        if (points) this.chart.show(points, period);
        else this.chart.showMissing(period, NOT_AVAILABLE);
    }
}
