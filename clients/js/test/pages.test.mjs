// The package in pages in Chromium: the React hook, and the examples of docs/examples. A page's origin differs from the
// service's.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { text } from "node:stream/consumers";
import { isDeepStrictEqual } from "node:util";

import { build } from "esbuild";
import { createGasClient, formatCoin, formatGwei } from "gas-suggestion";

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

// Opens a page, after `prepare`; returns it and the errors on it.
async function open(path, init, prepare) {
    const page = await browser.newPage();
    await prepare?.(page);
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
    const component = readmeBlock("React", { "http://localhost:8080": first.url });
    await bundle("hook", `${component}
        import { createRoot } from 'react-dom/client'
        import { useSuggestion } from 'gas-suggestion/react'
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
    const gas = createGasClient({ url: first.url, chain: 2020 });
    const price = async () => formatGwei((await gas.suggestion()).medium.maxFeePerGas);
    const reaches = async (block) => {
        await until(async () => (await state())?.block, (found) => found === block);
        const { age, ...rest } = await state();
        assert.ok(age >= 0 && age < 20, `${age}`);
        assert.deepEqual(rest, { block, isStale: false, error: undefined, price: await price() });
        // The price is requested when the block has come.
        const expected = `${formatGwei((await gas.price()).medium)} gwei`;
        await until(() => page.innerText("p"), (text) => text === expected);
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

// A response of `/fees` with this number of cells.
const feesWith = (count) => {
    const cell = {
        within: 3, probability: 0.95, max_priority_fee_per_gas: "1", max_fee_per_gas: "3", expected_price_per_gas: "2", kept: null, judged: 0,
    };
    const json = { chain_name: "hooks", chain_id: 2022, newest_block: 1, rewards_to: 1, percentile: 10, cells: Array(count).fill(cell) };
    const headers = { "access-control-allow-origin": "*", "access-control-expose-headers": "X-Newest-Block", "x-newest-block": "1" };
    return { json, headers };
};

test("hooks request once per block, whatever the number of components", async () => {
    const chain = nodes.chain(2022);
    const config = chainSection("hooks", 2022, nodes.url(2022), 'data_fee = "none"');
    const service = await Service.start({ binary, folder, config });
    await bundle("hooks", `
        import { createRoot } from 'react-dom/client'
        import { useCost, useFees, useMarket, usePrice } from 'gas-suggestion/react'
        const options = { url: '${service.url}', chain: 2022 }
        const text = (value) => JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? String(inner) : inner))
        function Values({ gas }) {
            const { cost } = useCost(options, gas && { gas, balance: 10n ** 18n })
            return <pre>{text({
                price: usePrice(options).price?.medium, market: useMarket(options).market?.newestBlock,
                maxSend: cost?.tiers.medium.maxSend, gas: cost?.gas,
                fee: useFees(options, { within: 3, probability: 0.95 }).fees?.maxFeePerGas, all: useFees(options).fees?.cells.length,
            })}</pre>
        }
        const root = createRoot(document.body)
        globalThis.show = (gas) => root.render(<><Values gas={gas} /><Values gas={gas} /></>)
        globalThis.unmount = () => root.unmount()
        show()`);
    const counts = {};
    const gas = createGasClient({ url: service.url, chain: 2022 });
    const { page, errors } = await open("hooks.html", undefined, async (page) => {
        page.on("request", (request) => {
            const path = request.url().split(/\/v1\/(?:2022|gas-suggestions)\//)[1];
            if (path) counts[path] = (counts[path] ?? 0) + 1;
        });
        await page.route("**/v1/2022/fees", (route) => route.fulfill(feesWith(5)));
        await page.route("**/v1/2022/fees?*", (route) => route.fulfill(feesWith(1)));
    });
    const shown = async () => (await page.locator("pre").allInnerTexts()).map((value) => JSON.parse(value));
    const reaches = async (limit) => {
        const expected = { price: String((await gas.price()).medium), market: chain.newest, fee: "3", all: 5 };
        if (limit) {
            const { tiers } = await gas.cost({ gas: limit, balance: 10n ** 18n });
            Object.assign(expected, { maxSend: String(tiers.medium.maxSend), gas: String(limit) });
        }
        await until(shown, (values) => isDeepStrictEqual(values, [expected, expected]));
    };
    await reaches();
    const once = { "stream": 1, "fee-market": 2, "fees?within=3&probability=0.95": 1, "fees": 1 };
    assert.deepEqual(counts, once);
    for (const limit of [21_000n, 50_000n]) {
        await page.evaluate((value) => globalThis.show(BigInt(value)), String(limit));
        await reaches(limit);
        assert.equal(counts[`cost?gas=${limit}&balance=${10n ** 18n}`], 1);
    }
    Object.assign(chain, { newest: 101, baseFee: 3n * 10n ** 9n });
    await until(async () => (await gas.price()).block, (block) => block === 101);
    await reaches(50_000n);
    assert.deepEqual([counts["fee-market"], counts.fees, counts[`cost?gas=50000&balance=${10n ** 18n}`]], [4, 2, 2]);
    assert.equal(counts[`cost?gas=21000&balance=${10n ** 18n}`], 1);
    await page.evaluate(() => globalThis.unmount());
    await until(() => service.streams(), (count) => count === 0);
    assert.deepEqual(errors, []);
    await page.close();
});

const CHAINS = Array.from({ length: 30 }, (_, index) => 3001 + index);

test("thirty hooks, eight tabs and a payment need one connection", async () => {
    const chains = CHAINS.map((id) => nodes.chain(id));
    const section = (id) => `[chains.c${id}]\nchain_id = ${id}\nrpc_urls = ["${nodes.url(id)}"]\nblock_time = "1s"\nstall_after = "0s"\n`;
    const service = await Service.start({ binary, folder, config: CHAINS.map(section).join("") });
    await bundle("tab", `
        import { createRoot } from 'react-dom/client'
        import { usePrice } from 'gas-suggestion/react'
        import { gasFees } from 'gas-suggestion/viem'
        const url = '${service.url}'
        const Price = ({ chain }) => {
            const { block, error } = usePrice({ url, chain })
            return <b>{error?.message ?? block}</b>
        }
        globalThis.show = (chains) => createRoot(document.body).render(chains.map((id) => <Price key={id} chain={id} />))
        globalThis.pay = async (id) => {
            const fees = await gasFees({ url }).estimateFeesPerGas({ client: { chain: { id } }, type: 'eip1559' })
            return String(fees.maxPriorityFeePerGas)
        }`);
    const context = await browser.newContext();
    const tab = async (...ids) => {
        const page = await context.newPage();
        await page.goto(`${pages.url}/tab.html`);
        await page.evaluate((all) => globalThis.show(all), ids);
        return page;
    };
    const blocks = (page) => page.locator("b").allInnerTexts();
    const reach = async (tabs, block) => {
        for (const { newest } of chains) assert.equal(newest, block);
        const isThere = (all) => all.length > 0 && all.every((text) => text === String(block));
        await Promise.all(tabs.map((page) => until(() => blocks(page), isThere)));
        assert.equal(await service.streams(), 1);
    };
    const mine = () => chains.forEach((chain) => (chain.newest += 1));
    // By id and by key.
    const table = await tab(...CHAINS.map((id, index) => (index % 2 ? id : `c${id}`)));
    await reach([table], 100);
    const tabs = [table];
    for (const id of CHAINS.slice(0, 8)) tabs.push(await tab(id));
    await reach(tabs, 100);
    mine();
    await reach(tabs, 101);
    assert.equal(await (await tab()).evaluate((id) => globalThis.pay(id), CHAINS[3]), String(20n * 10n ** 9n));
    // Another tab takes over from one that is closed, and from one that is hidden.
    await table.close();
    mine();
    await reach(tabs.slice(1), 102);
    const turn = (page, state) => page.evaluate((value) => {
        Object.defineProperty(document, "visibilityState", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }, state);
    const [, hidden, ...visible] = tabs;
    await turn(hidden, "hidden");
    mine();
    await reach(visible, 103);
    assert.deepEqual(await blocks(hidden), ["102"]);
    await turn(hidden, "visible");
    await reach([hidden, ...visible], 103);
    await Promise.all(tabs.slice(1).map((page) => turn(page, "hidden")));
    await until(() => service.streams(), (count) => count === 0);
    await context.close();
});

test("tabs without locks have streams of their own, and a worker has one too", async () => {
    nodes.chain(2024);
    const service = await Service.start({ binary, folder, config: chainSection("alone", 2024, nodes.url(2024)) });
    const source = `import { createGasClient } from 'gas-suggestion'
        const gas = createGasClient({ url: '${service.url}', chain: 2024 })
        const say = (text) => globalThis.document ? document.body.append(text) : postMessage(text)
        gas.subscribe({ onSuggestion: ({ block }) => say(block + ';'), onError: ({ message }) => say(message) })`;
    await bundle("alone", source);
    writeFileSync(join(here, "worker.html"), `<!doctype html><body><script>
        new Worker("alone.js", { type: "module" }).onmessage = ({ data }) => document.body.append(data)</script>`);
    const context = await browser.newContext();
    await context.addInitScript(() => delete Navigator.prototype.locks);
    for (const [count, name] of ["alone", "alone", "worker"].entries()) {
        const page = await context.newPage();
        await page.goto(`${pages.url}/${name}.html`);
        await until(() => page.innerText("body"), (text) => text.startsWith("100;"));
        assert.equal(await service.streams(), count + 1);
    }
    await context.close();
});

test("the fee picker shows prices and costs, without a bundler", async () => {
    const chain = nodes.chain(2021);
    const config = chainSection("mine", 2021, nodes.url(2021), 'currency = "MINE"');
    const service = await Service.start({ binary, folder, config });
    cpSync(example("fee-picker/index.html"), join(here, "picker.html"));
    const { page, errors } = await open(`picker.html?url=${service.url}&chain=mine`);
    const gas = createGasClient({ url: service.url, chain: "mine" });
    for (const block of [100, 101]) {
        await page.waitForFunction((text) => document.querySelector("#status").textContent === text, `Block ${block}`);
        const price = await gas.price();
        for (const id of ["low", "medium", "high"]) {
            assert.equal(await page.innerText(`#${id}`), `${formatGwei(price[id])} gwei`);
            await page.check(`[value=${id}]`);
            assert.equal(await page.innerText("#cost"), `${formatCoin(price[id] * 21_000n)} MINE`);
        }
        // Block and prices change together: a block never has two prices.
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
    for (const name of ["config.ts", "use-suggested-send.ts", "app.tsx"]) {
        const source = readFileSync(example(`wagmi/${name}`), "utf8");
        const text = source.replaceAll("http://localhost:8080", service.url).replaceAll("http://localhost:8545", anvil.url);
        writeFileSync(join(here, name), text);
    }
    await bundle("wagmi", "import './app'");
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
    await page.waitForSelector(`text=${formatGwei((await gas.price()).medium)} gwei`);
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
    const { transactions, number } = await anvil.call("eth_getBlockByNumber", "latest", true);
    const [{ hash, to, value, maxFeePerGas }] = transactions;
    assert.equal(first[2], formatGwei(medium.maxFeePerGas));
    assert.ok(second, output);
    assert.ok(BigInt(maxFeePerGas) * 10n >= medium.maxFeePerGas * 11n, output);
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
