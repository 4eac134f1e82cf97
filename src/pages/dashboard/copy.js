// Copies text to the clipboard.

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
