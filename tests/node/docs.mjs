// Tests of the /docs page in Chromium: `node docs.mjs '{"binary":…,"shots":…}'`.
//
// `binary` is the service. With the environment variable SCREENSHOTS the tests save screenshots in the folder `shots`.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { becomes, checkLayout, launch, visit } from "./browser.mjs";
import { checks } from "./dashboard/checks.mjs";
import { Nodes, Proxy, Service, stopAll } from "./services.mjs";

const { binary, shots } = JSON.parse(process.argv[2]);
const WIDTHS = [360, 1280];

let browser;
let nodes;
let service;
const folder = mkdtempSync(join(tmpdir(), "docs-"));
before(async () => {
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
        await page.locator("details").first().waitFor();
        await run(page, log);
    });

const fetchDocument = async () => (await fetch(`${service.url}/openapi.json`)).json();

// Returns the address of the link that tries the open route with this id.
const tried = (page, id) => page.locator(`#${id} .try a`).getAttribute("href");

scenario("every documented route is on the page, in its group", async () => {
    const api = await fetchDocument();
    await open(async (page) => {
        const shown = await page.evaluate(() => [...document.querySelectorAll("details > summary")].map((node) =>
            [node.closest("section").querySelector("h2").textContent, node.textContent].join(" ")));
        const documented = Object.entries(api.paths).flatMap(([path, item]) =>
            Object.entries(item).map(([verb, { tags: [tag], summary }]) =>
                [tag, verb.toUpperCase(), path, summary].join(" ")));
        assert.deepEqual(shown.toSorted(), documented.toSorted());
        assert(shown.length > 0);
        assert.equal(await page.title(), "gas-suggestion – API");
        assert.equal(await page.locator("#banner").count(), 0);
    });
});

scenario("every route shows its parameters, responses and members", async () => {
    const api = await fetchDocument();
    const resolve = (node) => (node.$ref ? node.$ref.split("/").slice(1).reduce((found, key) => found[key], api) : node);
    await open(async (page) => {
        await page.evaluate(() => document.querySelectorAll("details").forEach((node) => { node.open = true; }));
        const routes = Object.values(api.paths).flatMap((item) => Object.values(item));
        await becomes(page, () => document.querySelectorAll("details .route").length, routes.length);
        for (const { operationId, parameters, responses } of routes) {
            const text = await page.locator(`#${operationId}`).innerText();
            const given = parameters.map(resolve);
            for (const { description = "" } of [...given, ...Object.values(responses).map(resolve)]) {
                assert(text.includes(description.split("`")[0].replace(/\s+/g, " ").trim()), `${operationId}: ${description}`);
            }
            const controls = await page.locator(`#${operationId} :is(input, select)`).count();
            const hasLink = await page.locator(`#${operationId} .try a`).count() > 0;
            assert.equal(controls, hasLink ? given.filter((parameter) => parameter.in !== "header").length : 0, operationId);
        }
        // A member of an object within the response.
        assert.match(await page.locator("#getFeeMarket").innerText(), /covers_full_blocks[^]*max_priority_fee_per_gas/);
    });
});

scenario("a link opens its route, and its own link gets the real response", async () => {
    const real = await (await fetch(`${service.url}/v1/one/gas-suggestion`)).json();
    for (const hash of ["#getGasSuggestion", "#/Gas/getGasSuggestion"]) {
        await open(async (page) => {
            const url = await tried(page, "getGasSuggestion");
            assert.equal(url, `${service.url}/v1/one/gas-suggestion`);
            assert.deepEqual(await (await fetch(url)).json(), real);
        }, { hash });
    }
    await open(async (page) => {
        await page.getByLabel("period").selectOption("1h");
        assert.equal(await tried(page, "getFeeTrend"), `${service.url}/v1/one/fee-trend?period=1h`);
    }, { hash: "#getFeeTrend" });
});

scenario("links and resources work below a base path and behind a rewriting proxy", async () => {
    const based = await start('[server]\nbase_path = "/proxy/public"');
    const proxy = await Proxy.start(service.url, { prefix: "/some/where" });
    for (const url of [`${based.url}/proxy/public`, proxy.url]) {
        await open(async (page, { requests }) => {
            assert.equal(await tried(page, "getChains"), `${url}/v1/chains`);
            for (const request of requests.filter((request) => request.url().startsWith("http"))) {
                assert(request.url().startsWith(url), request.url());
            }
        }, { url, hash: "#getChains" });
    }
});

scenario("the page is accessible and fits a phone, in both colour schemes", async () => {
    await open(async (page) => {
        for (const id of ["getFees", "getFeeMarket", "getCostOfTransaction", "getDelegations"]) {
            await page.locator(`#${id} > summary`).click();
            await page.locator(`#${id} .route`).waitFor();
        }
        await checks(shots).accessible({ page }, "docs");
        await checkLayout(page, "docs", { shots, widths: WIDTHS });
    });
});

scenario("a document that cannot be loaded is reported", async () => {
    await open(async (page) => {
        await page.route("**/openapi.json", (route) => route.fulfill({ status: 503 }));
        await page.reload();
        await page.getByText("The document could not be loaded: status 503").waitFor();
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
