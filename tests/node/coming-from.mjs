// Runs the programs of docs/drop-in.md, each after the change that its diff shows, on the demo of the service:
// `node coming-from.mjs PROGRAM`. Every one has to print a price. The lines that a diff removes have to be another host's.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const page = readFileSync(new URL("../../docs/drop-in.md", import.meta.url), "utf8");
const diffs = [...page.matchAll(/^```diff\n(.*?)^```$/gms)].map(([, text]) => text.trimEnd().split("\n"));
const demo = spawn(process.argv[2], ["demo", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"], {
    env: { ...process.env, GAS_LOG__FORMAT: "json" },
    stdio: ["ignore", "ignore", "pipe"],
});
try {
    let address;
    for await (const line of createInterface({ input: demo.stderr })) {
        address = /"address":"([^"]+)"/.exec(line)?.[1];
        if (address) break;
    }
    assert(address, "the demo did not start");
    demo.stderr.resume();
    const url = `http://${address}`;
    for (let tries = 0; !(await fetch(`${url}/v1/1/gas-suggestion`)).ok; tries += 1) {
        assert(tries < 200, "the demo has no price");
        await new Promise((resume) => setTimeout(resume, 50));
    }
    for (const diff of diffs) {
        const before = diff.filter((line) => line.startsWith("-")).join("\n");
        assert(/https:\/\/[\w.]+/.test(before) && !before.includes("localhost"), before);
        const after = diff.filter((line) => !line.startsWith("-")).map((line) => line.slice(1)).join("\n");
        assert(after.includes("http://localhost:8080/"), after);
        const text = after.replaceAll("http://localhost:8080", url);
        const { stdout } = await promisify(execFile)("node", ["--input-type=module", "--eval", text], { timeout: 20_000 });
        const prices = stdout.match(/\d+(?:\.\d+)?/g)?.map(Number) ?? [];
        assert(prices.length > 0 && prices.every((price) => price > 0), `${after}\nprinted ${stdout}`);
        console.log(`${/https:\/\/([\w.]+)/.exec(before)[1]}: ${stdout.trim().replaceAll("\n", " ")}`);
    }
    assert.equal(diffs.length, 3);
} finally {
    demo.kill();
    await once(demo, "exit");
}
