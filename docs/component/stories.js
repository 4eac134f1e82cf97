// Live previews on the page component.md of the site, which has no service. Shows each example of HTML below its code, and
// answers the requests of the components with recorded replies. Pages with a service need only the component itself.

import { REPLIES } from "./replies.js";

const SERVICE = "https://gas.example/v1/";
const GONE = "https://gone.example/v1/";
// This service replies once.
let isGone = false;

const { fetch } = window;
window.fetch = async (input, options) => {
    const url = String(input);
    if (!url.startsWith(SERVICE) && !url.startsWith(GONE)) return fetch(input, options);
    if (url.startsWith(GONE)) {
        if (isGone) throw new TypeError("Failed to fetch");
        isGone = true;
    }
    const { body, age = 0 } = REPLIES[url.replace(GONE, SERVICE).slice(SERVICE.length)];
    return Response.json(body, { headers: { age } });
};

for (const code of document.querySelectorAll("code.language-html")) {
    const story = document.createElement("div");
    story.className = "story";
    story.innerHTML = code.textContent;
    code.closest("pre").after(story);
}
await import("./gas-suggestion.js");
