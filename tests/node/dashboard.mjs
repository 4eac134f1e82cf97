// Tests of the dashboard in Chromium: `node dashboard.mjs '{"binary":…,"listen":…,"shots":…}' [name]`.
//
// `binary` is the service, which the tests start and stop. `listen` is the address of the service that restarts. With
// the environment variable SCREENSHOTS, the tests save screenshots in the folder `shots`. `name` selects the scenarios
// whose names contain it. All scenarios share a browser, and as far as possible a service.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { launch, until } from "./browser.mjs";
import chain from "./dashboard/chain.mjs";
import { checks } from "./dashboard/checks.mjs";
import connection from "./dashboard/connection.mjs";
import dollars from "./dashboard/dollars.mjs";
import hidden from "./dashboard/hidden.mjs";
import history from "./dashboard/history.mjs";
import { INSECURE_HOST, chainConfig, openDashboard } from "./dashboard/page.mjs";
import overview from "./dashboard/overview.mjs";
import prices from "./dashboard/prices.mjs";
import { ManyChains } from "./dashboard/many.mjs";
import speed from "./dashboard/speed.mjs";
import states from "./dashboard/states.mjs";
import { Nodes, Service, stopAll } from "./services.mjs";

const { binary, listen, shots } = JSON.parse(process.argv[2]);
const wanted = process.argv[3] ?? "";
const folder = mkdtempSync(join(tmpdir(), "dashboard-"));

// Functions and values that scenarios use.
const tools = { listen, check: checks(shots) };
let demo;
let still;
let many;
before(async () => {
    tools.browser = await launch(`--host-resolver-rules=MAP ${INSECURE_HOST} 127.0.0.1`);
    tools.nodes = await Nodes.start();
    tools.start = (options) => Service.start({ binary, folder, ...options });
    tools.config = (...parts) => chainConfig(tools.nodes, ...parts);
    // The configuration of chains whose nodes have other addresses.
    tools.config.at = chainConfig;
    tools.open = (url, run, options) => openDashboard(tools.browser, url, run, options);
    // The demo with four blocks a second.
    tools.demo = () => (demo ??= tools.start({ demo: ["--block-time", "250ms"] }));
    tools.still = () => (still ??= startStill());
    tools.many = () => (many ??= ManyChains.start(tools));
});
// Starts a service with two mock chains on which nothing changes. Their blocks are ten minutes apart, so that the ones
// read at the start are a history of more than an hour.
async function startStill() {
    const chains = { ronin: 2020, saigon: 2021 };
    const service = await tools.start({
        config: tools.config(Object.fromEntries(Object.entries(chains).map(([key, id]) =>
            [key, { ...tools.nodes.chain(id), more: 'block_time = "10m"\nmax_age = "3h"' }]))),
    });
    for (const key of Object.keys(chains)) {
        const readTrend = async () => (await fetch(`${service.url}/v1/${key}/fee-trend?period=24h`)).json();
        await until(readTrend, ({ level }) => level === "normal");
    }
    return service;
}

after(async () => {
    await tools.browser?.close();
    await stopAll();
    rmSync(folder, { recursive: true });
});

// Runs the scenarios, which are functions by name.
function run(scenarios, concurrency) {
    const chosen = Object.entries(scenarios).filter(([name]) => name.includes(wanted));
    describe("the dashboard", { concurrency }, () => {
        for (const [name, scenario] of chosen) test(name, () => runAndStop(scenario));
    });
}

// Runs a scenario, then stops the services that it started.
async function runAndStop(scenario) {
    const own = [];
    const start = async (options) => {
        const service = await tools.start(options);
        own.push(service);
        return service;
    };
    try {
        await scenario({ ...tools, start });
    } finally {
        await Promise.all(own.map((service) => service.stop()));
    }
}

// Measured while nothing else runs.
run(speed, 1);
// The longest begin first.
run({ ...states, ...dollars, ...history, ...connection, ...prices, ...hidden, ...overview, ...chain }, 3);
