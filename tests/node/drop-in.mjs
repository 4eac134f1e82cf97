// Reads fees with clients of other gas services: `node drop-in.mjs CONSUMER ADDRESS [NODE]`.
//
// CONSUMER         Client                                           ADDRESS
// metamask-fees    MetaMask's gas fee controller                    base URL of the service
// metamask-legacy  the same on a network without EIP-1559           base URL of the service
// polygon          ethers with a plugin for Polygon's gas station   base URL of the service
// gas-reporter     hardhat-gas-reporter in a Hardhat 2 project      base URL of the service
// etherscan        gas-price-oracle with an Etherscan-like source   base URL of the service
// flat             gas-price-oracle with a source of flat speeds    base URL of the service
// rpc-viem         viem's own estimates                             JSON-RPC URL of the service
// rpc-ethers       ethers' own estimates                            JSON-RPC URL of the service
//
// NODE is the JSON-RPC URL of the client's node. `gas-reporter` and the last two have none. The first four take their
// settings from the code blocks of docs/drop-in.md, in which only the URLs are replaced.
//
// Prints the client's result as one line of JSON: wei as decimal strings, gwei as the client has them. Exits with
// status 1 if the client throws, or after DEADLINE_MS. The error is on standard error.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [, , consumer, address, node] = process.argv;

const CHAIN_ID = 2020;
const CLIENT_ID = "gas-suggestion-tests";
// MetaMask's controller and the reporter have no timeout, and ethers waits for 5 minutes.
const DEADLINE_MS = 60_000;
// Earlier than DEADLINE_MS, so that the script still deletes the project.
const HARDHAT_DEADLINE_MS = 50_000;

