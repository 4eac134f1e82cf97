// What is verified, and how it comes to be.

import { getAddress, id as keccak256 } from "ethers";

import { compile } from "./compiler.mjs";
import { Refusal } from "./refusal.mjs";

// A contract is verified in one of two ways: its code is what the sources compile to, or it is but for the
// hash of the metadata at its end, as after a change of a comment.
export const EXACT = "exact";
export const INEXACT = "inexact";

const MISSING = "One or more sources are mentioned in the metadata but are missing or are invalid.";

export class Contracts {
    #nodes;
    #verified = new Map();
    #underWay = new Set();

    // Of the chains whose ids are the keys; the values are the addresses of their nodes.
    constructor(nodes) {
        this.#nodes = nodes;
    }

    isSupported(chain) {
        return this.#nodes.has(chain);
    }

    // What is known of the contract there, if it is verified: its `match`, `source`, `output` and so on.
    find(chain, address) {
        return this.#verified.get(`${chain}:${getAddress(address)}`);
    }

    // All that are verified on a chain, or with one address.
    all({ chain, address }) {
        return [...this.#verified.values()].filter((contract) =>
            (!chain || contract.chain === chain) && (!address || contract.address === getAddress(address)));
    }

    isUnderWay(chain, address) {
        return this.#underWay.has(`${chain}:${getAddress(address)}`);
    }

    // Verifies with `source`, its `version`, `input` and `target`, and remembers what it found unless it
    // knew as good a match already, in which case it gives `undefined`. Not before `isDue`.
    async verify(chain, address, source, isDue = Promise.resolve()) {
        const key = `${chain}:${getAddress(address)}`;
        if (this.#underWay.has(key)) {
            const at = `The contract ${getAddress(address)} on chainId ${chain}`;
            throw new Refusal(429, `${at} is already being verified, please wait`);
        }
        this.#underWay.add(key);
        try {
            const judged = await this.#judge(chain, address, source)
                .then((found) => ({ found }), (error) => ({ error }));
            await isDue;
            if (judged.error) throw judged.error;
            const known = this.#verified.get(key);
            if (known && (known.match === EXACT || judged.found.match === INEXACT)) return undefined;
            const number = String(this.#verified.size + 1);
            const verifiedAt = new Date().toISOString();
            const contract = { chain, address: getAddress(address), number, verifiedAt, ...judged.found };
            this.#verified.set(key, contract);
            return contract;
        } finally {
            this.#underWay.delete(key);
        }
    }

    async #judge(chain, address, source) {
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
        const both = { recompiledRuntimeCode: compiled, onchainRuntimeCode: onChain };
        if (onChain === "0x") {
            const what = `Chain #${chain} does not have a contract deployed at ${address}.`;
            throw new Refusal(500, what, { code: "contract_not_deployed" });
        }
        if (onChain.length !== compiled.length) {
            const what = "The recompiled bytecode length doesn't match the onchain bytecode length.";
            throw new Refusal(500, what, { code: "bytecode_length_mismatch", both });
        }
        if (withoutMetadata(onChain) !== withoutMetadata(compiled)) {
            const what = "The deployed and recompiled bytecode don't match.";
            throw new Refusal(500, what, { code: "no_match", both });
        }
        return { match: onChain === compiled ? EXACT : INEXACT, source, output, onChain };
    }

    async #code(chain, address) {
        const call = { jsonrpc: "2.0", id: 1, method: "eth_getCode", params: [address, "latest"] };
        const headers = { "content-type": "application/json" };
        try {
            const reply = await fetch(this.#nodes.get(chain), {
                method: "POST", headers, body: JSON.stringify(call),
            });
            const { result } = await reply.json();
            if (/^0x([0-9a-f]{2})*$/.test(result)) return result;
            throw new Error(`a code of ${result}`);
        } catch (error) {
            console.error(error);
            const what = `Cannot fetch bytecode for chain #${chain} and address ${address}.`;
            throw new Refusal(500, what, { code: "cannot_fetch_bytecode" });
        }
    }
}

// The code's last two bytes are the length of the CBOR before them.
function withoutMetadata(code) {
    const length = 2 * (parseInt(code.slice(-4), 16) + 2);
    return length <= code.length - 2 ? code.slice(0, -length) : code;
}

// What there is to compile, as `metadata`, a compiler's own output, describes it, with those of `contents`
// that have the hashes which it names. What cannot be had is under `missing`, what has another hash under
// `invalid`.
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
