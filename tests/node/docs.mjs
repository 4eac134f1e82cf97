// Tests of the /docs page in Chromium: `node docs.mjs '{"binary":…,"shots":…}'`.
//
// `binary` is the service. The tests save a screenshot of each state in both colour schemes and several widths in the
// folder `shots`.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { becomes, focused, launch, checkLayout, visit } from "./browser.mjs";
import { Nodes, Proxy, Service, stopAll } from "./services.mjs";

const { binary, shots } = JSON.parse(process.argv[2]);
const WIDTHS = { shots, widths: [320, 360, 1280], unseen: [320] };

let browser;
let nodes;
let service;
const folder = mkdtempSync(join(tmpdir(), "docs-"));
before(async () => {
    mkdirSync(shots, { recursive: true });
    browser = await launch();
    nodes = await Nodes.start();
    nodes.chain(1);
    service = await start();
});
after(async () => {
    await browser?.close();
    await stopAll();
    rmSync(folder, { recursive: true });
});

// Starts a service with every feature enabled. Its chain has blocks so rare that nothing changes during a test.
async function start(more = "") {
    const config = `${more}\n[delegation]\nsource = "chain"\n[chains.one]\nchain_id = 1\n` +
        `rpc_urls = ["${nodes.url(1)}"]\nblock_time = "1h"\nmax_age = "3h"\n`;
    return Service.start({ binary, folder, config });
}

const scenarios = [];
function scenario(name, run) {
    scenarios.push([name, run]);
}

const open = (run, { url = service.url, hash = "", ...options } = {}) =>
    visit(browser, `${url}/docs${hash}`, options, async (page, log) => {
        await page.locator("#banner").waitFor({ state: "hidden" });
        await run(page, log);
    });

const fetchDocument = async (url = service.url) => (await fetch(`${url}/openapi.json`)).json();

// Opens the operation with this id and returns its element.
async function unfold(page, id) {
    const operation = page.locator(`#${id}`);
    await operation.locator("> summary").click();
    return operation;
}

// Sends an operation's request and returns the parts of the displayed response.
async function send(operation) {
    await operation.getByRole("button", { name: "Send" }).click();
    await operation.locator(".outcome .status").waitFor();
    const text = (selector) => operation.locator(selector).innerText();
    return {
        request: await text(".request"),
        status: await text(".status"),
        headers: await operation.getByLabel("Headers", { exact: true }).last().innerText(),
    };
}

const shownBody = (operation) => operation.getByLabel("Body").innerText();

scenario("every documented route is on the page, in its group", async () => {
    const api = await fetchDocument();
    await open(async (page) => {
        const shown = await page.evaluate(() => [...document.querySelectorAll(".operation")].map((node) => [
            node.closest(".group").querySelector("h2").textContent,
            ...[".verb", ".path", ".summary"].map((part) => node.querySelector(part).textContent),
        ].join(" ")));
        const documented = Object.entries(api.paths).flatMap(([path, item]) =>
            Object.entries(item).map(([verb, { tags: [tag], summary }]) =>
                [tag, verb.toUpperCase(), path, summary].join(" ")));
        assert.deepEqual(shown.toSorted(), documented.toSorted());
        assert.equal(shown.length, 47);
        assert.equal(await page.title(), "gas-suggestion – API");
        const { version, standard } = { version: api.info.version, standard: api.openapi };
        assert.equal(await page.locator("#version").innerText(), `Version ${version}`);
        assert.equal(await page.locator("#standard").innerText(), standard);
    });
});

scenario("a route has its parameters, responses, headers and examples", async () => {
    const api = await fetchDocument();
    await open(async (page) => {
        const operation = await unfold(page, "getFeeHistory");
        const names = await operation.locator("h3:text('Parameters') + dl dt").allInnerTexts();
        assert.deepEqual(names, ["chain", "blocks", "X-Request-Id"]);
        const [chain, blocks] = await operation.locator("h3:text('Parameters') + dl dd").allInnerTexts();
        assert.match(chain, /^"one" or "1" path\n/);
        assert.match(blocks, /^integer, int64, at least 1, at most 1024, default 20 query, optional\n/);
        const statuses = await operation.locator(".answer h4, .statuses dt").allInnerTexts();
        const described = api.paths["/v1/{chain}/fee-history"].get.responses;
        assert.deepEqual(statuses, Object.keys(described));
        const headers = await operation.locator(".answer .headers li").allInnerTexts();
        assert.deepEqual(headers.toSorted(), Object.keys(described[200].headers).toSorted());
        const { example } = described[200].content["application/json"];
        assert.deepEqual(JSON.parse(await operation.locator(".answer pre").innerText()), example);
        // A reference to a schema is a link.
        await operation.getByRole("link", { name: "FeeHistory" }).click();
        await page.waitForURL("**#schema-FeeHistory");
        const members = await page.locator("#schema-FeeHistory dt").allInnerTexts();
        assert.deepEqual(members,
            ["chain_name", "chain_id", "reward_percentiles", "blocks", "next_base_fee_per_gas"]);
        await operation.getByRole("link", { name: "503" }).click();
        await page.waitForURL("**#answer-no_data.overloaded.stale_data");
        const answer = page.locator('[id="answer-no_data.overloaded.stale_data"]');
        const examples = await answer.locator(".mark").allInnerTexts();
        assert.deepEqual(examples, ["no_data", "overloaded", "stale_data"].map((code) => `Example: ${code}`));
    });
});

