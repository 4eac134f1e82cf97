// The v2 API: a verification is a job that clients poll.

import { randomUUID } from "node:crypto";

import { getAddress, isAddress } from "ethers";

import { EXACT, fromMetadata } from "./contracts.mjs";
import { Refusal, misfit } from "./refusal.mjs";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function route(method, path, jobs, contracts) {
    const [, , what, ...rest] = path.split("/");
    if (rest.some((part) => part === "")) return undefined;
    if (method === "POST" && what === "verify") {
        if (rest.length === 2) return (request) => jobs.start(...rest, request.body, fromInput);
        if (rest.length === 3 && rest[0] === "metadata") {
            return (request) => jobs.start(rest[1], rest[2], request.body, fromMetadataAndSources);
        }
    }
    if (method !== "GET") return undefined;
    if (what === "verify" && rest.length === 1) return () => jobs.status(rest[0]);
    if (what === "contract" && rest.length === 2) {
        return rest[0] === "all-chains"
            ? () => contractOnAllChains(contracts, rest[1])
            : (request) => contractOnChain(contracts, ...rest, request.query);
    }
    if (what === "contracts" && rest.length === 1) return () => contractsOnChain(contracts, rest[0]);
    return undefined;
}

const withId = (customCode, message) => ({ customCode, message, errorId: randomUUID() });

export function refused({ status, message, more }) {
    if (more.code) return { status: status === 415 ? 400 : status, json: withId(more.code, message) };
    return { status, json: { error: message, message } };
}

function invalid(message) {
    return new Refusal(400, message, { code: "invalid_parameter" });
}

function checkChainAndAddress(contracts, chain, address) {
    if (!contracts.isSupported(chain)) {
        throw new Refusal(400, `Chain ${chain} not found`, { code: "unsupported_chain" });
    }
    if (!isAddress(address)) throw invalid(`Invalid address: ${address}`);
}

export class Jobs {
    #contracts;
    #timing;
    #jobs = new Map();

    constructor(contracts, timing) {
        this.#contracts = contracts;
        this.#timing = timing;
    }

