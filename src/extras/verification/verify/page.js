// The verification form: shows the findings of files.js and the outcome of submit.js.

import { addressProblem, examine, isJson, qualifiedName } from "./files.js";
import { verify } from "./submit.js";

// Larger than the upstream's limit: a build-info contains compiler output, which is not sent.
const MAX_BYTES = 256 * 1024 * 1024;
// Maximum number of files: a folder that is dropped by mistake may contain any number.
const MAX_FILES = 1000;

// Hint that is shown with an unknown outcome.
const CHECK_AGAIN = "Verify again to check the result.";

const nodes = Object.fromEntries(
    [...document.querySelectorAll("[id]")].map((node) => [node.id, node]),
);
/** @type {{ name: string, bytes: Uint8Array }[]} */
let chosen = [];
/** @type {import('./files.js').Contract[]} */
let contracts = [];
/** @type {AbortController | undefined} */
let pending;

nodes.picker.addEventListener("change", async () => {
    const files = [...nodes.picker.files];
    // Without a reset, choosing the same file again after a change would not fire an event.
    nodes.picker.value = "";
    await addFiles(files.map((file) => ({ name: file.name, file })));
});

// By default, a file dropped beside the drop zone would replace the page.
addEventListener("dragover", (event) => {
    event.preventDefault();
    nodes.drop.classList.add("over");
});
addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) nodes.drop.classList.remove("over");
});
addEventListener("drop", async (event) => {
    event.preventDefault();
    nodes.drop.classList.remove("over");
    // The event loses its items at the first `await`, so they are copied first. A file that is not on a disk has no
    // entry.
    const items = [...event.dataTransfer.items]
        .filter(({ kind }) => kind === "file")
        .map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
    const found = [];
    for (const { entry, file } of items) {
        if (entry) await collect(entry, entry.name, found);
        else found.push({ name: file.name, file });
    }
    if (items.length > 0) await addFiles(found);
});

nodes.address.addEventListener("input", () => setProblem(nodes.address, nodes["address-problem"]));
nodes.chain.addEventListener("change", () => setProblem(nodes.chain, nodes["chain-problem"]));
nodes["chains-again"].addEventListener("click", async () => {
    await loadChains();
    // The button is hidden now, so the focus moves to the list.
    if (nodes["chains-again"].hidden) nodes.chain.focus();
});
nodes.stop.addEventListener("click", () => pending?.abort());
nodes.again.addEventListener("click", () => {
    chosen = [];
    nodes.address.value = "";
    show();
    nodes.picker.focus();
});
// After a change of the details, a displayed outcome no longer applies.
nodes.form.addEventListener("input", () => (nodes.outcome.hidden = true));
nodes.form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
});

loadChains();

/** Adds the file `entry` to `found`, or the .sol and .json files of the folder `entry`. */
async function collect(entry, name, found) {
    if (found.length > MAX_FILES) return;
    if (entry.isFile) {
        if (name !== entry.name && !/\.(sol|json)$/i.test(name)) return;
        const file = await new Promise((resolve, reject) => entry.file(resolve, reject)).catch(
            () => undefined,
        );
        found.push({ name, file });
        return;
    }
    const reader = entry.createReader();
    for (;;) {
        const entries = await new Promise((resolve, reject) =>
            reader.readEntries(resolve, reject),
        ).catch(() => []);
        if (entries.length === 0) return;
        for (const entry of entries) await collect(entry, `${name}/${entry.name}`, found);
    }
}

/**
 * Reads the files and adds them to the chosen ones.
 *
 * @param {{ name: string, file?: File }[]} files a file that cannot be read has no `file`
 */
async function addFiles(files) {
    const problems = [];
    const size =
        sum(chosen.map(({ bytes }) => bytes.length)) +
        sum(files.map(({ file }) => file?.size ?? 0));
    if (chosen.length + files.length > MAX_FILES) {
        problems.push(
            `Too many files: at most ${MAX_FILES}. Choose only the files of the contract.`,
        );
    } else if (size > MAX_BYTES) {
        problems.push("Files too large: at most 256 MiB in total. Choose only the files of the contract.");
    } else {
        for (const { name, file } of files) {
            const bytes = await file?.arrayBuffer().then(
                (buffer) => new Uint8Array(buffer),
                () => undefined,
            );
            if (bytes === undefined) {
                problems.push(`${name} cannot be read.`);
                continue;
            }
            const isSame = (one) =>
                one.name === name && (isJson(name) || isEqual(one.bytes, bytes));
            chosen = [...chosen.filter((one) => !isSame(one)), { name, bytes }];
        }
    }
    show(problems);
}

/** Shows the chosen files and their findings, and the details if a contract was found. */
function show(readProblems = []) {
    const found = examine(chosen);
    contracts = found.contracts;
    nodes.outcome.hidden = true;
    nodes.files.replaceChildren(
        ...chosen.map((one) => {
            const remove = element("button", { type: "button", className: "quiet" }, "Remove");
            remove.setAttribute("aria-label", `Remove ${one.name}`);
            remove.addEventListener("click", () => {
                chosen = chosen.filter((other) => other !== one);
                show();
                nodes.picker.focus();
            });
            const kind = found.kinds.get(one);
            const suffix = element("span", { className: "what" }, kind ? ` ${kind}` : "");
            return element("li", {}, element("span", {}, one.name, suffix), remove);
        }),
    );
    const problems = [...readProblems, ...found.problems];
    const notices = [];
    if (problems.length > 0) {
        notices.push(notice("bad", "Problems", problems));
    }
    if (contracts.length > 0) {
        const names = contracts.length === 1 ? qualifiedName(contracts[0]) : `${contracts.length} contracts`;
        notices.push(notice("good", `Ready to verify: ${names}`, []));
    }
    if (found.notes.length > 0) {
        notices.push(notice("", "Notes", found.notes));
    }
    nodes.findings.replaceChildren(...notices);

    const selected = nodes.contract.selectedOptions[0]?.textContent;
    const isOnlyFile = new Set(contracts.map(({ file }) => file)).size < 2;
    nodes.contract.replaceChildren(
        ...contracts.map((contract, index) => {
            const text = isOnlyFile ? qualifiedName(contract) : `${qualifiedName(contract)} (${contract.file})`;
            return element("option", { value: String(index), selected: text === selected }, text);
        }),
    );
    nodes["contract-field"].hidden = contracts.length < 2;
    nodes.details.hidden = contracts.length === 0;
}

