// The package in pages in Chromium: the React hook, and the examples of docs/examples. A page's origin differs from the
// service's.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { text } from "node:stream/consumers";

import { build } from "esbuild";
import { createGasClient, formatGwei } from "gas-suggestion";
import { parseGwei } from "viem";

import {
    Nodes, Service, atEnd, binary, chainSection, folder, installed, launch, nowhere, readmeBlock, repository, serve,
    startAnvil, stopAll, until,
} from "./rig.mjs";

const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const TO = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const here = fileURLToPath(installed);
const example = (name) => join(repository, "docs/examples", name);

let browser, nodes, pages;
before(async () => {
    browser = await launch();
    nodes = await Nodes.start();
    const types = { ".html": "text/html", ".js": "text/javascript" };
    pages = await serve((request, response) => {
        const { pathname } = new URL(request.url, "http://pages");
        try {
            const body = readFileSync(join(here, pathname));
            response.writeHead(200, { "content-type": types[extname(pathname)] ?? "text/plain" }).end(body);
        } catch {
            response.writeHead(404).end();
        }
    });
});
after(async () => {
    await browser?.close();
    await stopAll();
});

// Opens a page; returns it and the errors on it.
async function open(path, init) {
    const page = await browser.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(error));
    if (init) await page.addInitScript(...init);
    await page.goto(`${pages.url}/${path}`);
    return { page, errors };
}

// Bundles the module in this file of the folder, and writes a page that runs it.
async function bundle(name, source) {
    await build({
        stdin: { contents: source, resolveDir: here, loader: "jsx" }, outfile: join(here, `${name}.js`), bundle: true,
        format: "esm", jsx: "automatic", define: { "process.env.NODE_ENV": '"production"' }, logLevel: "error",
    });
    writeFileSync(join(here, `${name}.html`), `<!doctype html><body><script type="module" src="${name}.js"></script>`);
}

test("the React hook follows the stream through a restart of the service", async () => {
    const chain = nodes.chain(2020);
    const config = chainSection("ethereum", 2020, nodes.url(2020));
    const first = await Service.start({ binary, folder, config });
    const component = readmeBlock("React", "jsx").replaceAll("http://localhost:8080", first.url);
    await bundle("hook", `${component}
        import { createRoot } from 'react-dom/client'
        function State() {
            const { suggestion, error, ...rest } = useSuggestion({ url: '${first.url}', chain: 'ethereum' })
            globalThis.seen = { ...rest, error: error?.code, price: suggestion && formatGwei(suggestion.medium.maxFeePerGas) }
            return null
        }
        const root = createRoot(document.body)
        root.render(<><GasPrice /><State /></>)
        globalThis.unmount = () => root.unmount()`);
    const { page, errors } = await open("hook.html");
    const state = () => page.evaluate(() => globalThis.seen);
    const price = async () => formatGwei((await createGasClient({ url: first.url, chain: 2020 }).suggestion()).medium.maxFeePerGas);
    const reaches = async (block) => {
        await until(async () => (await state())?.block, (found) => found === block);
        const { age, ...rest } = await state();
        assert.ok(age >= 0 && age < 20, `${age}`);
        assert.deepEqual(rest, { block, isStale: false, error: undefined, price: await price() });
        assert.equal(await page.innerText("p"), `${rest.price} gwei`);
    };
    await reaches(100);
    // Both components share a stream.
    assert.equal(await first.streams(), 1);
    const { age } = await state();
    await until(async () => (await state()).age, (found) => found > age);
    Object.assign(chain, { newest: 101, baseFee: 3n * 10n ** 9n });
    await reaches(101);

    await first.stop();
    await until(async () => (await state()).error, (code) => code === "network_error");
    assert.equal((await state()).block, 101);
    assert.match(await page.innerText("p"), /^[\d.]+ gwei, \d+ s old$/);
    Object.assign(chain, { newest: 102, baseFee: 4n * 10n ** 9n });
    const second = await Service.start({ binary, folder, config, listen: first.address });
    await reaches(102);
    await page.evaluate(() => globalThis.unmount());
    await until(() => second.streams(), (count) => count === 0);
    assert.deepEqual(errors, []);
    await page.close();
});

test("the fee picker shows fees and costs, without a bundler", async () => {
    const chain = nodes.chain(2021);
    const config = chainSection("mine", 2021, nodes.url(2021));
    const service = await Service.start({ binary, folder, config });
    cpSync(example("fee-picker/index.html"), join(here, "picker.html"));
    const { page, errors } = await open(`picker.html?url=${service.url}&chain=mine`);
    const gas = createGasClient({ url: service.url, chain: "mine" });
    for (const block of [100, 101]) {
        await page.waitForFunction((text) => document.querySelector("#status").textContent === text, `Block ${block}`);
        const { medium, high } = await gas.suggestion();
        for (const [id, tier] of Object.entries({ medium, high })) {
            assert.equal(await page.innerText(`#${id}`), `${formatGwei(tier.maxFeePerGas)} gwei`);
            await page.check(`[value=${id}]`);
            assert.equal(await page.innerText("#cost"), `${formatGwei(tier.maxFeePerGas * 21_000n)} gwei`);
        }
        // Block and fees change together: a block never has two prices.
        Object.assign(chain, { newest: 101, baseFee: 11n * 10n ** 8n });
    }
    await service.stop();
    await page.waitForFunction(() => document.querySelector("#status").textContent.startsWith("No price: "));
    assert.deepEqual(errors, []);
    await page.close();
});

