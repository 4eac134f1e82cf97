// Submits a contract to the verification service and polls the job. Has no access to the page.

import { qualifiedName } from "./files.js";

/**
 * @typedef {object} Outcome
 * @property {'exact' | 'partial'} [match] the kind of match; absent without a match
 * @property {boolean} [isAlreadyVerified] true if the contract was verified earlier
 * @property {boolean} [isUnknown] true if the verification may still succeed or have succeeded
 * @property {string} [reason] why it was not verified, or why the outcome is unknown
 *
 * @typedef {object} VerificationRequest
 * @property {import('./files.js').Contract} contract
 * @property {string} address
 * @property {number} chainId
 */

// Delays before each poll of the job. The last one repeats.
const POLL_DELAYS_MS = [500, 1000, 1500, 2000, 3000];
// Time after which the job is no longer polled.
const TIMEOUT_MS = 15 * 60 * 1000;
// Request size limit of the verification service.
const MAX_BYTES = 30 * 1024 * 1024;
// Consecutive failures after which the job is no longer polled. The job itself may continue.
const MAX_FAILURES = 5;

/**
 * Verifies through the service at `base`, with its v2 API or, if it has none, its v1 API.
 *
 * @param {VerificationRequest} request
 * @param {{ base: URL, signal: AbortSignal, onStep: (step: string) => void }} options `onStep` receives progress texts
 * @returns {Promise<Outcome>}
 * @throws when `signal` aborts
 */
export async function verify(request, { base, signal, onStep }) {
    onStep("Sending files…");
    const { contract, address, chainId } = request;
    const { metadata, sources, input, compilerVersion } = contract;
    const response = await (input
        ? post(`v2/verify/${chainId}/${address}`, {
              stdJsonInput: input,
              compilerVersion,
              contractIdentifier: qualifiedName(contract),
          })
        : post(`v2/verify/metadata/${chainId}/${address}`, { metadata, sources }));
    if (response.status === 404 && response.json?.customCode === undefined && !response.isProblem) {
        return verifyWithV1();
    }
    if (response.json?.customCode === "already_verified") {
        return { isAlreadyVerified: true, ...(await lookUpMatch()) };
    }
    const id = response.json?.verificationId;
    if (response.status !== 202 || typeof id !== "string") {
        return errorOutcome(response);
    }
    onStep("Compiling and comparing…");
    return pollJob(id);

    async function pollJob(id) {
        const deadline = performance.now() + TIMEOUT_MS;
        let failures = 0;
        for (let attempt = 0; performance.now() < deadline; attempt += 1) {
            await pause(POLL_DELAYS_MS[Math.min(attempt, POLL_DELAYS_MS.length - 1)], signal);
            const response = await send("GET", `v2/verify/${encodeURIComponent(id)}`);
            if (response.json?.isJobCompleted === true) {
                return jobOutcome(response.json);
            }
            const isRunning = response.status === 200 && response.json?.isJobCompleted === false;
            failures = isRunning ? 0 : failures + 1;
            if (response.json?.customCode !== undefined || failures === MAX_FAILURES) {
                return { isUnknown: true, reason: errorReason(response) };
            }
        }
        return { isUnknown: true, reason: "The verification is taking longer than 15 minutes." };
    }

    async function jobOutcome({ contract, error }) {
        if (contract?.match) return { match: matchKind(contract.match) };
        if (error?.customCode === "already_verified") return { isAlreadyVerified: true, ...(await lookUpMatch()) };
        return { reason: messageFrom(error) ?? "The code at the address does not match the files." };
    }

    async function lookUpMatch() {
        const { json } = await send("GET", `v2/contract/${chainId}/${address}`);
        return json?.match ? { match: matchKind(json.match) } : {};
    }

    async function verifyWithV1() {
        if (!metadata) {
            const reason =
                "The verification service has only the v1 API, which does not accept a build-info without " +
                "compiler output. Choose the metadata and its sources.";
            return { reason };
        }
        onStep("Compiling and comparing…");
        const files = { "metadata.json": JSON.stringify(metadata), ...sources };
        const response = await post("verify", { address, chain: String(chainId), files });
        const [result] = Array.isArray(response.json?.result) ? response.json.result : [];
        if (response.status === 200 && ["perfect", "partial"].includes(result?.status)) {
            return { match: result.status === "perfect" ? "exact" : "partial" };
        }
        // The v1 API responds with 409 only if it has stored a partial match and the new match is no better.
        if (response.status === 409) return { isAlreadyVerified: true, match: "partial" };
        return messageFrom(result) === undefined ? errorOutcome(response) : { reason: messageFrom(result) };
    }

    async function post(path, body) {
        const text = JSON.stringify(body);
        if (new Blob([text]).size > MAX_BYTES) {
            return {
                json: {
                    message: "The sources are too large: the verification service accepts at most 30 MiB.",
                },
            };
        }
        return send("POST", path, text);
    }

    async function send(method, path, body) {
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

function matchKind(match) {
    return match === "exact_match" ? "exact" : "partial";
}

/**
 * Returns the outcome of an error response to a submission. It is unknown in two cases: the upstream sent a 429, as
 * both API versions do while the contract is being verified, or the upstream's response was lost on the way.
 */
function errorOutcome(response) {
    const { status, isProblem, json } = response;
    const isLost = status === 0 || status === 502 || status === 504 || status >= 520;
    const isUnknown = isLost ? isProblem || messageFrom(json) === undefined : status === 429 && !isProblem;
    return { ...(isUnknown && { isUnknown }), reason: errorReason(response) };
}

/** Returns the response's message, or a description of the failure. */
function errorReason({ status, json }) {
    const text = messageFrom(json);
    if (text !== undefined) return text;
    return status === 0
        ? "The service is unreachable, or the connection was lost."
        : `The verification service responded with status ${status} and gave no reason.`;
}

function messageFrom(json) {
    const isText = (text) => typeof text === "string" && text !== "";
    // Problem details of this service begin in lower case and have no full stop.
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
        const end = () => {
            clearTimeout(timer);
            // Older browsers have no reason.
            reject(signal.reason ?? new Error("aborted"));
        };
        const timer = setTimeout(() => {
            signal.removeEventListener("abort", end);
            resolve();
        }, milliseconds);
        if (signal.aborted) end();
        signal.addEventListener("abort", end, { once: true });
    });
}
