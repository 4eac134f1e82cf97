// A form that sends a request of an operation to the service and shows the response.

import { buildRequest, initialValue } from "./document.js";
import { element } from "./element.js";

// Maximum number of displayed characters of a body.
const MAX_CHARACTERS = 20_000;
// Time after which reading a stream stops.
const STREAM_TIMEOUT_MS = 5000;
const STREAM_NOTE = "Reading stopped after the first event, or after 5 s.";

/** A form for requests of `operation` to the service at `base`. */
export class RequestForm {
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
        const { target, headers } = buildRequest(this.operation, values);
        const url = new URL(target, this.base);
        this.button.disabled = true;
        this.outcome.replaceChildren(element("p", {}, "Waiting for the response…"));
        try {
            const response = await fetch(url, { headers, cache: "no-store" });
            this.#show(url, response, await readBody(response));
        } catch (error) {
            this.outcome.replaceChildren(element("p", { className: "failed" }, `Request failed: ${error.message}`));
        }
        this.button.disabled = false;
        // A disabled button loses the focus.
        if (document.activeElement === document.body) this.button.focus();
    }

    #show(url, response, text) {
        const status = `${response.status} ${response.statusText}`;
        const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
        const type = response.headers.get("content-type") ?? "";
        this.outcome.replaceChildren(
            element("p", { className: "request" }, element("code", {}, `GET ${url.href}`)),
            element("p", { className: "status" }, element("b", {}, status)),
            ...(type.startsWith("text/event-stream") ? [element("p", {}, STREAM_NOTE)] : []),
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
        this.input.value = initialValue(parameter);
        const label = element("label", { htmlFor: properties.id }, element("code", {}, name));
        if (!required) label.append(element("span", { className: "mark" }, " optional"));
        this.node = element("div", { className: "field" }, label, this.input);
    }
}

/** Returns the text of a body, or the beginning of a stream. */
async function readBody(response) {
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response.text();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const timer = setTimeout(() => reader.cancel(), STREAM_TIMEOUT_MS);
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
    const shown = text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
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
