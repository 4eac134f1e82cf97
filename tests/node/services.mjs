// Helpers of the page tests: the service as a process, mock nodes, and a proxy in front of the service.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

import { until } from "./browser.mjs";

// Processes and servers to stop at the end.
const running = new Set();
export async function stopAll() {
    await Promise.all([...running].map((one) => one.stop()));
}

// The service as a process, ready when `start` returns. `listen` is its address, `config` is the text of its
// configuration. Without `config`, the process runs the command `demo` with the arguments `demo`.
export class Service {
    static count = 0;

    static async start({ binary, folder, config, demo, listen = "127.0.0.1:0" }) {
        const own = Object.entries(process.env).filter(([name]) => !name.startsWith("GAS_"));
        const env = {
            ...Object.fromEntries(own),
            GAS_SERVER__LISTEN: listen,
            GAS_SERVER__ADMIN_LISTEN: "127.0.0.1:0",
            GAS_SERVER__DRAIN_DELAY: "0s",
            GAS_LOG__FORMAT: "json",
            // The page and this script count as one client, which would exceed the rate limit.
            GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT: "0",
        };
        const path = join(folder, `service-${(Service.count += 1)}.toml`);
        const options = { env, stdio: ["ignore", "ignore", "pipe"] };
        if (config) writeFileSync(path, config);
        const service = new Service();
        service.process = spawn(binary, config ? ["--config", path] : ["demo", ...demo], options);
        service.ended = once(service.process, "exit");
        running.add(service);
        const lines = [];
        for await (const line of createInterface({ input: service.process.stderr })) {
            lines.push(line);
            const { message, address, admin } = JSON.parse(line);
            if (message !== "listening") continue;
            Object.assign(service, { url: `http://${address}`, admin: `http://${admin}`, address });
            // An unread pipe would eventually block the process.
            service.process.stderr.resume();
            await until(() => fetch(`${service.url}/readyz`), ({ ok }) => ok);
            return service;
        }
        return assert.fail(`the service ended before it listened: ${lines.join("\n")}`);
    }

    async stop() {
        running.delete(this);
        this.process.kill();
        await this.ended;
    }

    // Returns the number of open streams.
    async streams() {
        const metrics = await (await fetch(`${this.admin}/metrics`)).text();
        return Number(/^gas_suggestion_streams (\d+)$/m.exec(metrics)[1]);
    }
}

// Mock nodes of any number of chains, one path each. Tests add the blocks.
export class Nodes {
    static async start() {
        const nodes = new Nodes();
        nodes.chains = new Map();
        nodes.server = createServer((request, response) => nodes.#respond(request, response));
        nodes.server.listen(0, "127.0.0.1");
        await once(nodes.server, "listening");
        running.add(nodes);
        return nodes;
    }

    // Adds a chain at block 100 with these fees in every block. A fee can be a function of the block's number. `deposit` is
    // the first transaction of every block.
    chain(id, { baseFee = 10n ** 9n, reward = 20n * 10n ** 9n, deposit } = {}) {
        const chain = { id, newest: 100, baseFee, reward, deposit, isHealthy: true };
        this.chains.set(String(id), chain);
        return chain;
    }

    url(id) {
        return `http://127.0.0.1:${this.server.address().port}/${id}`;
    }

    async stop() {
        running.delete(this);
        this.server.closeAllConnections();
        this.server.close();
    }

    async #respond(request, response) {
        const chunks = await request.toArray();
        const { id, method, params } = JSON.parse(Buffer.concat(chunks));
        const chain = this.chains.get(request.url.slice(1));
        const results = {
            eth_chainId: () => hex(chain.id),
            eth_feeHistory: () => history(chain, Number(params[0])),
            eth_getTransactionByBlockNumberAndIndex: () => chain.deposit,
        };
        const error = { code: -32000, message: "no" };
        const result = chain.isHealthy ? results[method]?.() : undefined;
        const outcome = result === undefined ? { error } : { result };
        response.end(JSON.stringify({ jsonrpc: "2.0", id, ...outcome }));
    }
}

function hex(number) {
    return `0x${number.toString(16)}`;
}

function history({ newest, baseFee, reward }, count) {
    const oldest = newest - count + 1;
    const each = (length, fee) =>
        Array.from({ length }, (_, index) => hex(typeof fee === "function" ? fee(oldest + index) : fee));
    return {
        oldestBlock: hex(oldest),
        baseFeePerGas: each(count + 1, baseFee),
        gasUsedRatio: Array(count).fill(0.5),
        reward: each(count, reward).map((one) => [one]),
    };
}

// Forwards requests to the service at `to`, with `prefix` stripped from their paths.
export class Proxy {
    static async start(to, { prefix = "" } = {}) {
        const proxy = new Proxy();
        Object.assign(proxy, { to, prefix, received: [], held: [] });
        // Returns what to do with a request to this path, or a promise of that: "pass"; "hold", which sends no response; a status; or an
        // object, which is the JSON of the response.
        proxy.rule = () => "pass";
        // `isMute` drops the data of streams; `pauseMs` delays all other requests.
        proxy.isMute = false;
        proxy.pauseMs = 0;
        proxy.server = createServer((request, response) => proxy.#forward(request, response));
        proxy.server.listen(0, "127.0.0.1");
        await once(proxy.server, "listening");
        running.add(proxy);
        return proxy;
    }

    get url() {
        return `http://127.0.0.1:${this.server.address().port}${this.prefix}`;
    }

    async stop() {
        running.delete(this);
        this.server.closeAllConnections();
        this.server.close();
    }

    async #forward(incoming, outgoing) {
        this.received.push(incoming.url);
        const isStream = incoming.url.endsWith("/stream");
        if (!isStream) await setTimeout(this.pauseMs);
        const rule = incoming.url.startsWith(this.prefix) ? await this.rule(incoming.url) : 404;
        if (rule === "hold") {
            this.held.push(incoming.url);
            return;
        }
        if (typeof rule === "object") {
            outgoing.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(rule));
            return;
        }
        if (rule !== "pass") {
            outgoing.writeHead(rule, { "content-type": "text/plain" }).end("no\n");
            return;
        }
        const url = new URL(incoming.url.slice(this.prefix.length), this.to);
        const { headers, method } = incoming;
        const forwarded = request(url, { headers, method, agent: false }, (response) => {
            outgoing.writeHead(response.statusCode, response.headers);
            // A stream that was muted once stays muted.
            let isMuted = false;
            response.on("data", (bytes) => {
                isMuted ||= isStream && this.isMute;
                if (!isMuted) outgoing.write(bytes);
            });
            response.on("end", () => outgoing.end());
            response.on("error", () => outgoing.destroy());
        });
        forwarded.on("error", () => outgoing.destroy());
        outgoing.on("close", () => forwarded.destroy());
        incoming.pipe(forwarded);
    }
}
