// Tests of the /verify form in Chromium: `node verify-form.mjs '{"services":{…},"nodes":{…},"shots":…}'`.
//
// `services` are service URLs without a trailing slash: `plain`; `below`, the same below a base path; `first`, with
// an upstream that has only the v1 API; `slow`, with an upstream whose jobs never finish. All serve the chains of `nodes` (anvils by chain id). The tests save a screenshot of each state, wide and
// narrow, in both colour schemes in the folder `shots`.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";

import { getAddress, hexlify, randomBytes } from "ethers";

import { DEADLINE_MS, becomes, checkLayout, focused, launch, makeOld, visit } from "./browser.mjs";
import { checks } from "./dashboard/checks.mjs";

const { services, nodes, shots } = JSON.parse(process.argv[2]);

const fixture = new URL("../fixtures/verification/build-info.json", import.meta.url);
const BUILD_INFO = readFileSync(fixture, "utf8");
const { input, output } = JSON.parse(BUILD_INFO);
const sourceCode = (name) => input.sources[`contracts/${name}.sol`].content;
const compilerOutput = (name) => output.contracts[`contracts/${name}.sol`][name];

const file = (name, content) => ({ name, mimeType: "", buffer: Buffer.from(content) });
const METADATA = file("Counter_meta.json", compilerOutput("Counter").metadata);
const SOURCE = file("Counter.sol", sourceCode("Counter"));

let browser;
const disk = mkdtempSync(join(tmpdir(), "verify-form-"));
before(async () => {
    browser = await launch();
});
after(async () => {
    await browser?.close();
    rmSync(disk, { recursive: true });
});

let deployed = Promise.resolve();

// Calls the chain's node and returns the result.
async function call(chain, method, ...params) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const headers = { "content-type": "application/json" };
    const reply = await (await fetch(nodes[chain], { method: "POST", headers, body })).json();
    assert.equal(reply.error, undefined, `${method}: ${JSON.stringify(reply.error)}`);
    return reply.result;
}

// Deploys one of the contracts and returns its address. One at a time: anvil gives transactions of one account that arrive
// together the same nonce.
function deploy(name, chain = 2020) {
    deployed = deployed.catch(() => {}).then(() => deployNow(name, chain));
    return deployed;
}

async function deployNow(name, chain) {
    const [from] = await call(chain, "eth_accounts");
    const argument = name === "Counter" ? "0".repeat(64) : "";
    const data = `0x${compilerOutput(name).evm.bytecode.object}${argument}`;
    const hash = await call(chain, "eth_sendTransaction", { from, data, gas: "0x100000" });
    for (const deadline = Date.now() + DEADLINE_MS; Date.now() < deadline; ) {
        const receipt = await call(chain, "eth_getTransactionReceipt", hash);
        if (receipt) return getAddress(receipt.contractAddress);
    }
    return assert.fail(`${hash} is not mined`);
}

// Sets `code` at a random address and returns the address.
async function placeCode(code) {
    const address = getAddress(hexlify(randomBytes(20)));
    await call(2020, "anvil_setCode", address, code);
    return address;
}

const scenarios = [];
function scenario(name, run, { service = "plain", ...options } = {}) {
    const check = () =>
        visit(browser, `${services[service]}/verify`, options, (page, seen) => run(new Form(page), seen));
    scenarios.push([name, check]);
}

class Form {
    constructor(page) {
        this.page = page;
        this.picker = page.getByLabel("Drag files or folders here, or choose files");
        this.address = page.getByRole("textbox", { name: "Contract address" });
        this.chain = page.getByRole("combobox", { name: "Chain" });
        this.contract = page.getByRole("combobox", { name: "Contract" });
        this.verifyButton = page.getByRole("button", { name: "Verify", exact: true });
        this.findings = page.locator("#findings");
        this.outcome = page.getByRole("region").filter({ has: page.locator("#outcome-title") });
    }

