// Subscriptions, against the real service and against a server that sends what a test tells it to.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";

import { createGasClient } from "gas-suggestion";

import { Nodes, Service, atEnd, binary, chainSection, folder, serve, stopAll, until } from "./rig.mjs";

after(stopAll);

// Records what a subscription reports.
function record(gas) {
    const seen = { suggestions: [], errors: [] };
    seen.unsubscribe = gas.subscribe({
        onSuggestion: (suggestion) => seen.suggestions.push(suggestion),
        onError: (error) => seen.errors.push(error),
    });
    atEnd(seen.unsubscribe);
    seen.blocks = () => seen.suggestions.map(({ block }) => block);
    return seen;
}

const reaches = (seen, block) => until(() => seen.blocks().at(-1), (last) => last === block);

test("a subscription follows blocks and survives a restart of the service", async () => {
    const nodes = await Nodes.start();
    const chain = nodes.chain(2020);
    const config = chainSection("ronin", 2020, nodes.url(2020));
    const start = (listen) => Service.start({ binary, folder, config, listen });
    const first = await start();
    const seen = record(createGasClient({ url: first.url, chain: "ronin" }));
    await reaches(seen, 100);
    assert.equal(await first.streams(), 1);
    chain.newest += 1;
    chain.baseFee *= 2n;
    await reaches(seen, 101);
    const [before, now] = [seen.suggestions[0], seen.suggestions.at(-1)];
    assert.ok(now.medium.maxFeePerGas > before.medium.maxFeePerGas);
    assert.deepEqual([now.age, now.isStale, now.chainName], [0, false, "ronin"]);
    assert.deepEqual(seen.errors, []);

    await first.stop();
    await until(() => seen.errors.length, (count) => count > 0);
    assert.deepEqual([seen.errors[0].code, seen.errors[0].message], ["network_error", "the stream ended"]);
    chain.newest += 1;
    const second = await start(first.address);
    await reaches(seen, 102);
    assert.deepEqual([...new Set(seen.blocks())], [100, 101, 102]);

    seen.unsubscribe();
    await until(() => second.streams(), (count) => count === 0);
    const count = seen.errors.length + seen.suggestions.length;
    await second.stop();
    assert.equal(seen.errors.length + seen.suggestions.length, count);
});

// A server whose streams a test writes to. `current` is its suggestion.
async function script() {
    const rig = { streams: [], requests: [], current: { block: 1, price: 1, age: 0, isStale: false }, status: 200 };
    rig.body = (price) => {
        const tier = { max_fee_per_gas: `${price}`, max_priority_fee_per_gas: "1" };
        const amounts = { base_fee_per_gas: "0", medium: tier, high: tier };
        return JSON.stringify({ chain_name: "a", type: "eip-1559", ...amounts });
    };
    rig.event = (block, price) => `event: gas-suggestion\nid: ${block}-tag\ndata: ${rig.body(price)}\n\n`;
    const server = await serve((request, response) => {
        const { block, price, age, isStale } = rig.current;
        if (request.url.endsWith("/stream")) {
            rig.requests.push(request.headers);
            response.writeHead(rig.status, { "content-type": "text/event-stream" });
            if (rig.status === 200) rig.streams.push(response);
            else return response.end('{"code":"overloaded","detail":"full"}');
            return response.write("retry: 10\n");
        }
        if (rig.hold) return rig.hold.push(response);
        if (rig.failure) return response.writeHead(503).end(`{"code":"${rig.failure}","detail":"none"}`);
        response.writeHead(200, { "X-Newest-Block": block, "Age": age, ...(isStale && { "X-Stale": "true" }) });
        return response.end(rig.body(price));
    });
    rig.client = createGasClient({ url: server.url, chain: "a" });
    rig.stream = async () => {
        await until(() => rig.streams.length, (count) => count > 0);
        return rig.streams.at(-1);
    };
    return rig;
}

test("events may be split at any byte and end with either line break", async () => {
    const rig = await script();
    const seen = record(rig.client);
    const stream = await rig.stream();
    await reaches(seen, 1);
    const text = rig.event(2, 2).replace('"a"', '"Ξ"').replaceAll("\n", "\r\n");
    for (const byte of Buffer.from(text)) {
        stream.write(Buffer.from([byte]));
        await new Promise(setImmediate);
    }
    await reaches(seen, 2);
    assert.equal(seen.suggestions.at(-1).chainName, "Ξ");
    stream.write(rig.event(3, 3) + rig.event(4, 4));
    await reaches(seen, 4);
    assert.deepEqual(seen.blocks(), [1, 2, 3, 4]);
});

test("the first suggestion has its real age, and a comment refreshes it", async () => {
    const rig = await script();
    rig.current.age = 9;
    const seen = record(rig.client);
    const stream = await rig.stream();
    stream.write(rig.event(1, 1));
    await reaches(seen, 1);
    assert.deepEqual([seen.suggestions.length, seen.suggestions[0].age], [1, 9]);
    Object.assign(rig.current, { age: 24, isStale: true });
    stream.write(": keep-alive\n");
    await until(() => seen.suggestions.at(-1).isStale, (isStale) => isStale);
    const last = seen.suggestions.at(-1);
    assert.deepEqual([last.block, last.age], [1, 24]);
    rig.failure = "stale_data";
    // A proxy may add an empty line.
    stream.write(":\n\n");
    const error = await until(() => seen.errors[0], Boolean);
    assert.deepEqual([error.code, error.status], ["stale_data", 503]);
});

