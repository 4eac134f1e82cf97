// The form: shows what files.js finds of the files, and what submit.js reports of the verification.

import { addressProblem, examine, isJson, label } from "./files.js";
import { verify } from "./submit.js";

// A build-info has the compiler's output in it, which is not sent.
const MAX_BYTES = 256 * 1024 * 1024;
// A folder dropped by mistake may hold any number of files.
const MAX_FILES = 1000;

// Hint for an outcome that is still open.
const OPEN = "Verify again to see whether it was verified.";

const at = Object.fromEntries(
    [...document.querySelectorAll("[id]")].map((node) => [node.id, node]),
);
/** @type {{ name: string, bytes: Uint8Array }[]} */
let chosen = [];
/** @type {import('./files.js').Contract[]} */
let contracts = [];
/** @type {AbortController | undefined} */
let waiting;

at.picker.addEventListener("change", async () => {
    const files = [...at.picker.files];
    // Or the same file could not be chosen again once it has changed.
    at.picker.value = "";
    await add(files.map((file) => ({ name: file.name, file })));
});

// A file that misses its place must not take the page away.
addEventListener("dragover", (event) => {
    event.preventDefault();
    at.drop.classList.add("over");
});
addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) at.drop.classList.remove("over");
});
addEventListener("drop", async (event) => {
    event.preventDefault();
    at.drop.classList.remove("over");
    // They are gone from the event as soon as this function waits. What is not from a disk has no entry.
    const items = [...event.dataTransfer.items]
        .filter(({ kind }) => kind === "file")
        .map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
    const found = [];
    for (const { entry, file } of items) {
        if (entry) await collect(entry, entry.name, found);
        else found.push({ name: file.name, file });
    }
    if (items.length > 0) await add(found);
});

at.address.addEventListener("input", () => complain(at.address, at["address-problem"]));
at.chain.addEventListener("change", () => complain(at.chain, at["chain-problem"]));
at["chains-again"].addEventListener("click", async () => {
    await loadChains();
    // The button is gone, and the keyboard would be with it.
    if (at["chains-again"].hidden) at.chain.focus();
});
at.stop.addEventListener("click", () => waiting?.abort());
at.again.addEventListener("click", () => {
    chosen = [];
    at.address.value = "";
    show();
    at.picker.focus();
});
// What was found of other details would not be true of these.
at.form.addEventListener("input", () => (at.outcome.hidden = true));
at.form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
});

loadChains();

/** Adds the file `entry`, or those below it that may be of use. */
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

