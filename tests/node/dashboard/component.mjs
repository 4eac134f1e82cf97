// The web component for pages of other origins.

import { once } from "node:events";
import { createServer } from "node:http";

import { until } from "../browser.mjs";

export default {
    "the component shows a price in pages of other origins": async ({ browser, config, nodes, start }) => {
        const chain = nodes.chain(402);
        const times = 'block_time = "1s"\nmax_age = "4s"\nstall_after = "0s"';
        const service = await start({ config: config({ ronin: { ...chain, more: times } }) });
        const html = `<!doctype html><title>t</title><gas-suggestion chain="ronin"></gas-suggestion>
            <gas-suggestion service="${service.url}" chain="ronin" tier="high"></gas-suggestion>
            <gas-suggestion chain="unknown"></gas-suggestion>
            <script type="module" src="${service.url}/gas-suggestion.js"></script>`;
        const server = createServer((_, response) => response.writeHead(200, { "content-type": "text/html",
            "content-security-policy": `default-src 'none'; script-src ${service.url}; connect-src ${service.url}; require-trusted-types-for 'script'`,
        }).end(html)).listen(0, "127.0.0.1");
        await once(server, "listening");
        const context = await browser.newContext();
        try {
            const page = await context.newPage();
            // Shortens the interval of 5 s.
            await context.addInitScript(() => {
                const { setInterval } = window;
                window.setInterval = (run, delay) => setInterval(run, Math.min(delay, 500));
            });
            await page.goto(`http://localhost:${server.address().port}/`);
            const shown = () => page.evaluate(() => [...document.querySelectorAll("gas-suggestion")].map((node) =>
                [node.getAttribute("state"), node.shadowRoot.querySelector("b").textContent, node.shadowRoot.querySelector("small").textContent]));
            const becomesShown = (index, ...expected) => until(shown, (all) =>
                all[index].every((text, part) => expected[part] instanceof RegExp ? expected[part].test(text) : text === expected[part]));
            await becomesShown(0, "live", "21 gwei", /^(just now|\d s ago)$/);
            await becomesShown(1, "live", "25 gwei", /ago|now/);
            await becomesShown(2, "unknown", "–", "unknown chain");
            nodes.chains.get("402").isHealthy = false;
            await becomesShown(0, "stale", "21 gwei", /^stale, \d s ago$/);
            await becomesShown(0, "unavailable", "21 gwei", /^unavailable, \d+ s ago$/);
            nodes.chains.get("402").isHealthy = true;
            nodes.chains.get("402").newest += 1;
            await becomesShown(0, "live", "21 gwei", /ago|now/);
            await page.evaluate(() => document.querySelector("gas-suggestion").setAttribute("tier", "high"));
            await becomesShown(0, "live", "25 gwei", /ago|now/);
            await service.stop();
            await becomesShown(0, "disconnected", "25 gwei", /^no connection, \d+ s ago$/);
        } finally {
            await context.close();
            server.close();
            server.closeAllConnections();
        }
    },
};
