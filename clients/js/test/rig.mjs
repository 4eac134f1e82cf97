// What the tests share. The system test sets these variables: CLIENT is clients/js, BINARY is the service, and ANVIL
// is a node.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

import { atEnd, serve, stopServers } from "./server.mjs";
export { atEnd, serve };

export const { CLIENT: client, BINARY: binary, ANVIL: anvilPath } = process.env;
export const repository = join(client, "../..");
/** The folder in which the package is installed. */
export const installed = new URL("..", import.meta.url);

const shared = (name) => import(pathToFileURL(join(repository, "tests/node", name)));
const services = await shared("services.mjs");
export const { Nodes, Proxy, Service } = services;
export const { launch, until } = await shared("browser.mjs");

/** A folder for the configurations of services. */
export const folder = mkdtempSync(join(tmpdir(), "gas-suggestion-client-"));

export async function stopAll() {
    await stopServers();
    await services.stopAll();
    rmSync(folder, { recursive: true, force: true });
}

/** Returns the text of the only block in this language below this heading of the README. */
export function readmeBlock(heading, language) {
    const section = readFileSync(join(client, "README.md"), "utf8").split(`\n## ${heading}\n`)[1].split("\n## ")[0];
    const blocks = [...section.matchAll(/^```(\w+)\n(.*?)^```$/gms)].filter((block) => block[1] === language);
    if (blocks.length !== 1) throw new Error(`${blocks.length} blocks below ${heading}`);
    return blocks[0][2];
}

/** Starts anvil with this chain id and these arguments. */
export async function startAnvil(chainId, ...more) {
    const arguments_ = ["--chain-id", chainId, "--port", 0, "--base-fee", 3_000_000_000, ...more].map(String);
    const child = spawn(anvilPath, arguments_, { stdio: ["ignore", "pipe", "inherit"] });
    let url;
    for await (const line of createInterface({ input: child.stdout })) {
        url = /^Listening on (.*)$/.exec(line)?.[1];
        if (url) break;
    }
    child.stdout.resume();
    const ended = once(child, "exit");
    atEnd(async () => {
        child.kill();
        await ended;
    });
    url = `http://${url}`;
    return {
        url,
        async call(method, ...params) {
            const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
            const headers = { "content-type": "application/json" };
            const { error, result } = await (await fetch(url, { method: "POST", headers, body })).json();
            if (error) throw new Error(`${method}: ${error.message}`);
            return result;
        },
    };
}

/** Returns the section of a chain with short blocks. */
export function chainSection(key, id, url, more = "") {
    return `[chains.${key}]\nchain_id = ${id}\nrpc_urls = ["${url}"]\nblock_time = "250ms"\nstall_after = "0s"\n${more}\n`;
}

/** A URL at which nothing listens. */
export async function nowhere() {
    const server = await serve(() => {});
    server.stop();
    return server.url;
}