scenario("trying a request shows the real response", async () => {
    await open(async (page) => {
        const chains = await unfold(page, "getChains");
        const response = await send(chains);
        assert.deepEqual([response.request, response.status], [`GET ${service.url}/v1/chains`, "200 OK"]);
        assert.match(response.headers, /^x-request-id: [0-9a-f]{16}-\d+$/m);
        const real = await (await fetch(`${service.url}/v1/chains`)).json();
        assert.equal(await shownBody(chains), JSON.stringify(real, null, 2));

        const history = await unfold(page, "getFeeHistory");
        await history.getByLabel("chain").selectOption("1");
        await history.getByLabel("blocks").fill("2");
        await history.getByLabel("X-Request-Id").fill("mine");
        const { request, headers } = await send(history);
        assert.equal(request, `GET ${service.url}/v1/1/fee-history?blocks=2`);
        assert.match(headers, /^x-request-id: mine$/m);
        assert.equal(JSON.parse(await shownBody(history)).blocks.length, 2);
        await history.getByLabel("blocks").fill("0");
        await history.getByRole("button", { name: "Send" }).click();
        await history.getByText("400 Bad Request").waitFor();
        assert.equal(JSON.parse(await shownBody(history)).code, "invalid_parameter");
    });
});

scenario("a chart is displayed, and a stream up to its first event", async () => {
    await open(async (page) => {
        const chart = await unfold(page, "getFeeHistoryChart");
        await send(chart);
        const image = chart.getByRole("img");
        await image.evaluate((node) => node.decode());
        assert((await image.boundingBox()).width > 200);
        const stream = await unfold(page, "streamGasSuggestion");
        await send(stream);
        const suggestion = await (await fetch(`${service.url}/v1/one/gas-suggestion`)).text();
        assert.match(await shownBody(stream), /^retry: \d+\n\nevent: gas-suggestion\nid: \S+\ndata: /);
        assert((await shownBody(stream)).includes(`data: ${suggestion}`));
    });
});

scenario("everything is reachable by keyboard, and links open their target", async () => {
    await open(async (page) => {
        await page.locator("#getChains > summary").focus();
        await page.keyboard.press("Enter");
        await becomes(page, () => document.querySelector("#getChains").open, true);
        const reached = [];
        for (let count = 0; count < 40 && reached.at(-1)?.[0] !== "Send"; count += 1) {
            await page.keyboard.press("Tab");
            reached.push(await focused(page));
        }
        assert.equal(reached.at(-1)[0], "Send");
        assert(reached.every(([, isSeen]) => isSeen), JSON.stringify(reached));
        await page.keyboard.press("Enter");
        await page.locator("#getChains .status").waitFor();
        await page.evaluate(() => (location.hash = "#getFeeMarket"));
        await becomes(page, () => document.querySelector("#getFeeMarket").open, true);
    });
    await open(async (page) => {
        await becomes(page, () => document.querySelector("#callRpc").open, true);
        // The page has no form for requests with a body.
        assert.equal(await page.locator("#callRpc form").count(), 0);
    }, { hash: "#callRpc" });
});

scenario("the page is readable at every width, in both colour schemes", async () => {
    await open(async (page) => {
        await checkLayout(page, "closed", WIDTHS);
        for (const id of ["getGasSuggestion", "getFeeHistoryChart", "prepareDelegation"]) await unfold(page, id);
        await send(page.locator("#getGasSuggestion"));
        await send(page.locator("#getFeeHistoryChart"));
        await page.locator("#getFeeHistoryChart img").evaluate((node) => node.decode());
        await checkLayout(page, "open", WIDTHS);
    });
});

scenario("all requests work below a base path and behind a rewriting proxy", async () => {
    const based = await start('[server]\nbase_path = "/proxy/public"');
    const proxy = await Proxy.start(service.url, { prefix: "/some/where" });
    for (const url of [`${based.url}/proxy/public`, proxy.url]) {
        await open(async (page, { requests }) => {
            const chains = await unfold(page, "getChains");
            assert.equal((await send(chains)).request, `GET ${url}/v1/chains`);
            for (const request of requests) assert(request.url().startsWith(url), request.url());
        }, { url });
    }
});

scenario("a document that cannot be loaded is reported", async () => {
    const fail = async (page) => page.route("**/openapi.json", (route) => route.fulfill({ status: 503 }));
    await open(async (page) => {
        await fail(page);
        await page.reload();
        const banner = page.locator("#banner.bad");
        await banner.waitFor();
        assert.equal(await banner.innerText(), "The document could not be loaded: status 503");
    });
});

scenario("without JavaScript the page says that it needs it", async () => {
    await visit(browser, `${service.url}/docs`, { javaScriptEnabled: false }, async (page) => {
        const text = "This page needs JavaScript to show the service’s OpenAPI document. Without it, read " +
            "the document at openapi.json.";
        assert.equal((await page.locator("noscript").innerText()).replace(/\s+/g, " ").trim(), text);
    });
});

describe("the /docs page", { concurrency: 2 }, () => {
    for (const [name, check] of scenarios) test(name, check);
});
