// What a page may meet: the service as a process, the nodes that it polls, and a proxy in front of it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

import { until } from "./browser.mjs";

// Everything to be stopped at the end.
const running = new Set();
export async function stopAll() {
    await Promise.all([...running].map((one) => one.stop()));
}

// The service in a process of its own, which has asked all nodes; `listen` is where, `config` the text of its configuration.
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
            // The page and this script are one client.
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
            // A log that nobody reads would end up holding the process.
            service.process.stderr.resume();
            await until(() => fetch(`${service.url}/readyz`), ({ ok }) => ok);
            return service;
        }
        return assert.fail(`it ended before it listened: ${lines.join("\n")}`);
    }

    async stop() {
        running.delete(this);
        this.process.kill();
        await this.ended;
    }

    // How many streams are open.
    async streams() {
        const metrics = await (await fetch(`${this.admin}/metrics`)).text();
        return Number(/^gas_suggestion_streams (\d+)$/m.exec(metrics)[1]);
    }
}

// The nodes of any number of chains, one path each; a chain gets a block when a test says so.
export class Nodes {
    static async start() {
        const nodes = new Nodes();
        nodes.chains = new Map();
        nodes.server = createServer((asked, answer) => nodes.#answer(asked, answer));
        nodes.server.listen(0, "127.0.0.1");
        await once(nodes.server, "listening");
        running.add(nodes);
        return nodes;
    }

    // A chain at block 100 whose blocks all have these fees.
    chain(id, { baseFee = 10n ** 9n, reward = 20n * 10n ** 9n } = {}) {
        const chain = { id, newest: 100, baseFee, reward, isWell: true };
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

    async #answer(asked, answer) {
        const chunks = await asked.toArray();
        const { id, method, params } = JSON.parse(Buffer.concat(chunks));
        const chain = this.chains.get(asked.url.slice(1));
        const result = method === "eth_chainId" ? hex(chain.id) : history(chain, Number(params[0]));
        const error = { code: -32000, message: "no" };
        const outcome = chain.isWell ? { result } : { error };
        answer.end(JSON.stringify({ jsonrpc: "2.0", id, ...outcome }));
    }
}

function hex(number) {
    return `0x${number.toString(16)}`;
}

function history({ newest, baseFee, reward }, count) {
    return {
        oldestBlock: hex(newest - count + 1),
        baseFeePerGas: Array(count + 1).fill(hex(baseFee)),
        gasUsedRatio: Array(count).fill(0.5),
        reward: Array(count).fill([hex(reward)]),
    };
}

// Passes requests on to the service at `to`, without `prefix`, which their paths begin with.
export class Proxy {
    static async start(to, { prefix = "" } = {}) {
        const proxy = new Proxy();
        Object.assign(proxy, { to, prefix, asked: [], held: [] });
        // What becomes of a request to this path: "pass"; "hold", which nobody answers; or a status. What
        // is held once stays so.
        proxy.rule = () => "pass";
        // Whether what a stream tells is lost, and for how long everything else takes at least.
        proxy.isMute = false;
        proxy.pauseMs = 0;
        proxy.server = createServer((asked, answer) => proxy.#pass(asked, answer));
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

    async #pass(asked, answer) {
        this.asked.push(asked.url);
        const isStream = asked.url.endsWith("/stream");
        if (!isStream) await setTimeout(this.pauseMs);
        const rule = asked.url.startsWith(this.prefix) ? this.rule(asked.url) : 404;
        if (rule === "hold") {
            this.held.push(asked.url);
            return;
        }
        if (rule !== "pass") {
            answer.writeHead(rule, { "content-type": "text/plain" }).end("no\n");
            return;
        }
        const url = new URL(asked.url.slice(this.prefix.length), this.to);
        const { headers, method } = asked;
        const passed = request(url, { headers, method, agent: false }, (response) => {
            answer.writeHead(response.statusCode, response.headers);
            // One that was muted stays dead.
            let isDead = false;
            response.on("data", (bytes) => {
                isDead ||= isStream && this.isMute;
                if (!isDead) answer.write(bytes);
            });
            response.on("end", () => answer.end());
            response.on("error", () => answer.destroy());
        });
        passed.on("error", () => answer.destroy());
        answer.on("close", () => passed.destroy());
        asked.pipe(passed);
    }
}