test("a changed status refreshes the suggestion, and other events are ignored", async () => {
    const rig = await script();
    const seen = record(rig.client);
    const stream = await rig.stream();
    stream.write(rig.event(1, 1));
    await reaches(seen, 1);
    const status = (name) => `event: status\ndata: {"chain":"a","status":"${name}","reason":"old_data","observed_at":null}\n\n`;
    stream.write(`event: news\ndata: {}\n\ndata: {"block":9}\n\n`);
    Object.assign(rig.current, { age: 5, isStale: true });
    stream.write(status("stale"));
    await until(() => seen.suggestions.at(-1).isStale, (isStale) => isStale);
    rig.failure = "stale_data";
    stream.write(status("unavailable"));
    const error = await until(() => seen.errors[0], Boolean);
    assert.equal(error.code, "stale_data");
    // The id of a later event is its own, and the stream goes on.
    rig.failure = undefined;
    stream.write(rig.event(2, 2));
    await reaches(seen, 2);
    assert.deepEqual([[...new Set(seen.blocks())], rig.requests.length], [[1, 2], 1]);
});

test("an event that overtakes the request for the age is not lost or undone", async () => {
    const rig = await script();
    rig.hold = [];
    const seen = record(rig.client);
    const stream = await rig.stream();
    await until(() => rig.hold.length, (count) => count === 1);
    // The comment causes a second request, which shows that the event before it was read.
    stream.write(`${rig.event(2, 2)}:\n`);
    await until(() => rig.hold.length, (count) => count === 2);
    assert.deepEqual(seen.blocks(), []);
    rig.hold[1].writeHead(200, { "X-Newest-Block": 1, "Age": 3 }).end(rig.body(1));
    await reaches(seen, 2);
    assert.deepEqual(seen.blocks(), [2]);
});

test("a reconnect sends the last id and reports the current suggestion again", async () => {
    const rig = await script();
    const seen = record(rig.client);
    (await rig.stream()).write(rig.event(7, 7));
    await reaches(seen, 7);
    rig.streams[0].end();
    await until(() => rig.requests.length, (count) => count === 2);
    assert.deepEqual(rig.requests.map((headers) => headers["last-event-id"]), [undefined, "7-tag"]);
    rig.current.block = 8;
    // The stream sends nothing, as the id is current. The request after the reconnect ends the error.
    await until(() => seen.suggestions.length, (count) => count > 1);
    assert.deepEqual(seen.errors.map(({ code }) => code), ["network_error"]);
});

test("attempts after failures are further and further apart", async () => {
    const rig = await script();
    const seen = record(rig.client);
    await rig.stream();
    await reaches(seen, 1);
    rig.status = 503;
    const times = [];
    rig.streams[0].end();
    for (const count of [1, 2, 3, 4, 5, 6, 7]) {
        await until(() => seen.errors.length, (found) => found >= count);
        times.push(performance.now());
    }
    assert.deepEqual([seen.errors[1].code, seen.errors[1].status], ["overloaded", 503]);
    // 10 ms, then twice as long each time, less at most a quarter.
    for (const [index, least] of [[4, 60], [5, 120], [6, 240]]) {
        const pause = times[index] - times[index - 1];
        assert.ok(pause >= least - 20, `${pause} ms before attempt ${index}`);
    }
    rig.status = 200;
    rig.current.block = 9;
    await reaches(seen, 9);
});

test("a body without end and without a line break is given up", async () => {
    const rig = await script();
    const seen = record(rig.client);
    (await rig.stream()).write(`data: ${"x".repeat(70_000)}`);
    const error = await until(() => seen.errors[0], Boolean);
    assert.deepEqual([error.code, error.message], ["invalid_response", "an event is too long"]);
});

test("a silent connection is replaced", async (t) => {
    const { setTimeout: original } = globalThis;
    t.after(() => Object.assign(globalThis, { setTimeout: original }));
    // The client waits 45 s for the comment that the service sends after 15 s.
    globalThis.setTimeout = (run, delay, ...more) => original(run, delay === 45_000 ? 200 : delay, ...more);
    const rig = await script();
    const seen = record(rig.client);
    const error = await until(() => seen.errors[0], Boolean);
    assert.deepEqual([error.code, error.message], ["network_error", "the service is unreachable: the stream is silent"]);
    await until(() => rig.requests.length, (count) => count > 1);
});

test("unsubscribing closes the connection and silences the callbacks", async () => {
    const rig = await script();
    const seen = record(rig.client);
    const stream = await rig.stream();
    await reaches(seen, 1);
    seen.unsubscribe();
    await once(stream, "close");
    assert.deepEqual([seen.suggestions.length, seen.errors], [1, []]);
});