    async choose(...files) {
        const chooser = this.page.waitForEvent("filechooser");
        await this.page.getByText("choose files").click();
        await (await chooser).setFiles(files);
    }

    // Drops files and folders from the disk onto the page.
    async drop(...paths) {
        const { x, y, width, height } = await this.page.locator("#drop").boundingBox();
        const devtools = await this.page.context().newCDPSession(this.page);
        const data = { items: [], files: paths, dragOperationsMask: 1 };
        for (const type of ["dragEnter", "dragOver", "drop"]) {
            const at = { x: x + width / 2, y: y + height / 2 };
            await devtools.send("Input.dispatchDragEvent", { type, ...at, data });
        }
    }

    async submit(address, { contract, chain = "ronin (2020)" } = {}) {
        await this.verifyButton.waitFor();
        if (contract) await this.contract.selectOption(contract);
        await this.address.fill(address);
        await this.chain.selectOption(chain);
        await this.verifyButton.click();
    }

    // Waits for the outcome and checks its title, text and focus.
    async waitForOutcome(title, text) {
        await this.page.getByRole("heading", { name: title, exact: true }).waitFor();
        assert.equal(await this.page.locator("#outcome-text").textContent(), text);
        const focused = await this.page.evaluate(() => document.activeElement.textContent);
        assert.equal(focused, title);
        assert.equal(await this.page.getByText("Stop waiting").isVisible(), false);
    }

    // Waits for these findings, each with a title and texts.
    async waitForFindings(...expected) {
        const read = () => JSON.stringify([...document.querySelector("#findings").children].map((notice) =>
            [...notice.querySelectorAll("p, li")].map(({ textContent }) => textContent)));
        await becomes(this.page, read, JSON.stringify(expected));
    }

    async hasDetails(expected) {
        assert.equal(await this.page.getByRole("heading", { name: "Details" }).isVisible(), expected);
        assert.equal(await this.address.isVisible(), expected);
        assert.equal(await this.verifyButton.isVisible(), expected);
    }

    // Checks this state in both colour schemes and all widths.
    async checkLayout(name) {
        await checkLayout(this.page, name, { shots, widths: [320, 390, 1280], dark: [390], unseen: [320] });
        await checks(shots).accessible(this, name);
    }
}

// Writes files to a new folder and returns its path.
function onDisk(files) {
    const folder = mkdtempSync(join(disk, "files-"));
    for (const [path, content] of Object.entries(files)) {
        mkdirSync(dirname(join(folder, path)), { recursive: true });
        writeFileSync(join(folder, path), content);
    }
    return folder;
}

const ready = (names) => [`Ready to verify: ${names}`];
const misfit = (...problems) => ["Problems", ...problems];
const note = (...notes) => ["Notes", ...notes];
const COUNTER = "contracts/Counter.sol:Counter";
const SWITCH = "contracts/Switch.sol:Switch";
const EXACT = ": exact match. The bytecode is identical, including the metadata hash.";
const PARTIAL = ": match. The bytecode is identical except for the metadata hash: comments, names or file paths " +
    "differ.";
const CHECK_AGAIN = "Verify again to check the result.";

scenario("chosen metadata and source verify successfully", async (form, { requests }) => {
    const address = await deploy("Counter");
    await form.hasDetails(false);
    await form.waitForFindings();
    await form.checkLayout("empty");
    await form.choose(METADATA, SOURCE);
    await form.waitForFindings(ready(COUNTER));
    await form.hasDetails(true);
    assert.equal(await form.contract.isVisible(), false);
    await form.checkLayout("fits");
    await form.submit(address);
    await form.waitForOutcome("Verification successful", `${COUNTER} at ${address} on ronin (2020)${EXACT}`);
    await form.checkLayout("success");
    const posts = requests.filter((request) => request.method() === "POST");
    const path = `/verification/v2/verify/metadata/2020/${address}`;
    assert.deepEqual(posts.map((request) => new URL(request.url()).pathname), [path]);
});