// A node whose service serves its chain as `ethereum`.
async function market(...more) {
    const anvil = await startAnvil(1, ...more);
    await anvil.call("anvil_mine", "0x3");
    const service = await Service.start({ binary, folder, config: chainSection("ethereum", 1, anvil.url) });
    const gas = createGasClient({ url: service.url, chain: "ethereum" });
    const head = Number(await anvil.call("eth_blockNumber"));
    await until(async () => (await gas.suggestion()).block, (block) => block === head);
    return { anvil, service, gas };
}

test("the wagmi app sends the suggestion, whatever the wallet", async () => {
    const { anvil, service, gas } = await market();
    for (const name of ["config.js", "use-suggested-send.js", "app.jsx"]) {
        const source = readFileSync(example(`wagmi/${name}`), "utf8");
        const text = source.replaceAll("http://localhost:8080", service.url).replaceAll("http://localhost:8545", anvil.url);
        writeFileSync(join(here, name), text);
    }
    await bundle("wagmi", "import './app.jsx'");
    // The wallet is the node. It would set its own fees.
    const wallet = (node) => {
        globalThis.ethereum = {
            on() {},
            removeListener() {},
            async request({ method, params = [] }) {
                const name = method === "eth_requestAccounts" ? "eth_accounts" : method;
                const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: name, params });
                const headers = { "content-type": "application/json" };
                const { error, result } = await (await fetch(node, { method: "POST", headers, body })).json();
                if (error) throw Object.assign(new Error(error.message), { code: error.code });
                return result;
            },
        };
    };
    const { page, errors } = await open("wagmi.html", [wallet, anvil.url]);
    await page.click("text=Connect");
    const { medium } = await gas.suggestion();
    await page.waitForSelector(`text=${formatGwei(medium.maxFeePerGas)} gwei`);
    await page.click("text=Send");
    const hash = await page.innerText("output");
    const { maxFeePerGas, maxPriorityFeePerGas } = await anvil.call("eth_getTransactionByHash", hash);
    assert.deepEqual([maxFeePerGas, maxPriorityFeePerGas].map(BigInt), [medium.maxFeePerGas, medium.maxPriorityFeePerGas]);
    assert.deepEqual(errors, []);
    await page.close();
});

test("the bot replaces a transaction that is not mined", async () => {
    const { anvil, service, gas } = await market("--no-mining");
    cpSync(example("ethers-bot/bot.mjs"), join(here, "bot.mjs"));
    const env = { ...process.env, PRIVATE_KEY: KEY, RPC_URL: anvil.url, GAS_URL: service.url, PATIENCE_MS: "300" };
    const bot = spawn(process.execPath, ["bot.mjs", TO, "0.5"], { cwd: here, env, stdio: ["ignore", "pipe", "pipe"] });
    const [out, errors] = [text(bot.stdout), text(bot.stderr)];
    const pending = async () => Object.values((await anvil.call("txpool_content")).pending).flatMap(Object.values);
    const { medium } = await gas.suggestion();
    atEnd(() => bot.kill());
    const isReplaced = async () => BigInt((await pending())[0]?.maxFeePerGas ?? 0) > medium.maxFeePerGas;
    await until(async () => bot.exitCode !== null || (await isReplaced()), Boolean);
    await anvil.call("anvil_mine");
    const [output, stderr] = [await out, await errors];
    assert.equal(stderr, "");
    const lines = output.trim().split("\n");
    const [first, second] = lines.map((line) => /^sent (0x\w+) at ([\d.]+) gwei$/.exec(line));
    assert.equal(first[2], formatGwei(medium.maxFeePerGas));
    assert.ok(parseGwei(second[2]) * 10n >= parseGwei(first[2]) * 11n, output);
    const { transactions, number } = await anvil.call("eth_getBlockByNumber", "latest", true);
    const [{ hash, to, value }] = transactions;
    assert.deepEqual([to, BigInt(value)], [TO.toLowerCase(), 5n * 10n ** 17n]);
    assert.equal(lines.at(-1), `${hash} is in block ${Number(number)}`);
    assert.notEqual(hash, first[1]);
});

test("the import script sends the dashboard to Grafana", async () => {
    const requests = [];
    const grafana = await serve(async (request, response) => {
        const { method, url, headers } = request;
        requests.push({ method, url, authorization: headers.authorization, body: JSON.parse(await text(request)) });
        response.end('{"status":"success"}');
    });
    const run = async (url) => {
        const env = { ...process.env, GRAFANA_URL: url, GRAFANA_TOKEN: "secret" };
        const script = spawn(example("grafana/import.sh"), { env, stdio: ["ignore", "pipe", "ignore"] });
        const output = await text(script.stdout);
        return [output, script.exitCode ?? (await new Promise((resolve) => script.on("exit", resolve)))];
    };
    assert.deepEqual(await run(grafana.url), ['{"status":"success"}', 0]);
    const dashboard = JSON.parse(readFileSync(join(repository, "config/grafana/dashboards/gas-suggestion.json"), "utf8"));
    const body = { overwrite: true, dashboard };
    assert.deepEqual(requests, [{ method: "POST", url: "/api/dashboards/db", authorization: "Bearer secret", body }]);
    assert.notEqual((await run(await nowhere()))[1], 0);
});
