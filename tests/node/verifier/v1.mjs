// The v1 API: verification happens within the request.

import { getAddress, isAddress } from "ethers";

import { EXACT, fromMetadata } from "./contracts.mjs";
import { Refusal, misfit } from "./refusal.mjs";

// Each route also has an old name in camel case.
const CHECKS = {
    "/check-by-addresses": checkExact,
    "/checkByAddresses": checkExact,
    "/check-all-by-addresses": checkAll,
    "/checkAllByAddresses": checkAll,
};

export function route(method, path, contracts) {
    if (method === "POST" && ["/", "/verify"].includes(path)) {
        return (request) => verify(contracts, request.body);
    }
    if (method !== "GET") return undefined;
    if (Object.hasOwn(CHECKS, path)) return (request) => check(contracts, request.query, CHECKS[path]);
    const filesPattern = /^\/files(\/any|\/tree|\/tree\/any|)\/([^/]+)\/([^/]+)$/;
    const [, kind, chain, address] = path.match(filesPattern) ?? [];
    if (chain === "contracts") return () => list(contracts, address);
    return chain && (() => files(contracts, kind, chain, address));
}

export function refused({ status, message, more }) {
    if (more.response) return more.response;
    return { status, json: more.errors ? { message, errors: more.errors } : { error: message, message } };
}

const v1Status = ({ best }) => (best === EXACT ? "perfect" : "partial");

async function verify(contracts, { json, fields, files }) {
    const body = { ...(json ?? fields) };
    body.chain = body.chainId ?? body.chain;
    for (const name of json ? ["address", "chain", "files"] : ["address", "chain"]) {
        if (body[name] === undefined) {
            throw misfit("request/body", `must have required property '${name}'`);
        }
    }
    for (const name of ["address", "chain", "creatorTxHash", "chosenContract"]) {
        if (body[name] !== undefined && typeof body[name] !== "string") {
            throw misfit(`request/body/${name}`, "must be string");
        }
    }
    if (json && (typeof body.files !== "object" || Array.isArray(body.files) || body.files === null)) {
        throw misfit("request/body/files", "must be object");
    }
    if (!isAddress(body.address)) throw new Refusal(400, `Invalid address: ${body.address}`);
    if (!contracts.isSupported(body.chain)) {
        throw new Refusal(400, `Chain ${body.chain} not supported for verification!`);
    }
    const address = getAddress(body.address);
    const known = contracts.find(body.chain, address);
    // The timestamp tells clients that the contract was verified before.
    if (known?.isWhole) {
        const result = { ...verificationResult(known), storageTimestamp: known.verifiedAt };
        return { status: 200, json: { result: [result] } };
    }

    const given = json ? Object.entries(json.files).map(([name, content]) => ({ name, content })) : files;
    if (!json && given.length === 0) {
        throw new Refusal(404, "Couldn't extract files from the request. Please make sure you have added " +
            "files");
    }
    const source = choose(given, body.chosenContract);
    if (!source.target) return source;
    source.creatorTxHash = body.creatorTxHash;
    if (source.missing.length + source.invalid.length > 0) {
        throw new Refusal(400, `Invalid or missing sources in ${source.target.name}:\n` +
            `Missing sources: ${source.missing.join(", ")}\nInvalid sources: ${source.invalid.join(", ")}`);
    }
    const verified = await contracts.verify(body.chain, address, source);
    if (!verified) {
        throw new Refusal(409, `The contract ${address} on chainId ${body.chain} is already partially ` +
            "verified. The provided new source code also yielded a partial match and will not be stored " +
            "unless it's a full match");
    }
    return { status: 200, json: { result: [verificationResult(verified)] } };
}

function verificationResult(contract) {
    const { address, chain: chainId, source, onChain: onchainRuntimeBytecode } = contract;
    const contractName = source.target.name;
    return { address, chainId, onchainRuntimeBytecode, contractName, status: v1Status(contract) };
}