scenario("a dropped build-info verifies the selected contract", async (form) => {
    const address = await deploy("Switch");
    await form.drop(join(onDisk({ "build-info.json": BUILD_INFO }), "build-info.json"));
    await form.waitForFindings(ready("2 contracts"));
    const offered = await form.contract.getByRole("option").allTextContents();
    assert.deepEqual(offered, [COUNTER, SWITCH]);
    await form.checkLayout("several-contracts");
    await form.submit(address, { contract: SWITCH });
    await form.waitForOutcome("Verification successful", `${SWITCH} at ${address} on ronin (2020)${EXACT}`);
}, { service: "below", init: makeOld });

scenario("a dropped folder is searched for usable files", async (form) => {
    const address = await deploy("Counter");
    const folder = onDisk({
        "artifacts/build-info/1.json": BUILD_INFO,
        "artifacts/contracts/Counter.sol/Counter.dbg.json": "{\"_format\":\"hh-sol-dbg-1\"}",
        "artifacts/contracts/Counter.sol/Counter.json": "{\"_format\":\"hh-sol-artifact-1\"}",
        "artifacts/logo.png": "\u0000",
    });
    await form.drop(join(folder, "artifacts"));
    const unneeded = ["artifacts/contracts/Counter.sol/Counter.dbg.json",
        "artifacts/contracts/Counter.sol/Counter.json"].join(", ");
    await form.waitForFindings(ready("2 contracts"), note(`Not needed: ${unneeded}.`));
    await form.checkLayout("folder");
    await form.submit(address, { contract: COUNTER });
    await form.waitForOutcome("Verification successful", `${COUNTER} at ${address} on ronin (2020)${EXACT}`);
});

scenario("files that are not on disk can be dropped too", async (form) => {
    await form.page.evaluate(([name, text]) => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([text], name));
        dataTransfer.items.add("some text", "text/plain");
        const event = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
        document.querySelector("#drop").dispatchEvent(event);
    }, ["build-info.json", BUILD_INFO]);
    await form.waitForFindings(ready("2 contracts"));
});

scenario("a v1 upstream verifies one contract of a build-info", async (form) => {
    const address = await deploy("Switch");
    await form.choose(file("build-info.json", BUILD_INFO));
    await form.submit(await placeCode("0x00"), { contract: SWITCH });
    await form.waitForOutcome("Verification failed",
        "The recompiled bytecode length doesn't match the onchain bytecode length.");
    await form.submit(address, { contract: SWITCH });
    await form.waitForOutcome("Verification successful", `${SWITCH} at ${address} on ronin (2020)${EXACT}`);
}, { service: "first" });

// Sets Counter's code with another metadata hash at a random address and returns the address.
async function placeInexactCode() {
    const code = `0x${compilerOutput("Counter").evm.deployedBytecode.object}`;
    const at = code.length - 30;
    return placeCode(`${code.slice(0, at)}${code[at] === "0" ? "1" : "0"}${code.slice(at + 1)}`);
}

scenario("a partial match is labelled, and already verified the second time", async (form) => {
    const address = await placeInexactCode();
    await form.choose(METADATA, SOURCE);
    await form.submit(address);
    await form.waitForOutcome("Verification successful", `${COUNTER} at ${address} on ronin (2020)${PARTIAL}`);
    await form.verifyButton.click();
    await form.waitForOutcome("Already verified", `${address} on ronin (2020) was already verified${PARTIAL}`);
    await form.checkLayout("already-verified");
});

scenario("a missing source is named, and adding it enables the form", async (form) => {
    await form.choose(METADATA);
    await form.waitForFindings(misfit("contracts/Counter.sol is missing: add this file."));
    await form.hasDetails(false);
    await form.checkLayout("missing-source");
    await form.choose(SOURCE);
    await form.waitForFindings(ready(COUNTER));
    await form.hasDetails(true);
    await form.page.getByRole("button", { name: "Remove Counter.sol" }).click();
    await form.waitForFindings(misfit("contracts/Counter.sol is missing: add this file."));
    await form.hasDetails(false);
    assert.equal(await form.page.evaluate(() => document.activeElement.id), "picker");
});

