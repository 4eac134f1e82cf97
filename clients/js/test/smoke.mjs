// The built package in any runtime, without a service: `node test/smoke.mjs`, or bun, or deno.

import assert from "node:assert/strict";

import { createGasClient } from "../dist/index.js";
import { market, serve, stopServers, suggestion, until } from "./server.mjs";

const { url } = await serve((request, response) => {
    if (request.url === "/v1/2/fee-market") return response.writeHead(302, { location: "/v1/1/fee-market" }).end();
    if (request.url !== "/v1/gas-suggestions/stream") {
        return response.writeHead(200, { "X-Newest-Block": 1, "Age": 0 }).end(JSON.stringify(market(5)));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const block of [1, 2]) response.write(`event: gas-suggestion\rid: 1-${block}-tag\rdata: ${JSON.stringify(suggestion(5))}\r\r`);
});
const gas = createGasClient({ url, chain: "a" });
assert.equal((await gas.price()).medium, 5n);
const { code } = await createGasClient({ url, chain: 2 }).price().catch((error) => error);
assert.equal(code, "invalid_response");
const blocks = [];
const stop = gas.subscribe({ onSuggestion: ({ block }) => blocks.push(block) });
await until(() => blocks.includes(2));
stop();
await stopServers();