/** @param {{ name: string, file?: File }[]} files those without a `file` cannot be read */
async function add(files) {
    const problems = [];
    const size =
        sum(chosen.map(({ bytes }) => bytes.length)) +
        sum(files.map(({ file }) => file?.size ?? 0));
    if (chosen.length + files.length > MAX_FILES) {
        problems.push(
            `These are more than ${MAX_FILES} files. Choose only what belongs to the contract.`,
        );
    } else if (size > MAX_BYTES) {
        problems.push("These are more than 256 MiB. Choose only what belongs to the contract.");
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

/** Shows what there is of files, and the details as soon as something fits. */
function show(further = []) {
    const found = examine(chosen);
    contracts = found.contracts;
    at.outcome.hidden = true;
    at.files.replaceChildren(
        ...chosen.map((one) => {
            const remove = element("button", { type: "button", className: "quiet" }, "Remove");
            remove.setAttribute("aria-label", `Remove ${one.name}`);
            remove.addEventListener("click", () => {
                chosen = chosen.filter((other) => other !== one);
                show();
                at.picker.focus();
            });
            const kind = found.kinds.get(one);
            const what = element("span", { className: "what" }, kind ? ` ${kind}` : "");
            return element("li", {}, element("span", {}, one.name, what), remove);
        }),
    );
    const problems = [...further, ...found.problems];
    const notices = [];
    if (problems.length > 0) {
        notices.push(notice("bad", "Something does not fit", problems));
    }
    if (contracts.length > 0) {
        const what = contracts.length === 1 ? label(contracts[0]) : `${contracts.length} contracts`;
        notices.push(notice("good", `The files fit together: ${what}`, []));
    }
    if (found.notes.length > 0) {
        notices.push(notice("", "Good to know", found.notes));
    }
    at.findings.replaceChildren(...notices);

    const before = at.contract.selectedOptions[0]?.textContent;
    const isOnlyFile = new Set(contracts.map(({ file }) => file)).size < 2;
    at.contract.replaceChildren(
        ...contracts.map((contract, index) => {
            const text = isOnlyFile ? label(contract) : `${label(contract)} (${contract.file})`;
            return element("option", { value: String(index), selected: text === before }, text);
        }),
    );
    at["contract-field"].hidden = contracts.length < 2;
    at.details.hidden = contracts.length === 0;
}

async function loadChains() {
    try {
        const response = await fetch(new URL("v1/chains", document.baseURI));
        if (!response.ok) throw new Error(`status ${response.status}`);
        const chains = await response.json();
        const options = chains.map(({ chain_name, chain_id }) =>
            element("option", { value: String(chain_id) }, `${chain_name} (${chain_id})`),
        );
        at.chain.replaceChildren(...options);
        complain(at.chain, at["chain-problem"]);
        at["chains-again"].hidden = true;
    } catch {
        complain(at.chain, at["chain-problem"], "The chains cannot be loaded from the service.");
        at["chains-again"].hidden = false;
    }
}

async function submit() {
    if (waiting) return;
    const address = at.address.value.trim();
    const wrong = addressProblem(address);
    complain(at.address, at["address-problem"], wrong);
    if (wrong) return at.address.focus();
    if (at.chain.value === "") {
        if (at["chain-problem"].hidden) {
            complain(at.chain, at["chain-problem"], "The chains are not loaded yet.");
        }
        return at.chain.focus();
    }
    const order = {
        contract: contracts[Number(at.contract.value)],
        address,
        chainId: Number(at.chain.value),
        chain: at.chain.selectedOptions[0].textContent,
    };
    waiting = new AbortController();
    const stopClock = startClock();
    // Not `disabled`, which would take the keyboard away from where it is.
    at.verify.setAttribute("aria-disabled", "true");
    at.outcome.hidden = true;
    at.waiting.hidden = false;
    at.progress.scrollIntoView({ block: "nearest" });
    try {
        const way = {
            base: new URL("verification/", document.baseURI),
            signal: waiting.signal,
            tell: (step) => (at.step.textContent = step),
        };
        conclude(await verify(order, way), order);
    } catch (error) {
        if (waiting.signal.aborted) {
            end("", "Not waiting any more", OPEN);
        } else {
            end("bad", "Verification failed", `This page cannot go on: ${error.message}`);
        }
    } finally {
        stopClock();
        waiting = undefined;
        at.step.textContent = "";
        at.waiting.hidden = true;
        at.verify.removeAttribute("aria-disabled");
    }
}

function conclude({ match, isOld, isOpen, reason }, { contract, address, chain }) {
    const how = {
        exact: ": exact match. The code is the same to the last byte, metadata included.",
        partial: ": match. The code does the same; comments, names or file paths differ.",
    };
    const where = `${address} on ${chain}`;
    if (isOld) {
        end("good", "Already verified", `${where} was verified before${how[match] ?? "."}`);
    } else if (match) {
        end("good", "Verification successful!", `${label(contract)} at ${where}${how[match]}`);
    } else if (isOpen) {
        end("", "Not known yet", `${reason}\n${OPEN}`);
    } else {
        end("bad", "Verification failed", reason);
    }
    at.again.hidden = !isOld && match === undefined;
}

function end(kind, title, text) {
    at["outcome-notice"].className = `notice ${kind}`;
    at["outcome-title"].textContent = title;
    at["outcome-text"].textContent = text;
    at.again.hidden = true;
    at.outcome.hidden = false;
    at["outcome-title"].focus();
}

/** Says what is wrong with a field, or that nothing is. */
function complain(field, place, problem) {
    field.setAttribute("aria-invalid", String(problem !== undefined));
    place.textContent = problem ?? "";
    place.hidden = problem === undefined;
}

/** Shows for how long something has been going on, until the returned function is called. */
function startClock() {
    const start = performance.now();
    const tick = () =>
        (at.elapsed.textContent = `${Math.round((performance.now() - start) / 1000)} s`);
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