// Returns the code block in this language below this heading of the page, for this service and this node.
async function documented(heading, language) {
    const page = await readFile(new URL("../../docs/drop-in.md", import.meta.url), "utf8");
    const section = page.split(/^#+ /m).find((text) => text.startsWith(`${heading}\n`));
    const blocks = [...(section ?? "").matchAll(/^```(\w+)\n(.*?)^```$/gms)].filter(([, name]) => name === language);
    assert.equal(blocks.length, 1, `${heading}: ${blocks.length} blocks`);
    const settings = blocks[0][2].replaceAll("https://api.roninchain.com/rpc", node);
    assert(settings.includes("http://localhost:8080"), settings);
    return settings.replaceAll("http://localhost:8080", address);
}

// Returns a controller that is set up as in MetaMask's clients, with a network whose only endpoint is the node.
async function metamask({ isEip1559Compatible, isLegacyApiCompatible }) {
    const { GasFeeController } = await import("@metamask/gas-fee-controller");
    const { Messenger } = await import("@metamask/messenger");
    const { NetworkController } = await import("@metamask/network-controller");

    const chainId = `0x${CHAIN_ID.toString(16)}`;
    const networkClientId = "the-node";
    const root = new Messenger({ namespace: "Root" });
    const networks = new NetworkController({
        messenger: new Messenger({ namespace: "NetworkController", parent: root }),
        infuraProjectId: "unused",
        getRpcServiceOptions: () => ({ fetch, btoa }),
        getBlockTrackerOptions: () => ({}),
        state: {
            selectedNetworkClientId: networkClientId,
            networksMetadata: {},
            networkConfigurationsByChainId: {
                [chainId]: {
                    chainId, name: "Ronin", nativeCurrency: "RON", blockExplorerUrls: [], defaultRpcEndpointIndex: 0,
                    rpcEndpoints: [{ networkClientId, type: "custom", url: node }],
                },
            },
        },
    });
    await networks.initializeProvider();
    const messenger = new Messenger({ namespace: "GasFeeController", parent: root });
    root.delegate({
        messenger,
        actions: ["getState", "getNetworkClientById", "getEIP1559Compatibility"].map(
            (name) => `NetworkController:${name}`),
        events: ["NetworkController:networkDidChange"],
    });
    const options = {
        messenger,
        clientId: CLIENT_ID,
        getProvider: () => networks.getProviderAndBlockTracker().provider,
        getCurrentNetworkEIP1559Compatibility: async () =>
            isEip1559Compatible ?? await networks.getEIP1559Compatibility(),
        getCurrentNetworkLegacyGasAPICompatibility: () => isLegacyApiCompatible,
    };
    const block = await documented("MetaMask", "js");
    return new Function("GasFeeController", "options", `return ${block}`)(GasFeeController, options);
}

// Returns the controller's state after one fetch, and `wei` with the fees as its clients convert them.
async function metamaskState(compatibility) {
    const { gweiDecToWEIBN } = await import("@metamask/controller-utils");
    const controller = await metamask(compatibility);
    await controller.fetchGasFeeEstimates();
    const { gasEstimateType, gasFeeEstimates, estimatedGasFeeTimeBounds } = controller.state;

    const wei = {};
    for (const [name, value] of Object.entries(gasFeeEstimates)) {
        if (["low", "medium", "high"].includes(name) && typeof value === "object") {
            wei[name] = {
                maxPriorityFeePerGas: gweiDecToWEIBN(value.suggestedMaxPriorityFeePerGas).toString(),
                maxFeePerGas: gweiDecToWEIBN(value.suggestedMaxFeePerGas).toString(),
            };
        } else if (["low", "medium", "high", "gasPrice", "estimatedBaseFee"].includes(name)) {
            wei[name] = gweiDecToWEIBN(value).toString();
        }
    }
    return { gasEstimateType, gasFeeEstimates, estimatedGasFeeTimeBounds, wei };
}

// Returns viem's or ethers' fees with decimal strings. `null` is a fee that the library does not have.
function decimal({ gasPrice, maxFeePerGas, maxPriorityFeePerGas }) {
    const text = (value) => value?.toString() ?? null;
    return {
        gasPrice: text(gasPrice), maxFeePerGas: text(maxFeePerGas), maxPriorityFeePerGas: text(maxPriorityFeePerGas),
    };
}

// Runs the block beside this script, where its import finds ethers. Returns what it prints.
async function polygon() {
    const folder = await mkdtemp(fileURLToPath(new URL("drop-in-", import.meta.url)));
    const { log } = console;
    try {
        const file = join(folder, "polygon-format.mjs");
        await writeFile(file, await documented("ethers 6", "js"));
        const printed = [];
        console.log = (value) => printed.push(value);
        await import(pathToFileURL(file));
        assert.equal(printed.length, 1);
        return decimal(printed[0]);
    } finally {
        console.log = log;
        await rm(folder, { recursive: true });
    }
}

// Runs the tests of an empty Hardhat project. The reporter requests the base fee only for an L2. It does not request
// the token's price, because `tokenPrice` is set. `warnings` has its messages about failed requests.
async function gasReporter() {
    const modules = fileURLToPath(new URL("hardhat-2/node_modules", import.meta.url));
    const settings = {
        tokenPrice: "1",
        L2: "base",
        blobBaseFee: 1,
        suppressTerminalOutput: true,
        outputJSON: true,
        outputJSONFile: "report.json",
    };
    const config = `${await documented("hardhat-gas-reporter", "js")}
Object.assign(module.exports.gasReporter, ${JSON.stringify(settings)});
`;
    const project = await mkdtemp(join(tmpdir(), "gas-reporter-"));
    try {
        await symlink(modules, join(project, "node_modules"));
        await mkdir(join(project, "test"));
        await writeFile(join(project, "package.json"), "{}\n");
        await writeFile(join(project, "test/empty.js"), 'it("passes", () => {});\n');
        await writeFile(join(project, "hardhat.config.js"), config);
        const hardhat = spawn(
            process.execPath,
            [join(modules, "hardhat/internal/cli/bootstrap.js"), "test"],
            {
                cwd: project,
                env: {
                    HOME: project, PATH: process.env.PATH, HARDHAT_DISABLE_TELEMETRY_PROMPT: "true",
                    COINMARKETCAP_API_KEY: "unused",
                },
                stdio: ["ignore", "pipe", "inherit"],
                timeout: HARDHAT_DEADLINE_MS,
                killSignal: "SIGKILL",
            });
        const output = [];
        hardhat.stdout.on("data", (part) => output.push(part));
        const status = await new Promise((resolve, reject) => {
            hardhat.on("error", reject);
            hardhat.on("close", (code, signal) => resolve(code ?? signal));
        });
        const text = Buffer.concat(output).toString();
        assert.equal(status, 0, text);
        const { gasPrice, baseFee } = JSON.parse(await readFile(join(project, "report.json"))).options;
        return { gasPrice, baseFee, warnings: text.match(/^(Failed to get |Error was: ).*$/gm) ?? [] };
    } finally {
        await rm(project, { recursive: true });
    }
}

// Returns prices in gwei. The library's fallback is the node's `eth_gasPrice`, multiplied for each speed.
async function gasPriceOracle(source) {
    const { GasPriceOracle } = await import("gas-price-oracle");
    const { legacy } = new GasPriceOracle({ chainId: CHAIN_ID, defaultRpc: node });
    legacy.addOffChainOracle({ name: "service", denominator: 1, ...source });
    return legacy.gasPrices();
}

const consumers = {
    "metamask-fees": () => metamaskState({ isLegacyApiCompatible: false }),
    "metamask-legacy": () => metamaskState({ isEip1559Compatible: false, isLegacyApiCompatible: true }),
    polygon,
    "gas-reporter": gasReporter,
    // The names are the ones with which the library reads the gas oracle of Avalanche's explorer.
    etherscan: () => gasPriceOracle({
        url: `${address}/api?chainid=${CHAIN_ID}&module=gastracker&action=gasoracle`,
        additionalDataProperty: "result",
        instantPropertyName: "FastGasPrice", fastPropertyName: "FastGasPrice",
        standardPropertyName: "ProposeGasPrice", lowPropertyName: "SafeGasPrice",
    }),
    flat: () => gasPriceOracle({
        url: `${address}/compat/flat/${CHAIN_ID}`,
        additionalDataProperty: null,
        instantPropertyName: "instant", fastPropertyName: "fast",
        standardPropertyName: "standard", lowPropertyName: "slow",
    }),
    async "rpc-viem"() {
        const { createPublicClient, http } = await import("viem");
        const client = createPublicClient({ transport: http(address) });
        const [fees, gasPrice] = await Promise.all([client.estimateFeesPerGas(), client.getGasPrice()]);
        return decimal({ ...fees, gasPrice });
    },
    async "rpc-ethers"() {
        const { JsonRpcProvider } = await import("ethers");
        return decimal(await new JsonRpcProvider(address).getFeeData());
    },
};

assert(Object.hasOwn(consumers, consumer), `unknown consumer ${consumer}`);
setTimeout(() => {
    console.error(`${consumer}: no result in ${DEADLINE_MS} ms`);
    process.exit(1);
}, DEADLINE_MS);
console.log(JSON.stringify(await consumers[consumer]()));
// The block tracker and the providers would keep the process running.
process.exit();