scenario("file names are never rendered as HTML", async (form) => {
    const name = "<img src=x onerror=alert(1)>.sol";
    await form.choose(file(name, "contract X {}"), file("<b>.json", "{"), METADATA);
    await form.waitForFindings(misfit("contracts/Counter.sol is missing: add this file.", "<b>.json is not JSON."),
        note(`Not listed in the metadata, so not needed: ${name}.`));
    assert.equal(await form.page.locator("main :is(img, li b)").count(), 0);
    const listed = await form.page.locator("#files li > span").allTextContents();
    assert.deepEqual(listed, [name, "<b>.json", "Counter_meta.json metadata"]);
    assert.equal(await form.page.getByRole("button", { name: `Remove ${name}` }).count(), 1);
});

scenario("too many or too large files are refused before they are read", async (form) => {
    await form.choose(METADATA, SOURCE);
    await form.waitForFindings(ready(COUNTER));
    const large = onDisk({ "large.sol": "" });
    truncateSync(join(large, "large.sol"), 256 * 1024 * 1024);
    await form.drop(join(large, "large.sol"));
    await form.waitForFindings(
        misfit("Files too large: at most 256 MiB in total. Choose only the files of the contract."), ready(COUNTER));
    const folder = onDisk(Object.fromEntries(
        Array.from({ length: 1001 }, (_, index) => [`src/${index}.sol`, ""])));
    await form.drop(join(folder, "src"));
    await form.waitForFindings(
        misfit("Too many files: at most 1000. Choose only the files of the contract."), ready(COUNTER));
    assert.equal(await form.page.locator("#files li").count(), 2);
});

scenario("an invalid address is refused in the page", async (form, { requests }) => {
    const address = await deploy("Counter");
    await form.choose(METADATA, SOURCE);
    const digit = [...address].findIndex((digit) => /[A-F]/.test(digit));
    const mistyped = address.slice(0, digit) + address[digit].toLowerCase() + address.slice(digit + 1);
    for (const [given, problem, name] of [
        ["", "The address is missing.", "no-address"],
        [address.slice(0, -1), "An address is 0x followed by 40 hexadecimal digits.", "bad-address"],
        [mistyped, "The address has a typo: its checksum (the case of its letters) does not match.", "bad-checksum"],
    ]) {
        await form.submit(given);
        const state = await form.address.evaluate((node) => ({
            isFocused: document.activeElement === node,
            isInvalid: node.getAttribute("aria-invalid"),
            description: document.getElementById(node.getAttribute("aria-describedby")).textContent,
        }));
        assert.deepEqual(state, { isFocused: true, isInvalid: "true", description: problem });
        assert.equal(await form.page.getByText(problem).isVisible(), true);
        await form.checkLayout(name);
    }
    await form.address.press("End");
    await form.address.press("Backspace");
    assert.equal(await form.address.getAttribute("aria-invalid"), "false");
    assert.deepEqual(requests.filter((request) => request.method() === "POST"), []);
    // A copied address may have spaces around it.
    await form.submit(` ${address.toLowerCase()} `);
    await form.waitForOutcome("Verification successful",
        `${COUNTER} at ${address.toLowerCase()} on ronin (2020)${EXACT}`);
});

scenario("after a success another contract can be verified", async (form) => {
    const [first, second] = [await deploy("Counter"), await deploy("Switch")];
    await form.choose(METADATA, SOURCE);
    await form.submit(first);
    await form.page.getByRole("button", { name: "Verify another contract" }).click();
    assert.equal(await form.page.evaluate(() => document.activeElement.id), "picker");
    await form.waitForFindings();
    await form.hasDetails(false);
    await form.choose(file("build-info.json", BUILD_INFO));
    await form.submit(second, { contract: SWITCH });
    await form.waitForOutcome("Verification successful", `${SWITCH} at ${second} on ronin (2020)${EXACT}`);
});

