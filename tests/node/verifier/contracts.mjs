// Verified contracts, and the verification itself.

import { getAddress, id as keccak256 } from "ethers";

import { compile } from "./compiler.mjs";
import { Refusal } from "./refusal.mjs";

// Kinds of matches. The code matches exactly, or except for the metadata at its end, whose hash changes with comments
// in the sources.
export const EXACT = "exact";
export const INEXACT = "inexact";

// From worst to best.
const MATCHES = [null, INEXACT, EXACT];

const MISSING = "One or more sources are mentioned in the metadata but are missing or are invalid.";

export class Contracts {
    #nodes;
    #verified = new Map();
    #running = new Set();

    // `nodes` maps chain ids to node URLs.
    constructor(nodes) {
        this.#nodes = nodes;
    }

    isSupported(chain) {
        return this.#nodes.has(chain);
    }

    // Returns the verified contract, if any. It has the `match` of the runtime code, the `creationMatch`, the `best` of
    // both, `isWhole` (true if both are exact), `source`, the compiler's `output` and so on.
    find(chain, address) {
        return this.#verified.get(`${chain}:${getAddress(address)}`);
    }

    // Returns all verified contracts on a chain or with an address.
    all({ chain, address }) {
        return [...this.#verified.values()].filter((contract) =>
            (!chain || contract.chain === chain) && (!address || contract.address === getAddress(address)));
    }

    isRunning(chain, address) {
        return this.#running.has(`${chain}:${getAddress(address)}`);
    }

    // Verifies `source` (`version`, `input`, `target`), and stores and returns the result once the promise `isDue` has
    // resolved. Returns `undefined` if the result is no better than the stored one.
    async verify(chain, address, source, isDue = Promise.resolve()) {
        const key = `${chain}:${getAddress(address)}`;
        if (this.#running.has(key)) {
            const at = `The contract ${getAddress(address)} on chainId ${chain}`;
            throw new Refusal(429, `${at} is already being verified, please wait`);
        }
        this.#running.add(key);
        try {
            const outcome = await this.#compare(chain, address, source)
                .then((found) => ({ found }), (error) => ({ error }));
            await isDue;
            if (outcome.error) throw outcome.error;
            const known = this.#verified.get(key);
            if (known && !isBetter(outcome.found, known)) return undefined;
            const number = String(this.#verified.size + 1);
            const verifiedAt = new Date().toISOString();
            const contract = { chain, address: getAddress(address), number, verifiedAt, ...outcome.found };
            this.#verified.set(key, contract);
            return contract;
        } finally {
            this.#running.delete(key);
        }
    }

    async #compare(chain, address, source) {
        if (source.missing?.length || source.invalid?.length) {
            throw new Refusal(500, `${MISSING} Missing sources: ${source.missing.join(", ")}; ` +
                `Invalid sources: ${source.invalid.join(", ")}`, { code: "missing_or_invalid_source" });
        }
        const output = await compile(source.version, source.input, source.target);
        const { object, immutableReferences, linkReferences } = output.evm.deployedBytecode;
        const open = { ...immutableReferences, ...linkReferences };
        if (Object.keys(open).length > 0) {
            const what = "This stand-in cannot verify contracts with immutables or libraries.";
            throw new Refusal(500, what, { code: "internal_error" });
        }
        const compiled = `0x${object}`;
        if (compiled === "0x") {
            const what = "The compiled contract bytecode is \"0x\". Are you trying to verify an " +
                "abstract contract?";
            throw new Refusal(500, what, { code: "compiled_bytecode_is_zero" });
        }
        const onChain = await this.#code(chain, address);
        const bytecodes = { recompiledRuntimeCode: compiled, onchainRuntimeCode: onChain };
        if (onChain === "0x") {
            const what = `Chain #${chain} does not have a contract deployed at ${address}.`;
            throw new Refusal(500, what, { code: "contract_not_deployed" });
        }
        if (onChain.length !== compiled.length) {
            const what = "The recompiled bytecode length doesn't match the onchain bytecode length.";
            throw new Refusal(500, what, { code: "bytecode_length_mismatch", bytecodes });
        }
        if (!compareCode(onChain, compiled)) {
            const what = "The deployed and recompiled bytecode don't match.";
            throw new Refusal(500, what, { code: "no_match", bytecodes });
        }
        const match = compareCode(onChain, compiled);
        const hash = source.creatorTxHash ?? await this.#creator(chain, address);
        const creation = hash && await this.#call(chain, "eth_getTransactionByHash", hash);
        // The constructor's arguments follow the creation code.
        const created = `0x${output.evm.bytecode.object}`;
        const creationMatch = creation ? compareCode(creation.input.slice(0, created.length), created) : null;
        const best = [match, creationMatch].includes(EXACT) ? EXACT : INEXACT;
        const isWhole = match === EXACT && creationMatch === EXACT;
        return { match, creationMatch, best, isWhole, source, output, onChain };
    }

