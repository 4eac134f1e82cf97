// Asks the verification service for a contract and follows what becomes of it. Knows no page.

import { label } from "./files.js";

/**
 * @typedef {object} Outcome
 * @property {'exact' | 'partial'} [match] how the code matched; absent when it did not
 * @property {boolean} [isOld] it was verified before
 * @property {boolean} [isOpen] it may be verified without us
 * @property {string} [reason] why it was not verified, or why the outcome is unknown
 *
 * @typedef {object} Order
 * @property {import('./files.js').Contract} contract
 * @property {string} address
 * @property {number} chainId
 */

// How long to wait before the job is asked for, from the first time to the last.
const PAUSES_MS = [500, 1000, 1500, 2000, 3000];
const PATIENCE_MS = 15 * 60 * 1000;
// What the verification service takes of one request.
const MAX_BYTES = 30 * 1024 * 1024;
// Failures in a row after which the job is not asked for any more: it may go on without us.
const MAX_FAILURES = 5;

/**
 * Verifies through the service at `base`, by the second generation of its interface or, where it does
 * not have that, by the first.
 *
 * @param {Order} order
 * @param {{ base: URL, signal: AbortSignal, tell: (step: string) => void }} way
 * @returns {Promise<Outcome>}
 * @throws when `signal` aborts
 */
export async function verify(order, { base, signal, tell }) {
    tell("Sending the files…");
    const { contract, address, chainId } = order;
    const { metadata, sources, input, compilerVersion } = contract;
    const answer = await (input
        ? post(`v2/verify/${chainId}/${address}`, {
              stdJsonInput: input,
              compilerVersion,
              contractIdentifier: label(contract),
          })
        : post(`v2/verify/metadata/${chainId}/${address}`, { metadata, sources }));
    if (answer.status === 404 && answer.json?.customCode === undefined && !answer.isProblem) {
        return verifyByFirst();
    }
    if (answer.json?.customCode === "already_verified") {
        return { isOld: true, ...(await lookUp()) };
    }
    const id = answer.json?.verificationId;
    if (answer.status !== 202 || typeof id !== "string") {
        return refusal(answer);
    }
    tell("Compiling and comparing…");
    return follow(id);

    async function follow(id) {
        const until = performance.now() + PATIENCE_MS;
        let failures = 0;
        for (let turn = 0; performance.now() < until; turn += 1) {
            await pause(PAUSES_MS[Math.min(turn, PAUSES_MS.length - 1)], signal);
            const answer = await ask("GET", `v2/verify/${encodeURIComponent(id)}`);
            if (answer.json?.isJobCompleted === true) {
                return outcomeOf(answer.json);
            }
            const isUnderWay = answer.status === 200 && answer.json?.isJobCompleted === false;
            failures = isUnderWay ? 0 : failures + 1;
            if (answer.json?.customCode !== undefined || failures === MAX_FAILURES) {
                return { isOpen: true, reason: reasonOf(answer) };
            }
        }
        return { isOpen: true, reason: "The verification takes very long." };
    }

    async function outcomeOf({ contract, error }) {
        if (contract?.match) return { match: matchOf(contract.match) };
        if (error?.customCode === "already_verified") return { isOld: true, ...(await lookUp()) };
        return { reason: textOf(error) ?? "The code at the address is not that of the files." };
    }

    async function lookUp() {
        const { json } = await ask("GET", `v2/contract/${chainId}/${address}`);
        return json?.match ? { match: matchOf(json.match) } : {};
    }

    async function verifyByFirst() {
        if (!metadata) {
            const reason =
                "The verification service is an older one, which does not take a build-info without " +
                "the compiler’s output. Choose the metadata with its sources.";
            return { reason };
        }
        tell("Compiling and comparing…");
        const files = { "metadata.json": JSON.stringify(metadata), ...sources };
        const answer = await post("verify", { address, chain: String(chainId), files });
        const [result] = Array.isArray(answer.json?.result) ? answer.json.result : [];
        if (answer.status === 200 && ["perfect", "partial"].includes(result?.status)) {
            return { match: result.status === "perfect" ? "exact" : "partial" };
        }
        // Its only conflict: what it has is a partial match, and this one is no better.
        if (answer.status === 409) return { isOld: true, match: "partial" };
        return textOf(result) === undefined ? refusal(answer) : { reason: textOf(result) };
    }

    async function post(path, body) {
        const text = JSON.stringify(body);
        if (new Blob([text]).size > MAX_BYTES) {
            return {
                json: {
                    message: "The sources are too large: the verification service takes 30 MiB.",
                },
            };
        }
        return ask("POST", path, text);
    }

    async function ask(method, path, body) {
        const headers = body === undefined ? {} : { "content-type": "application/json" };
        try {
            const response = await fetch(new URL(path, base), { method, headers, body, signal });
            const isProblem = response.headers.get("content-type") === "application/problem+json";
            return { status: response.status, isProblem, json: parse(await response.text()) };
        } catch (error) {
            if (signal.aborted) throw error;
            return { status: 0 };
        }
    }
}

function matchOf(match) {
    return match === "exact_match" ? "exact" : "partial";
}

/**
 * Of an answer to what was sent. Both generations say 429 while the contract is being verified, and an
 * answer that got lost on its way, here or between others, says nothing of what was done.
 */
function refusal(answer) {
    const { status, isProblem, json } = answer;
    const isLost = status === 0 || status === 502 || status === 504 || status >= 520;
    const isOpen = isLost ? isProblem || textOf(json) === undefined : status === 429 && !isProblem;
    return { ...(isOpen && { isOpen }), reason: reasonOf(answer) };
}

/** The upstream's own words, or at least what happened. */
function reasonOf({ status, json }) {
    const text = textOf(json);
    if (text !== undefined) return text;
    return status === 0
        ? "The service cannot be reached, or the connection broke off."
        : `The verification service answered with status ${status} and no reason.`;
}

function textOf(json) {
    const isText = (text) => typeof text === "string" && text !== "";
    // This service's own are no sentences.
    const [first, ...rest] = isText(json?.detail) ? json.detail : "";
    const detail = first && `${first.toUpperCase()}${rest.join("")}.`;
    return [json?.message, json?.error, detail].find(isText);
}

function parse(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

function pause(milliseconds, signal) {
    return new Promise((resolve, reject) => {
        signal.throwIfAborted();
        const end = () => {
            clearTimeout(timer);
            reject(signal.reason);
        };
        const timer = setTimeout(() => {
            signal.removeEventListener("abort", end);
            resolve();
        }, milliseconds);
        signal.addEventListener("abort", end, { once: true });
    });
}