scenario("a long job shows progress, starts once, and can be left running", async (form, seen) => {
    const address = await deploy("Counter");
    await form.choose(METADATA, SOURCE);
    await form.submit(address);
    const step = form.page.locator("#step");
    assert.equal(await step.getAttribute("role"), "status");
    await becomes(form.page, () => document.querySelector("#step").textContent, "Compiling and comparing…");
    await form.page.getByRole("progressbar", { name: "Verification" }).waitFor();
    assert.equal(await form.verifyButton.getAttribute("aria-disabled"), "true");
    await form.verifyButton.press("Enter");
    await form.address.press("Enter");
    await form.page.waitForResponse((response) => response.url().includes("/v2/verify/"));
    const posts = seen.requests.filter((request) => request.method() === "POST");
    assert.equal(posts.length, 1);
    await form.checkLayout("progress");
    await form.page.getByRole("button", { name: "Stop waiting" }).click();
    await form.waitForOutcome("Stopped waiting", CHECK_AGAIN);
    assert.equal(await step.textContent(), "");
    assert.equal(await form.verifyButton.getAttribute("aria-disabled"), null);
    await form.checkLayout("stopped");
    await form.verifyButton.click();
    const reason = `Contract ${address} on chain 2020 is already being verified`;
    await form.waitForOutcome("Result unknown", `${reason}\n${CHECK_AGAIN}`);
    await form.checkLayout("under-way");
}, { service: "slow" });

scenario("loading the chains can be retried", async (form) => {
    const { page } = form;
    let failures = 2;
    await page.route("**/v1/chains", (route) => (failures-- > 0 ? route.abort() : route.continue()));
    await page.reload();
    await form.choose(METADATA, SOURCE);
    const problem = page.getByText("The list of chains could not be loaded.");
    await problem.waitFor();
    await form.checkLayout("no-chains");
    await form.address.fill(await deploy("Counter"));
    await form.verifyButton.click();
    assert.equal(await page.evaluate(() => document.activeElement.id), "chain");
    assert.equal(await problem.isVisible(), true);
    const again = page.getByRole("button", { name: "Reload the list of chains" });
    const failed = page.waitForEvent("requestfailed");
    await again.press("Enter");
    await failed;
    assert.equal(await problem.isVisible(), true);
    await again.press("Enter");
    await becomes(page, () => document.activeElement.id, "chain");
    assert.equal(await problem.isVisible(), false);
    assert.equal(await form.chain.inputValue(), "2020");
    await form.verifyButton.click();
    await page.getByRole("heading", { name: "Verification successful" }).waitFor();
});

scenario("without JavaScript the page says that it needs it", async (form) => {
    const text = "This page needs JavaScript to check your files in the browser. You can also verify with Forge or " +
        "Hardhat.";
    const shown = await form.page.locator("main").innerText();
    assert.equal(shown.split("\n").filter((line) => line !== "").at(-1).replace(/\s+/g, " "), text);
    assert.equal(await form.picker.isVisible(), false);
    const path = join(shots, "no-javascript-390-light.png");
    await form.page.setViewportSize({ width: 390, height: 800 });
    await form.page.screenshot({ path, fullPage: true });
}, { javaScriptEnabled: false });