// Returns the source of the chosen contract. If none was chosen of several, returns the response that lists them.
function choose(files, chosen) {
    const contents = [];
    const metadata = [];
    for (const { content } of files) {
        if (typeof content !== "string") throw new Refusal(400, "The content of a file must be a string.");
        const parsed = parsedOrUndefined(content);
        if (parsed?._format === "hh-sol-build-info-1") {
            contents.push(...Object.values(parsed.input.sources).map((source) => source.content));
            const outputs = Object.values(parsed.output.contracts).flatMap((file) => Object.values(file));
            metadata.push(...outputs.map((output) => parsedOrUndefined(output.metadata)).filter(isMetadata));
        } else if (isMetadata(parsed)) {
            metadata.push(parsed);
        } else {
            contents.push(content);
        }
    }
    if (metadata.length === 0) {
        throw new Refusal(400, "No valid Solidity metadata file found in the provided " +
            `${files.length} files. Please make sure you have added a valid metadata.json file.`);
    }
    const sources = metadata.map((one) => fromMetadata(one, contents));
    if (sources.length > 1 && !chosen) {
        const names = sources.map(({ target }) => target.name).join(", ");
        const error = `Detected ${sources.length} contracts (${names}), but can only verify 1 at a time. ` +
            "Please choose a main contract and click Verify again.";
        const contractsToChoose = sources.map(({ target: { name, path } }) => ({ name, path }));
        return { status: 400, json: { error, contractsToChoose } };
    }
    const source = sources[chosen || 0];
    if (!source) throw new Refusal(404, `Chosen contract not found. Received chosenContract: ${chosen}`);
    return source;
}

function parsedOrUndefined(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

function isMetadata(value) {
    return value?.language === "Solidity" && value.version && value.sources && value.output?.abi &&
        Object.keys(value.settings?.compilationTarget ?? {}).length === 1;
}

// Query values must be percent-encoded, except for the commas in `chainIds`.
function check(contracts, query, found) {
    const values = {};
    for (const pair of query.split("&").filter((pair) => pair)) {
        const [name, value = ""] = pair.split(/=(.*)/s);
        if (!["addresses", "chainIds", "resolveProxies"].includes(name)) {
            const message = `Unknown query parameter '${name}'`;
            throw new Refusal(400, message, { errors: [{ path: `/query/${name}`, message }] });
        }
        if (name !== "chainIds" && /[:/?#[\]@!$&'()*+,;=]/.test(value)) {
            const message = `Parameter '${name}' must be url encoded. Its value may not contain reserved ` +
                "characters.";
            throw new Refusal(400, message, { errors: [{ path: `/query/${name}`, message }] });
        }
        values[name] = decodeURIComponent(value);
    }
    for (const name of ["addresses", "chainIds"]) {
        if (!values[name]) throw misfit("request/query", `must have required property '${name}'`);
    }
    const addresses = values.addresses.split(",");
    const chains = values.chainIds.split(",");
    const bad = addresses.filter((address) => !isAddress(address));
    if (bad.length > 0) throw new Refusal(400, `Invalid addresses: ${bad.join(", ")}`);
    const unknown = chains.filter((chain) => !contracts.isSupported(chain));
    // A real Sourcify server responds with 500 here.
    if (unknown.length > 0) throw new Refusal(500, `Invalid chainIds: ${unknown.join(", ")}`);
    const json = addresses.map((given) => {
        const address = getAddress(given);
        const verified = chains.map((chain) => contracts.find(chain, address)).filter((one) => one);
        return found(address, verified) ?? { address, status: "false" };
    });
    return { status: 200, json };
}

function checkExact(address, verified) {
    const chainIds = verified.filter(({ best }) => best === EXACT).map(({ chain }) => chain);
    return chainIds.length > 0 ? { address, status: "perfect", chainIds } : undefined;
}

function checkAll(address, verified) {
    const chainIds = verified.map((contract) => ({ chainId: contract.chain, status: v1Status(contract) }));
    return chainIds.length > 0 ? { address, chainIds } : undefined;
}

function files(contracts, kind, chain, address) {
    if (!isAddress(address)) throw new Refusal(400, `Invalid address: ${address}`);
    const isAny = kind.endsWith("/any");
    const contract = contracts.find(chain, address);
    if (!contract || (contract.best !== EXACT && !isAny)) {
        throw new Refusal(404, "Files have not been found!");
    }
    const sources = Object.entries(contract.source.input.sources).map(([path, { content }]) => ({
        path: `sources/${path}`, content,
    }));
    const folder = contract.best === EXACT ? "full_match" : "partial_match";
    const found = [...sources, { path: "metadata.json", content: contract.output.metadata }]
        .map(({ path, content }) => ({
            name: path.split("/").at(-1),
            path: `/contracts/${folder}/${chain}/${contract.address}/${path}`,
            content,
        }));
    const given = kind.startsWith("/tree") ? found.map(({ path }) => `/repository${path}`) : found;
    const status = contract.best === EXACT ? "full" : "partial";
    return { status: 200, json: isAny ? { status, files: given } : given };
}

function list(contracts, chain) {
    const all = contracts.all({ chain });
    if (all.length === 0) throw new Refusal(404, "Contracts have not been found!");
    const [full, partial] = [true, false].map((isExact) =>
        all.filter(({ best }) => (best === EXACT) === isExact).map(({ address }) => address));
    return { status: 200, json: { full, partial } };
}
