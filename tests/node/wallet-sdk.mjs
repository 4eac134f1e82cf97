// Ronin's wallet SDK, unchanged, in a web page: `node wallet-sdk.mjs SETTINGS`.
//
// SETTINGS is JSON. `port` is that of an nginx that answers with TLS for the hosts that the SDK has in its code, with the
// service behind it. `service` is the service's URL. `chains` has for each chain its `id`, its `key` in the service, the
// URLs of its fees and of its RPC in the SDK (`fees`, `rpc`), that of its `node`, and the `sender` of a queued
// transaction.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, test } from "node:test";

import { DEADLINE_MS, launch } from "./browser.mjs";

const { port, service, chains } = JSON.parse(process.argv[2]);
const SDK = new URL("node_modules/@sky-mavis/waypoint/dist/module", import.meta.url);
const RECIPIENT = "0x00000000000000000000000000000000c0ffee00";

// The page and the modules of the SDK.
const site = createServer(({ url }, response) => {
    const isPage = url === "/";
    response.setHeader("content-type", isPage ? "text/html" : "text/javascript");
    response.end(isPage ? '<!doctype html><title>A wallet</title><link rel="icon" href="data:,">' : readFileSync(SDK.pathname + url));
});
site.listen(0, "127.0.0.1");
await once(site, "listening");
const origin = `http://127.0.0.1:${site.address().port}`;
const browser = await launch(`--host-resolver-rules=MAP * 127.0.0.1:${port}, EXCLUDE 127.0.0.1`);
after(async () => {
    await browser.close();
    site.close();
});

async function call(node, method, params) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const headers = { "content-type": "application/json" };
    const { error, result } = await (await fetch(node, { method: "POST", headers, body })).json();
    assert.equal(error, undefined);
    return result;
}

const hex = (amount) => `0x${BigInt(amount).toString(16)}`;

for (const { id, key, fees, rpc, node, sender } of chains) {
    test(`transactions of ${key} get the suggested fees`, { timeout: 2 * DEADLINE_MS }, async () => {
        const context = await browser.newContext({ ignoreHTTPSErrors: true });
        context.setDefaultTimeout(DEADLINE_MS);
        const page = await context.newPage();
        const requests = [];
        page.on("request", (request) => request.url().startsWith(origin) || requests.push(request.url()));
        await page.goto(origin);

        const { medium } = await (await fetch(`${service}/v1/${key}/gas-suggestion`)).json();
        const suggested = {
            gasPrice: "0x0",
            maxFeePerGas: hex(medium.max_fee_per_gas),
            maxPriorityFeePerGas: hex(medium.max_priority_fee_per_gas),
        };
        const estimated = await page.evaluate(async (chainId) => {
            const { estimateFeesPerGas } = await import("/headless/action/send-transaction/estimate-fee-per-gas.js");
            const client = { request: () => Promise.reject(new Error("no fees from the service")) };
            return estimateFeesPerGas(client, { chainId, type: "0x2" });
        }, id);
        assert.deepEqual(estimated, suggested);

        const transfer = { from: sender, to: RECIPIENT, value: "0x2a", data: "0xc0ffee" };
        const transaction = await page.evaluate(async ({ transaction, chain }) => {
            const { toTransactionInServerFormat } = await import("/headless/action/send-transaction/prepare-tx.js");
            return toTransactionInServerFormat({ transaction, chain });
        }, { transaction: transfer, chain: { chainId: id, rpcUrl: rpc } });
        const [pending, latest, gas] = await Promise.all([
            call(node, "eth_getTransactionCount", [sender, "pending"]),
            call(node, "eth_getTransactionCount", [sender, "latest"]),
            call(node, "eth_estimateGas", [transfer]),
        ]);
        assert.notEqual(pending, latest);
        const { type, chainId, from, to, value, input, nonce, gas: limit, gasPrice, maxFeePerGas, maxPriorityFeePerGas } =
            transaction;
        assert.deepEqual({ gasPrice, maxFeePerGas, maxPriorityFeePerGas }, suggested);
        // The SDK doubles the estimate.
        assert.deepEqual({ nonce, limit: BigInt(limit) }, { nonce: pending, limit: 2n * BigInt(gas) });
        assert.deepEqual([type, chainId, from, to, value, input], ["0x2", hex(id), sender, RECIPIENT, "0x2a", "0xc0ffee"]);
        assert.deepEqual([...new Set(requests)].sort(), [rpc, fees]);
        await context.close();
    });
}