    async #call(chain, method, ...params) {
        const call = { jsonrpc: "2.0", id: 1, method, params };
        const headers = { "content-type": "application/json" };
        const reply = await fetch(this.#nodes.get(chain), {
            method: "POST", headers, body: JSON.stringify(call),
        });
        const { result, error } = await reply.json();
        if (error) throw new Error(error.message);
        return result;
    }

    async #code(chain, address) {
        try {
            return await this.#call(chain, "eth_getCode", address, "latest");
        } catch (error) {
            console.error(error);
            const what = `Cannot fetch bytecode for chain #${chain} and address ${address}.`;
            throw new Refusal(500, what, { code: "cannot_fetch_bytecode" });
        }
    }

    // Finds the hash of the transaction that created the contract, by binary search over the blocks. Returns
    // `undefined` if no transaction created it.
    async #creator(chain, address) {
        const hex = (number) => `0x${number.toString(16)}`;
        let [first, last] = [0, Number(await this.#call(chain, "eth_blockNumber"))];
        while (first < last) {
            const middle = Math.floor((first + last) / 2);
            const code = await this.#call(chain, "eth_getCode", address, hex(middle));
            if (code === "0x") first = middle + 1;
            else last = middle;
        }
        const { transactions } = await this.#call(chain, "eth_getBlockByNumber", hex(first), true);
        for (const { hash, to } of transactions) {
            if (to) continue;
            const { contractAddress } = await this.#call(chain, "eth_getTransactionReceipt", hash);
            if (contractAddress && getAddress(contractAddress) === getAddress(address)) return hash;
        }
        return undefined;
    }
}

function compareCode(onChain, compiled) {
    if (onChain === compiled) return EXACT;
    return withoutMetadata(onChain) === withoutMetadata(compiled) ? INEXACT : null;
}

// Returns true if one of the two matches is better than before and the other is not worse.
function isBetter(found, known) {
    const gains = ["match", "creationMatch"].map((which) =>
        MATCHES.indexOf(found[which]) - MATCHES.indexOf(known[which]));
    return Math.max(...gains) > 0 && Math.min(...gains) >= 0;
}

// Removes the CBOR metadata, whose length is in the last two bytes of the code.
function withoutMetadata(code) {
    const length = 2 * (parseInt(code.slice(-4), 16) + 2);
    return length <= code.length - 2 ? code.slice(0, -length) : code;
}

// Builds the compiler input that `metadata` describes, with sources from `contents` matched by hash. Lists `missing`
// sources, and `invalid` ones whose content has another hash.
export function fromMetadata(metadata, contents) {
    const byHash = new Map(contents.map((content) => [keccak256(content), content]));
    const sources = {};
    const missing = [];
    const invalid = [];
    for (const [path, { keccak256: hash, content }] of Object.entries(metadata.sources)) {
        if (content !== undefined && keccak256(content) !== hash) invalid.push(path);
        else if (content !== undefined) sources[path] = { content };
        else if (byHash.has(hash)) sources[path] = { content: byHash.get(hash) };
        else missing.push(path);
    }
    const { compilationTarget, libraries: _, ...settings } = metadata.settings;
    const [[path, name]] = Object.entries(compilationTarget);
    const input = { language: metadata.language, sources, settings };
    return { version: metadata.compiler.version, input, target: { path, name }, missing, invalid };
}
