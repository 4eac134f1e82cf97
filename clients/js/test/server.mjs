// Servers of the tests that need no service, for `npm test`.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

// Functions that end what a test has started, also if it fails.
const cleanups = new Set();
/** Calls `stop` at the end of the tests. */
export function atEnd(stop) {
    cleanups.add(stop);
}
export async function stopServers() {
    await Promise.all([...cleanups].map((stop) => stop()));
}

/** Starts a server that `respond` handles; returns its URL and a function that stops it. */
export async function serve(respond) {
    const server = createServer(respond);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const stop = () => {
        server.closeAllConnections();
        server.close();
    };
    atEnd(stop);
    return { url: `http://127.0.0.1:${server.address().port}`, stop };
}

/** Repeats `read` until `isTrue` accepts its result; returns the result. */
export async function until(read, isTrue = Boolean) {
    for (const deadline = Date.now() + 60_000; ; ) {
        const found = await read();
        if (isTrue(found)) return found;
        assert.ok(Date.now() < deadline, `still ${found}`);
        await sleep(5);
    }
}

/** The body of a suggestion whose price is this much. */
export function suggestion(price) {
    const tier = { max_fee_per_gas: `${price}`, max_priority_fee_per_gas: "1" };
    return { chain_name: "a", type: "eip-1559", base_fee_per_gas: "0", medium: tier, high: tier };
}

/** The body of a fee market of the chain with this id. */
export function market(price, id = 1) {
    const expected_price_per_gas = { low: "1", medium: `${price}`, high: `${price}` };
    return { chain_id: id, suggestion: suggestion(price), average_base_fee_per_gas: "1", expected_price_per_gas };
}
