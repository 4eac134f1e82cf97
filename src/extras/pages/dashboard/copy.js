// Copies text to the clipboard.

import { element, setText } from "./dom.js";

// Time for which a button shows the result.
const FEEDBACK_MS = 2000;

/** A button that copies a text and shows whether that succeeded. */
export class CopyButton {
    /**
     * @param {string} label
     * @param {(text: string) => void} announce announces a text to screen readers
     */
    constructor(label, announce) {
        Object.assign(this, { label, announce });
        this.action = element("span", {}, label);
        this.description = element("span", { className: "unseen" });
        this.node = element("button", { type: "button", className: "quiet copy" }, this.action, this.description);
        this.node.addEventListener("click", () => this.#copy());
    }

    /**
     * @param {() => string} read returns the text to copy
     * @param {string} description completes the label for screen readers
     * @param {string} what is announced when it was copied
     */
    show(read, description, what) {
        Object.assign(this, { read, what });
        setText(this.description, description);
    }

    async #copy() {
        const { what } = this;
        const isCopied = await copy(this.read());
        setText(this.action, isCopied ? "Copied" : "Copy failed");
        this.node.classList.toggle("done", isCopied);
        this.node.classList.toggle("failed", !isCopied);
        this.announce(isCopied ? `Copied ${what}.` : "Copy failed: the browser blocked access to the clipboard.");
        clearTimeout(this.feedbackTimer);
        this.feedbackTimer = setTimeout(() => {
            setText(this.action, this.label);
            this.node.classList.remove("done", "failed");
        }, FEEDBACK_MS);
    }
}

/**
 * @param {string} text
 * @returns {Promise<boolean>} true if the text was copied
 */
export async function copy(text) {
    try {
        // Insecure origins, which are plain HTTP from another host than localhost, have no clipboard API.
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        return copySelected(text);
    }
}

/** Copies by selecting the text, which works on insecure origins too. */
function copySelected(text) {
    const focused = document.activeElement;
    const field = document.createElement("textarea");
    field.className = "unseen";
    field.value = text;
    // Phones open no keyboard for a read-only field.
    field.readOnly = true;
    document.body.append(field);
    try {
        field.select();
        return document.execCommand("copy");
    } catch {
        return false;
    } finally {
        field.remove();
        focused?.focus({ preventScroll: true });
    }
}
