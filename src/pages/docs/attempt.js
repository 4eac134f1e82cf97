// Asks the service for an operation, and shows what it answers.

import { firstOf, requestOf } from "./document.js";
import { element } from "./element.js";

// What is shown of a body.
const MOST_CHARACTERS = 20_000;
// Of a stream's events, which do not end by themselves.
const STREAM_MS = 5000;
const CUT = "Read to the first event, and for 5 s at most.";

/** A form that asks for `operation`, relative to `base`. */
export class Attempt {
    constructor(operation, base) {
        Object.assign(this, { operation, base });
        this.fields = operation.parameters.map((parameter) => new Field(operation.id, parameter));
        this.button = element("button", { type: "submit" }, "Send");
        this.outcome = element("div", { className: "outcome" });
        this.outcome.setAttribute("role", "status");
        const fields = this.fields.map((field) => field.node);
        this.node = element("form", { noValidate: true, autocomplete: "off" }, ...fields, this.button, this.outcome);
        this.node.addEventListener("submit", (event) => {
            event.preventDefault();
            this.#send();
        });
    }

    async #send() {
        const values = new Map(this.fields.map(({ name, input }) => [name, input.value]));
        const { target, headers } = requestOf(this.operation, values);
        const url = new URL(target, this.base);
        this.button.disabled = true;
        this.outcome.replaceChildren(element("p", {}, "Waiting for the answer…"));
        try {
            const response = await fetch(url, { headers, cache: "no-store" });
            this.#show(url, response, await read(response));
        } catch (error) {
            this.outcome.replaceChildren(element("p", { className: "failed" }, `No answer: ${error.message}`));
        }
        this.button.disabled = false;
        // What is disabled loses it.
        if (document.activeElement === document.body) this.button.focus();
    }

    #show(url, response, text) {
        const status = `${response.status} ${response.statusText}`;
        const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
        const type = response.headers.get("content-type") ?? "";
        this.outcome.replaceChildren(
            element("p", { className: "request" }, element("code", {}, `GET ${url.href}`)),
            element("p", { className: "status" }, element("b", {}, status)),
            ...(type.startsWith("text/event-stream") ? [element("p", {}, CUT)] : []),
            scrollable("Headers", headers),
            type.startsWith("image/svg+xml") && response.ok
                ? element("img", { src: url.href, alt: "The chart" })
                : scrollable("Body", formatted(text, type)),
        );
    }
}

class Field {
    constructor(id, parameter) {
        const { name, required, schema = {} } = parameter;
        this.name = name;
        const properties = { id: `${id}-${name}`, required };
        if (schema.enum) {
            const values = required ? schema.enum : ["", ...schema.enum];
            const options = values.map((value) => element("option", { value }, String(value)));
            this.input = element("select", properties, ...options);
        } else {
            this.input = element("input", { ...properties, spellcheck: false });
        }
        this.input.value = firstOf(parameter);
        const label = element("label", { htmlFor: properties.id }, element("code", {}, name));
        if (!required) label.append(element("span", { className: "mark" }, " optional"));
        this.node = element("div", { className: "field" }, label, this.input);
    }
}

/** The text of a body, or the beginning of a stream. */
async function read(response) {
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response.text();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const timer = setTimeout(() => reader.cancel(), STREAM_MS);
    let text = "";
    // The first event ends with an empty line.
    while (!/^data: .*\n\n/m.test(text)) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
    }
    clearTimeout(timer);
    await reader.cancel();
    return text;
}

function formatted(text, type) {
    const shown = text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
    if (!/^application\/(problem\+)?json/.test(type)) return shown;
    try {
        return JSON.stringify(JSON.parse(shown), null, 2);
    } catch {
        return shown;
    }
}

function scrollable(title, text) {
    const pre = element("pre", { tabIndex: 0 }, element("code", {}, text));
    pre.setAttribute("aria-label", title);
    return element("div", {}, element("h4", {}, title), pre);
}
