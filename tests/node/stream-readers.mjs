// The readers of server-sent events that programs use most, through a restart of the service:
// `node stream-readers.mjs SETTINGS`, where SETTINGS is JSON with the `binary` of the service, a `folder` for its
// configuration, and the `python` with the packages of tests/python/requirements.txt.
//
// Some of them hand a block without data to the program, and all but one reconnect by themselves.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { fetchEventSource } from "@microsoft/fetch-event-source";
import { EventSourcePolyfill } from "event-source-polyfill";
import { EventSource } from "eventsource";
import ReconnectingEventSource from "reconnecting-eventsource";

import { until } from "./browser.mjs";
import { Nodes, Proxy, Service, stopAll } from "./services.mjs";

const { binary, folder, python } = JSON.parse(process.argv[2]);
const STREAM = "/v1/chain/gas-suggestion/stream";
const BLOCK_MS = 4000;
const atEnd = [];

after(async () => {
    await Promise.all(atEnd.map((end) => end()));
    await stopAll();
});

// fetch-event-source is made for browsers: it stops while the page is hidden.
globalThis.window = globalThis;
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };

// Each reader calls `receive` with the name and the data of each event that the library hands to a program.
const READERS = {
    "fetch-event-source": (url, receive) => {
        const { signal } = endsWith(new AbortController());
        const onmessage = ({ event, data }) => receive(event, data);
        // It takes the end of a stream for the end of its work, unless this throws.
        const onclose = () => assert.fail("reconnects");
        void fetchEventSource(url, { signal, onmessage, onclose });
    },
    "event-source-polyfill": (url, receive) => listen(new EventSourcePolyfill(url), receive),
    "eventsource": (url, receive) => listen(new EventSource(url), receive),
    // It makes a new source when the other one gives up, as after a 503 of a proxy.
    "reconnecting-eventsource": (_, receive, proxy) =>
        listen(new ReconnectingEventSource(proxy, { eventSourceClass: EventSource }), receive),
    "httpx-sse": (url, receive) => {
        const script = fileURLToPath(new URL("../python/stream_reader.py", import.meta.url));
        const child = spawn(python, [script, url], { stdio: ["ignore", "pipe", "inherit"] });
        const ended = once(child, "exit");
        atEnd.push(() => child.kill() && ended);
        createInterface({ input: child.stdout }).on("line", (line) => {
            const { event, data } = JSON.parse(line);
            receive(event, data);
        });
    },
};

function endsWith(controller) {
    atEnd.push(() => controller.abort());
    return controller;
}

function listen(source, receive) {
    atEnd.push(() => source.close());
    for (const name of ["message", "gas-suggestion", "status"]) {
        source.addEventListener(name, ({ data }) => receive(name, data));
    }
}

// Waits for a comment on a stream of its own.
async function comment(url) {
    const { signal } = endsWith(new AbortController());
    const decoder = new TextDecoder();
    let received = "";
    for await (const bytes of (await fetch(url, { signal })).body) {
        received += decoder.decode(bytes, { stream: true });
        if (/^:/m.test(received)) return;
    }
    assert.fail(`the stream ended: ${received}`);
}

test("every reader gets prices and nothing else, also after a restart", { timeout: 120_000 }, async () => {
    const nodes = await Nodes.start();
    const chain = nodes.chain(4242);
    const config = `[chains.chain]\nchain_id = 4242\nrpc_urls = ["${nodes.url(4242)}"]\nblock_time = "${BLOCK_MS}ms"\n` +
        "[history]\nrefill = false\n";
    const first = await Service.start({ binary, folder, config });
    const proxy = await Proxy.start(first.url);
    const seen = Object.fromEntries(Object.keys(READERS).map((name) => [name, []]));
    for (const [name, start] of Object.entries(READERS)) {
        start(first.url + STREAM, (event, data) => seen[name].push({ event, data }), proxy.url + STREAM);
    }
    const prices = (name) => seen[name].filter(({ event }) => event === "gas-suggestion");
    const everyReaderHas = (count) =>
        until(() => Object.keys(READERS).filter((name) => prices(name).length < count), (late) => late.length === 0);
    await everyReaderHas(1);
    await comment(first.url + STREAM);
    chain.newest += 1;
    await everyReaderHas(2);

    proxy.rule = () => 503;
    await first.stop();
    const atStop = new Map(Object.keys(READERS).map((name) => [name, prices(name).length]));
    chain.newest += 1;
    await Service.start({ binary, folder, config, listen: first.address });
    const restartedAt = Date.now();
    const blocks = setInterval(() => (chain.newest += 1), BLOCK_MS);
    atEnd.push(() => clearInterval(blocks));
    await until(() => proxy.received.length, (count) => count > 1);
    proxy.rule = () => "pass";
    await until(
        () => Object.keys(READERS).filter((name) => prices(name).length <= atStop.get(name)),
        (late) => {
            // A reader waits for up to 5 s as the service says, then for up to 3 s of its own.
            assert(Date.now() - restartedAt < 4 * BLOCK_MS, `no price since the restart: ${late}`);
            return late.length === 0;
        },
    );

    for (const [name, events] of Object.entries(seen)) {
        for (const { event, data } of events) {
            const body = data ? JSON.parse(data) : undefined;
            const isWhole = event === "gas-suggestion" ? body?.medium : event === "status" && body?.status;
            assert(isWhole, `${name} hands out ${JSON.stringify({ event, data })}`);
        }
    }
    // A new source cannot set the header, so it sends the id as a parameter.
    assert(proxy.received.some((path) => path.includes("?lastEventId=")), `${proxy.received}`);
});
