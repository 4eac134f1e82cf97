// Tests of the /docs page in Chromium: `node docs.mjs '{"binary":…,"shots":…}'`.
//
// `binary` is the service. The tests save a screenshot of each state in both colour schemes and several widths in the
// folder `shots`.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { becomes, launch, visit } from "./browser.mjs";
import { Nodes, Proxy, Service, stopAll } from "./services.mjs";

const { binary, shots } = JSON.parse(process.argv[2]);
const WIDTHS = [360, 1280];

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
        await page.locator(".opblock").first().waitFor();
        await run(page, log);
    });

const fetchDocument = async () => (await fetch(`${service.url}/openapi.json`)).json();

// Sends the request of the open operation with this id. Returns its URL, and the status and body of the response.
async function execute(page, id) {
    const operation = page.locator(`[id$="-${id}"]`);
    await operation.getByRole("button", { name: "Execute" }).click();
    const response = operation.locator(".live-responses-table");
    await response.locator(".response-col_status").last().waitFor();
    return {
        url: await operation.locator(".request-url pre").innerText(),
        status: (await response.locator("tbody .response-col_status").innerText()).trim(),
        body: await response.locator(".highlight-code code, .highlight-code pre").first().innerText(),
    };
}

scenario("every documented route is on the page, in its group", async () => {
    const api = await fetchDocument();
    await open(async (page) => {
        const shown = await page.evaluate(() => [...document.querySelectorAll(".opblock")].map((node) => [
            node.closest(".opblock-tag-section").querySelector(".opblock-tag").dataset.tag,
            node.querySelector(".opblock-summary-method").textContent,
            node.querySelector(".opblock-summary-path").dataset.path,
            node.querySelector(".opblock-summary-description").textContent,
        ].join(" ")));
        const documented = Object.entries(api.paths).flatMap(([path, item]) =>
            Object.entries(item).map(([verb, { tags: [tag], summary }]) =>
                [tag, verb.toUpperCase(), path, summary].join(" ")));
        assert.deepEqual(shown.toSorted(), documented.toSorted());
        assert(shown.length > 0);
        assert.equal(await page.title(), "gas-suggestion – API");
        assert.equal(await page.locator("#banner").count(), 0);
    });
});

scenario("a link opens its operation, and executing it shows the real response", async () => {
    const real = await (await fetch(`${service.url}/v1/one/gas-suggestion`)).json();
    await open(async (page) => {
        const { url, status, body } = await execute(page, "getGasSuggestion");
        assert.deepEqual([url, status], [`${service.url}/v1/one/gas-suggestion`, "200"]);
        assert.deepEqual(JSON.parse(body), real);
    }, { hash: "#/Gas/getGasSuggestion" });
});

scenario("requests and resources work below a base path and behind a rewriting proxy", async () => {
    const based = await start('[server]\nbase_path = "/proxy/public"');
    const proxy = await Proxy.start(service.url, { prefix: "/some/where" });
    for (const url of [`${based.url}/proxy/public`, proxy.url]) {
        await open(async (page, { requests }) => {
            assert.equal((await execute(page, "getChains")).url, `${url}/v1/chains`);
            for (const request of requests.filter((request) => request.url().startsWith("http"))) {
                assert(request.url().startsWith(url), request.url());
            }
        }, { url, hash: "#/Gas/getChains" });
    }
});

scenario("the page follows the colour scheme", async () => {
    await open(async (page) => {
        for (const colorScheme of ["dark", "light"]) {
            await page.emulateMedia({ colorScheme });
            const isTitleLight = () =>
                getComputedStyle(document.querySelector(".info .title")).color.match(/\d+/)[0] > 128;
            await becomes(page, isTitleLight, colorScheme === "dark");
            for (const width of WIDTHS) {
                await page.setViewportSize({ width, height: 800 });
                await page.screenshot({ path: join(shots, `docs-${width}-${colorScheme}.png`) });
            }
        }
    }, { hash: "#/Gas/getGasSuggestion" });
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