scenario("the keyboard suffices for a verification", async (form) => {
    const { page } = form;
    const address = await deploy("Counter", 202601);
    const { keyboard } = page;
    const tabTo = async (name) => {
        await keyboard.press("Tab");
        assert.deepEqual(await focused(page), [name, true]);
    };
    await tabTo("Gas prices");
    await tabTo("API");
    await tabTo("picker");
    await form.checkLayout("focus-files");
    const chooser = page.waitForEvent("filechooser");
    await keyboard.press("Space");
    await (await chooser).setFiles([METADATA, SOURCE]);
    await form.verifyButton.waitFor();
    await tabTo("Where are these files?");
    await keyboard.press("Enter");
    await page.getByText("artifacts/build-info/….json").waitFor();
    await form.checkLayout("help");
    await keyboard.press("Enter");
    await tabTo("Remove Counter_meta.json");
    await tabTo("Remove Counter.sol");
    await tabTo("address");
    await keyboard.type(address);
    await tabTo("chain");
    const offered = await form.chain.getByRole("option").allTextContents();
    assert.deepEqual(offered, ["ronin (2020)", "saigon (202601)"]);
    await keyboard.press("ArrowDown");
    await tabTo("verify");
    await form.checkLayout("focus-verify");
    await keyboard.press("Enter");
    await form.waitForOutcome("Verification successful",
        `${COUNTER} at ${address} on saigon (202601)${EXACT}`);
    assert.deepEqual(await focused(page), ["outcome-title", true]);
    await form.checkLayout("focus-outcome");
    await tabTo("again");
    // Tab wraps around, so nothing traps the focus.
    await keyboard.press("Tab");
    await keyboard.press("Tab");
    const wrapped = await focused(page);
    assert(["Gas prices", "API", "picker"].includes(wrapped[0]), wrapped[0]);
    for (const name of ["again", "verify", "chain", "address", "Remove Counter.sol"]) {
        while ((await focused(page))[0] !== name) await keyboard.press("Shift+Tab");
    }
});

scenario("the form works again after navigating back, and Enter in a field submits it", async (form) => {
    const address = await deploy("Counter");
    await form.choose(METADATA, SOURCE);
    await form.address.fill(address);
    await form.page.goto(`${services.plain}/v1/chains`);
    await form.page.goBack();
    await form.choose(METADATA, SOURCE);
    await form.address.fill(address);
    await form.address.press("Enter");
    await form.waitForOutcome("Verification successful", `${COUNTER} at ${address} on ronin (2020)${EXACT}`);
});

// Returns role, name, description and states of every focusable element in the accessibility tree.
async function controls(page) {
    const devtools = await page.context().newCDPSession(page);
    const { nodes } = await devtools.send("Accessibility.getFullAXTree");
    const byId = new Map(nodes.map((node) => [node.nodeId, node]));
    const below = (node) => [node, ...node.childIds.flatMap((id) => below(byId.get(id)))];
    const has = ({ properties = [] }, state) =>
        properties.some(({ name, value }) => name === state && ![false, "false"].includes(value.value));
    return below(nodes[0])
        .filter((node) => !node.ignored && node.role.value !== "RootWebArea" && has(node, "focusable"))
        .filter((node) => node.role.value !== "option")
        .map((node) => [
            node.role.value, node.name.value, node.description?.value ?? "",
            ...["invalid", "required"].filter((state) => has(node, state)),
        ]);
}

const FILES_HELP = "The compiler’s metadata JSON together with its .sol sources, or a build-info JSON alone.";

