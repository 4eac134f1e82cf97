// Asks the verification service for a contract and follows what becomes of it. Knows no page.

/**
 * @typedef {object} Outcome
 * @property {'exact' | 'partial'} [match] how the code matched; absent when it did not
 * @property {boolean} [isOld] it was verified before
 * @property {string} [reason] why it was not verified
 *
 * @typedef {object} Order
 * @property {import('./files.js').Contract} contract
 * @property {string} address
 * @property {number} chainId
 */

// How long to wait before the job is asked for, from the first time to the last.
const PAUSES_MS = [500, 1000, 1500, 2000, 3000];
const PATIENCE_MS = 15 * 60 * 1000;
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
    const answer = await (contract.metadata
        ? post(`v2/verify/metadata/${chainId}/${address}`, {
              metadata: contract.metadata,
              sources: contract.sources,
          })
        : post(`v2/verify/${chainId}/${address}`, {
              stdJsonInput: contract.input,
              compilerVersion: contract.compilerVersion,
              contractIdentifier: `${contract.path}:${contract.name}`,
          }));
    if (answer.status === 404 && answer.json?.customCode === undefined && !answer.isProblem) {
        tell("Compiling and comparing…");
        return verifyByFirst();
    }
    if (answer.json?.customCode === "already_verified") {
        return { isOld: true, ...(await lookUp()) };
    }
    const id = answer.json?.verificationId;
    if (answer.status !== 202 || typeof id !== "string") {
        return { reason: reasonOf(answer) };
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
                return { reason: reasonOf(answer) };
            }
        }
        return { reason: "The verification takes very long. It goes on; look again later." };
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
        const files = contract.metadata
            ? { "metadata.json": contract.fileText, ...contract.sources }
            : { "build-info.json": contract.fileText };
        const order = { address, chain: String(chainId), files };
        let answer = await post("verify", order);
        const choices = answer.json?.contractsToChoose;
        if (Array.isArray(choices)) {
            const index = choices.findIndex(
                ({ name, path }) => name === contract.name && path === contract.path,
            );
            if (index >= 0)
                answer = await post("verify", { ...order, chosenContract: String(index) });
        }
        const [result] =
            answer.status === 200 && Array.isArray(answer.json?.result) ? answer.json.result : [];
        return ["perfect", "partial"].includes(result?.status)
            ? { match: result.status === "perfect" ? "exact" : "partial" }
            : { reason: textOf(result) ?? reasonOf(answer) };
    }

    function post(path, body) {
        return ask("POST", path, JSON.stringify(body));
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

/** The upstream's own words, or at least what happened. */
function reasonOf({ status, json }) {
    const text = textOf(json);
    if (text !== undefined) return text;
    return status === 0
        ? "The service cannot be reached, or the connection broke off."
        : `The verification service answered with status ${status} and no reason.`;
}

function textOf(json) {
    const texts = [json?.message, json?.error, json?.detail];
    return texts.find((text) => typeof text === "string" && text !== "");
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
