// Puts text on the clipboard.

/**
 * @param {string} text
 * @returns {Promise<boolean>} whether it is there
 */
export async function copy(text) {
    try {
        // Absent where the page came over plain HTTP from another machine.
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        return copySelected(text);
    }
}

/** As browsers did it before there was an interface for it, and do wherever the page came from. */
function copySelected(text) {
    const focused = document.activeElement;
    const field = document.createElement("textarea");
    field.className = "unseen";
    field.value = text;
    // Or a phone would show its keyboard.
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
