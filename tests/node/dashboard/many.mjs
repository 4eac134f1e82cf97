// A service with forty mock chains, and proxies in front of it that show some of them.

import { until } from "../browser.mjs";
import { STILL, trendBody } from "./page.mjs";
import { Proxy } from "../services.mjs";

const COUNT = 40;
const FIRST_ID = 1000;
// Prices from wei to gwei.
const FEES = 'pricing.base_fee_floor = "0 wei"\npricing.priority_fee_floor = "0 wei"\n' +
    "pricing.base_fee_change_denominator = 8";

export class ManyChains {
    static async start({ nodes, config, start }) {
        const many = new ManyChains();
        many.chains = Object.fromEntries(Array.from({ length: COUNT }, (_, index) => {
            const market = { baseFee: 10n ** BigInt(6 + (index % 6)), reward: 10n ** BigInt(3 + (index % 9)) };
            const chain = nodes.chain(FIRST_ID + index, market);
            return [`chain-${index}`, { ...chain, name: `Chain number ${index}`, fees: FEES, more: STILL }];
        }));
        many.service = await start({ config: config(many.chains) });
        // The first poll of a chain may have timed out.
        const readMarkets = async () => (await fetch(`${many.service.url}/v1/fee-markets`)).json();
        await until(readMarkets, ({ length }) => length === COUNT);
        return many;
    }

    names(count) {
        return Object.values(this.chains).slice(0, count).map(({ name }) => name);
    }

    // Starts a proxy that shows the first `count` chains, and a history and a level for each chain.
    async proxy(count) {
        const proxy = await Proxy.start(this.service.url);
        const ids = new Set(Object.values(this.chains).slice(0, count).map(({ id }) => id));
        proxy.levelOf = (id) => ["normal", "high", "low"][id % 3];
        proxy.rule = async (path) => {
            const { pathname, searchParams } = new URL(path, "http://service");
            if (pathname.endsWith("/fee-trend")) return trendBody(searchParams.get("period"));
            if (!/^\/v1\/(chains|fee-markets|[^/]+\/fee-market)$/.test(pathname)) return "pass";
            const body = await (await fetch(`${this.service.url}${pathname}`)).json();
            const deviation = (level) => ({ low: -0.12, normal: 0.02, high: 0.31 })[level] ?? null;
            const withLevel = (one) => {
                const level = proxy.levelOf(one.chain_id);
                const { fees_ready: isReady } = one;
                const changed = { level, level_deviation: deviation(level), fees_ready: proxy.hasFees ?? isReady };
                return "level" in one ? { ...one, ...changed } : one;
            };
            return Array.isArray(body) ? body.filter(({ chain_id: id }) => ids.has(id)).map(withLevel) : withLevel(body);
        };
        return proxy;
    }
}