scenario("screen readers get the names, roles and states of all controls", async (form) => {
    const { page } = form;
    const atFirst = [
        ["link", "Gas prices", ""],
        ["link", "API", ""],
        ["button", "Drag files or folders here, or choose files", FILES_HELP],
        ["DisclosureTriangle", "Where are these files?", ""],
    ];
    assert.deepEqual(await controls(page), atFirst);
    // Status regions must exist from the start, or screen readers would not announce their changes.
    assert.equal(await page.getByRole("status").count(), 2);
    await form.choose(file("build-info.json", BUILD_INFO));
    await form.submit("0x12");
    const status = page.getByRole("status").first();
    assert.equal(await status.textContent(), "Ready to verify: 2 contracts");
    const problem = "An address is 0x followed by 40 hexadecimal digits.";
    const withDetails = [
        ...atFirst,
        ["button", "Remove build-info.json", ""],
        ["combobox", "Contract", ""],
        ["textbox", "Contract address", problem, "invalid", "required"],
        ["combobox", "Chain", ""],
        ["button", "Verify", ""],
    ];
    assert.deepEqual(await controls(page), withDetails);
    await form.submit(await deploy("Counter"), { contract: COUNTER });
    await page.getByRole("heading", { name: "Verification successful" }).waitFor();
    const outcomeControls = (await controls(page)).slice(withDetails.length);
    const text = await page.locator("#outcome-text").textContent();
    assert.deepEqual(outcomeControls, [
        ["heading", "Verification successful", text],
        ["button", "Verify another contract", ""],
    ]);
    assert.equal(await page.locator("main").ariaSnapshot(), `\
- main:
  - navigation "Pages":
    - link "Gas prices":
      - /url: ./
    - link "API":
      - /url: docs
  - heading "Verify a contract" [level=1]
  - paragraph: Prove that your published source code is what runs at an address.
  - region "Files":
    - heading "Files" [level=2]
    - paragraph:
      - text: The compiler’s
      - strong: metadata JSON
      - text: together with its
      - strong: .sol sources
      - text: ", or a"
      - strong: build-info JSON
      - text: alone.
    - button "Drag files or folders here, or choose files"
    - text: Drag files or folders here, or choose files
    - group: Where are these files?
    - list "Chosen files":
      - listitem:
        - text: build-info.json build-info
        - button "Remove build-info.json": Remove
    - status:
      - paragraph: "Ready to verify: 2 contracts"
  - region "Details":
    - heading "Details" [level=2]
    - text: Contract
    - combobox "Contract":
      - option "contracts/Counter.sol:Counter" [selected]
      - option "contracts/Switch.sol:Switch"
    - text: Contract address
    - textbox "Contract address":
      - /placeholder: 0x…
      - text: "${await form.address.inputValue()}"
    - text: Chain
    - combobox "Chain":
      - option "ronin (2020)" [selected]
      - option "saigon (202601)"
    - button "Verify"
  - status
  - region "Verification successful":
    - heading "Verification successful" [level=2]
    - paragraph: "${text}"
    - button "Verify another contract"`);
});

scenario("the policy blocks other origins, inline code and HTML injection", async ({ page }, seen) => {
    const other = `${new URL(services.first).origin}/`;
    const outcomes = await page.evaluate(async (other) => {
        const add = (name, properties) => {
            const node = Object.assign(document.createElement(name), properties);
            document.body.append(node);
            return node;
        };
        const tries = {
            fetch: () => fetch(`${other}v1/chains`),
            image: () => new Promise((onload, onerror) => add("img", { onload, onerror, src: `${other}x` })),
            style: () => new Promise((onload, onerror) =>
                add("link", { rel: "stylesheet", onload, onerror, href: `${other}verify/style.css` })),
            eval: () => (0, eval)("1"),
            script: () => add("script", { text: "" }),
            html: () => (document.body.innerHTML += "<p>"),
        };
        const outcomes = {};
        for (const [name, attempt] of Object.entries(tries)) {
            const outcome = Promise.resolve().then(attempt).then(() => "done", () => "refused");
            outcomes[name] = await outcome;
        }
        return outcomes;
    }, other);
    assert.deepEqual(new Set(Object.values(outcomes)), new Set(["refused"]), JSON.stringify(outcomes));
    assert.deepEqual(seen.violations, [
        `connect-src ${other}v1/chains`, `img-src ${other}x`, `style-src-elem ${other}verify/style.css`,
    ]);
    // The test provoked these, so `visit` must not see them.
    for (const list of [seen.violations, seen.errors, seen.requests]) list.length = 0;
});

describe("the form", { concurrency: 3 }, () => {
    for (const [name, check] of scenarios) test(name, check);
});
