// A page that polls with a plain fetch, as Safe{Wallet}, MetaMask's controller and the examples do. The browser's cache
// must not hand out the response to the poll before: `node browser-cache.mjs SETTINGS`, where SETTINGS is JSON with the
// `binary` of the service and a `folder` for its configuration.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, test } from "node:test";

import { launch } from "./browser.mjs";
import { Nodes, Service, stopAll } from "./services.mjs";

const { binary, folder } = JSON.parse(process.argv[2]);
const BLOCK_MS = 1000;
// A response that a cache keeps for a second poll is two blocks behind.
const BLOCKS_BETWEEN_POLLS = 2;
const POLLS = 5;
const ROUTES = ["/v1/chain/gas-suggestion", "/compat/safe/4242", "/networks/4242/suggestedGasFees"];

const browser = await launch();
after(async () => {
    await browser.close();
    await stopAll();
});

test("a polling page is never more than one block behind", { timeout: 60_000 }, async () => {
    const nodes = await Nodes.start();
    const chain = nodes.chain(4242);
    const blocks = setInterval(() => (chain.newest += 1), BLOCK_MS);
    const config = `[chains.chain]\nchain_id = 4242\nrpc_urls = ["${nodes.url(4242)}"]\nblock_time = "${BLOCK_MS}ms"\n` +
        'max_age = "3min"\n[history]\nrefill = false\n';
    const service = await Service.start({ binary, folder, config });
    // The newest block that the service has, past all caches.
    const served = async () =>
        Number((await fetch(`${service.url}${ROUTES[0]}`)).headers.get("x-newest-block"));

    // A page of another origin, as that of a wallet.
    const site = createServer((_, response) => response.end("<!doctype html><title>A wallet</title>"));
    site.listen(0, "127.0.0.1");
    await once(site, "listening");
    const page = await (await browser.newContext()).newPage();
    await page.goto(`http://127.0.0.1:${site.address().port}/`);

    const seen = Object.fromEntries(ROUTES.map((route) => [route, []]));
    const poll = async (route) => {
        const newest = await served();
        const [block, age] = await page.evaluate(async (url) => {
            const { headers } = await fetch(url);
            return [Number(headers.get("x-newest-block")), Number(headers.get("age"))];
        }, `${service.url}${route}`);
        seen[route].push({ newest, block, behind: newest - block, age });
    };
    let next = Date.now();
    for (let count = 0; count < POLLS; count += 1) {
        await Promise.all(ROUTES.map(poll));
        next += BLOCKS_BETWEEN_POLLS * BLOCK_MS;
        await new Promise((resolve) => setTimeout(resolve, next - Date.now()));
    }
    clearInterval(blocks);
    site.close();
    for (const [route, polls] of Object.entries(seen)) {
        const late = polls.filter(({ behind }) => behind > 1);
        assert.deepEqual(late, [], `${route}: ${late.length} of ${polls.length} polls`);
        // The polls did see a moving chain.
        assert(polls.at(-1).block - polls[0].block > POLLS, JSON.stringify(polls));
    }
});