    start(chain, given, { json }, readSource) {
        if (!json) throw invalid("unsupported media type");
        const source = readSource(chain, given, json, this.#contracts);
        const address = getAddress(given);
        if (json.creationTransactionHash !== undefined &&
            !/^0x[0-9a-f]{64}$/i.test(json.creationTransactionHash)) {
            throw misfit("request/body/creationTransactionHash", "must match pattern");
        }
        const at = `Contract ${address} on chain ${chain}`;
        if (this.#contracts.find(chain, address)?.isWhole) {
            throw new Refusal(409, `${at} is already verified with runtimeMatch and creationMatch both ` +
                "being exact matches.", { code: "already_verified" });
        }
        if (this.#contracts.isRunning(chain, address)) {
            throw new Refusal(429, `${at} is already being verified`, {
                code: "duplicate_verification_request",
            });
        }
        source.creatorTxHash = json.creationTransactionHash;
        const job = { id: randomUUID(), chain, address, startedAt: new Date(), polls: 0 };
        this.#jobs.set(job.id, job);
        const polledEnough = new Promise((resolve) => (job.onPolledEnough = resolve));
        if (this.#timing.polls === 0) job.onPolledEnough();
        const late = new Promise((resolve) => setTimeout(resolve, this.#timing.atLeastMs));
        const isDue = Promise.all([polledEnough, late]);
        this.#contracts.verify(chain, address, source, isDue)
            .then((contract) => {
                if (contract) return (job.contract = contract);
                job.error = withId("already_verified",
                    "The contract is already verified and the job didn't yield a better match.");
            })
            .catch((error) => {
                const { code, bytecodes } = error.more ?? {};
                if (!code) console.error(error);
                job.error = { ...withId(code ?? "internal_error", error.message), ...bytecodes };
            })
            .finally(() => (job.finishedAt = new Date()));
        return { status: 202, json: { verificationId: job.id } };
    }

    status(id) {
        if (!UUID.test(id)) throw misfit("request/params/verificationId", "must match format \"uuid\"");
        const job = this.#jobs.get(id.toLowerCase());
        if (!job) {
            throw new Refusal(404, `No verification job found for id ${id}`, { code: "job_not_found" });
        }
        job.polls += 1;
        if (job.polls >= this.#timing.polls) job.onPolledEnough();
        const { chain: chainId, address, startedAt, finishedAt, contract, error } = job;
        const nothing = { match: null, creationMatch: null, runtimeMatch: null, chainId, address };
        const json = {
            isJobCompleted: finishedAt !== undefined,
            verificationId: id,
            jobStartTime: startedAt,
            jobFinishTime: finishedAt,
            compilationTime: finishedAt && String(finishedAt - startedAt),
            contract: contract ? contractSummary(contract) : nothing,
            error,
        };
        return { status: 200, json };
    }
}

function required(where, object, names) {
    for (const name of names) {
        if (object[name] === undefined) throw misfit(where, `must have required property '${name}'`);
    }
}

function fromInput(chain, address, body, contracts) {
    required("request/body", body, ["stdJsonInput", "compilerVersion", "contractIdentifier"]);
    for (const name of ["compilerVersion", "contractIdentifier"]) {
        if (typeof body[name] !== "string") throw misfit(`request/body/${name}`, "must be string");
    }
    const { stdJsonInput: input, compilerVersion: version, contractIdentifier } = body;
    if (typeof input !== "object" || input === null) {
        throw misfit("request/body/stdJsonInput", "must be object");
    }
    checkChainAndAddress(contracts, chain, address);
    for (const field of ["language", "sources"]) {
        if (!input[field]) throw invalid(`Standard JSON input must contain a ${field} field.`);
    }
    if (Object.values(input.sources).some((source) => !source.content)) {
        throw invalid("Standard JSON input must contain a content field for each source.");
    }
    // The path may contain colons, so the name follows the last one.
    const [, path, name] = contractIdentifier.match(/^(.*):([^:]*)$/s) ?? [];
    if (name === undefined) {
        throw invalid("The contractIdentifier must consist of the file path and the contract name " +
            "separated by a ':'.");
    }
    return { version, input, target: { path, name } };
}

function fromMetadataAndSources(chain, address, body, contracts) {
    required("request/body", body, ["metadata", "sources"]);
    const { metadata, sources } = body;
    for (const name of ["metadata", "sources"]) {
        if (typeof body[name] !== "object" || body[name] === null) {
            throw misfit(`request/body/${name}`, "must be object");
        }
    }
    for (const [name, content] of Object.entries(sources)) {
        if (typeof content !== "string") throw misfit(`request/body/sources/${name}`, "must be string");
    }
    checkChainAndAddress(contracts, chain, address);
    const has = {
        "compiler": metadata.compiler,
        "compiler.version": metadata.compiler?.version,
        "language": metadata.language,
        "settings": metadata.settings,
        "settings.compilationTarget": metadata.settings?.compilationTarget,
        "sources": metadata.sources,
    };
    for (const [field, value] of Object.entries(has)) {
        if (!value) throw invalid(`Metadata must contain a ${field} field.`);
    }
    return fromMetadata(metadata, Object.values(sources));
}

const matchName = (match) => match && (match === EXACT ? "exact_match" : "match");

function contractSummary({ best, match, creationMatch, chain: chainId, address, verifiedAt, number: matchId }) {
    return {
        match: matchName(best),
        creationMatch: matchName(creationMatch),
        runtimeMatch: matchName(match),
        chainId, address, verifiedAt, matchId,
    };
}

function contractDetails({ source, output, onChain }) {
    const { path, name } = source.target;
    const metadata = JSON.parse(output.metadata);
    return {
        abi: output.abi,
        metadata,
        sources: source.input.sources,
        stdJsonInput: source.input,
        compilation: {
            language: source.input.language,
            compiler: "solc",
            compilerVersion: source.version,
            compilerSettings: source.input.settings,
            name,
            fullyQualifiedName: `${path}:${name}`,
        },
        runtimeBytecode: {
            onchainBytecode: onChain,
            recompiledBytecode: `0x${output.evm.deployedBytecode.object}`,
        },
    };
}

const FIELDS = ["abi", "metadata", "sources", "stdJsonInput", "compilation", "runtimeBytecode"];
const ALWAYS = ["match", "creationMatch", "runtimeMatch", "chainId", "address", "verifiedAt", "matchId"];

function contractOnChain(contracts, chain, given, query) {
    const parameters = new URLSearchParams(query);
    for (const name of parameters.keys()) {
        if (!["fields", "omit"].includes(name)) throw invalid(`Unknown query parameter '${name}'`);
    }
    const [fields, omit] = ["fields", "omit"].map((name) => parameters.get(name)?.split(","));
    if (fields && omit) throw invalid("Cannot specify both fields and omit");
    if (fields?.includes("all") && fields.length > 1) {
        throw invalid("Cannot specify 'all' with other fields");
    }
    checkChainAndAddress(contracts, chain, given);
    const isAll = omit || fields?.includes("all");
    for (const field of [...(isAll ? [] : fields ?? []), ...(omit ?? [])]) {
        if (![...FIELDS, ...ALWAYS].includes(field.split(".")[0])) {
            throw invalid(`Field selector ${field} is not a valid field`);
        }
    }
    const address = getAddress(given);
    const contract = contracts.find(chain, address);
    if (!contract) {
        const json = { match: null, creationMatch: null, runtimeMatch: null, chainId: chain, address };
        return { status: 404, json };
    }
    const json = contractSummary(contract);
    const details = contractDetails(contract);
    for (const field of isAll ? FIELDS.filter((field) => !omit?.includes(field)) : fields ?? []) {
        const [name, member] = field.split(".");
        if (!FIELDS.includes(name)) continue;
        if (member) json[name] = { ...json[name], [member]: details[name][member] };
        else json[name] = details[name];
    }
    return { status: 200, json };
}

function contractOnAllChains(contracts, address) {
    if (!isAddress(address)) throw invalid(`Invalid address: ${address}`);
    const results = contracts.all({ address }).map(contractSummary);
    return { status: results.length > 0 ? 200 : 404, json: { results } };
}

function contractsOnChain(contracts, chain) {
    checkChainAndAddress(contracts, chain, `0x${"0".repeat(40)}`);
    return { status: 200, json: { results: contracts.all({ chain }).map(contractSummary) } };
}