async function loadChains() {
    try {
        const response = await fetch(new URL("v1/chains", document.baseURI));
        if (!response.ok) throw new Error(`status ${response.status}`);
        const chains = await response.json();
        const options = chains.map(({ chain_name, chain_id }) =>
            element("option", { value: String(chain_id) }, `${chain_name} (${chain_id})`),
        );
        nodes.chain.replaceChildren(...options);
        setProblem(nodes.chain, nodes["chain-problem"]);
        nodes["chains-again"].hidden = true;
    } catch {
        setProblem(nodes.chain, nodes["chain-problem"], "The list of chains could not be loaded.");
        nodes["chains-again"].hidden = false;
    }
}

async function submit() {
    if (pending) return;
    const address = nodes.address.value.trim();
    const problem = addressProblem(address);
    setProblem(nodes.address, nodes["address-problem"], problem);
    if (problem) return nodes.address.focus();
    if (nodes.chain.value === "") {
        if (nodes["chain-problem"].hidden) {
            setProblem(nodes.chain, nodes["chain-problem"], "The list of chains is not loaded yet.");
        }
        return nodes.chain.focus();
    }
    const request = {
        contract: contracts[Number(nodes.contract.value)],
        address,
        chainId: Number(nodes.chain.value),
        chain: nodes.chain.selectedOptions[0].textContent,
    };
    pending = new AbortController();
    const stopClock = startClock();
    // The attribute `disabled` would remove the focus from the button.
    nodes.verify.setAttribute("aria-disabled", "true");
    nodes.outcome.hidden = true;
    nodes.waiting.hidden = false;
    nodes.progress.scrollIntoView({ block: "nearest" });
    try {
        const options = {
            base: new URL("verification/", document.baseURI),
            signal: pending.signal,
            onStep: (step) => (nodes.step.textContent = step),
        };
        showResult(await verify(request, options), request);
    } catch (error) {
        if (pending.signal.aborted) {
            showOutcome("", "Stopped waiting", CHECK_AGAIN);
        } else {
            showOutcome("bad", "Verification failed", `Unexpected error: ${error.message}`);
        }
    } finally {
        stopClock();
        pending = undefined;
        nodes.step.textContent = "";
        nodes.waiting.hidden = true;
        nodes.verify.removeAttribute("aria-disabled");
    }
}

function showResult({ match, isAlreadyVerified, isUnknown, reason }, { contract, address, chain }) {
    const matchTexts = {
        exact: ": exact match. The bytecode is identical, including the metadata hash.",
        partial:
            ": match. The bytecode is identical except for the metadata hash: comments, names or file paths " +
            "differ.",
    };
    const where = `${address} on ${chain}`;
    if (isAlreadyVerified) {
        showOutcome("good", "Already verified", `${where} was already verified${matchTexts[match] ?? "."}`);
    } else if (match) {
        const text = `${qualifiedName(contract)} at ${where}${matchTexts[match]}`;
        showOutcome("good", "Verification successful", text);
    } else if (isUnknown) {
        showOutcome("", "Result unknown", `${reason}\n${CHECK_AGAIN}`);
    } else {
        showOutcome("bad", "Verification failed", reason);
    }
    nodes.again.hidden = !isAlreadyVerified && match === undefined;
}

function showOutcome(kind, title, text) {
    nodes["outcome-notice"].className = `notice ${kind}`;
    nodes["outcome-title"].textContent = title;
    nodes["outcome-text"].textContent = text;
    nodes.again.hidden = true;
    nodes.outcome.hidden = false;
    nodes["outcome-title"].focus();
}

/** Marks a field as invalid and shows the problem below it. Without a `problem`, clears both. */
function setProblem(field, node, problem) {
    field.setAttribute("aria-invalid", String(problem !== undefined));
    node.textContent = problem ?? "";
    node.hidden = problem === undefined;
}

/** Shows the elapsed time. Returns a function that stops the clock. */
function startClock() {
    const start = performance.now();
    const tick = () =>
        (nodes.elapsed.textContent = `${Math.round((performance.now() - start) / 1000)} s`);
    tick();
    const timer = setInterval(tick, 1000);
    return () => clearInterval(timer);
}

function notice(kind, title, texts) {
    const list = element("ul", {}, ...texts.map((text) => element("li", {}, text)));
    const parts = [
        element("p", { className: "title" }, title),
        ...(texts.length > 0 ? [list] : []),
    ];
    return element("div", { className: `notice ${kind}` }, ...parts);
}

function element(name, properties, ...children) {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
}

function sum(numbers) {
    return numbers.reduce((total, number) => total + number, 0);
}

function isEqual(one, other) {
    return one.length === other.length && one.every((byte, index) => byte === other[index]);
}
