// What the browser remembers of the reader's choices. It forgets them where the storage is not available.

const PREFIX = "gas-suggestion.";

/** Returns the remembered value of a name, or `fallback`. */
export function recall(name, fallback) {
    try {
        return JSON.parse(localStorage.getItem(PREFIX + name)) ?? fallback;
    } catch {
        return fallback;
    }
}

export function remember(name, value) {
    try {
        localStorage.setItem(PREFIX + name, JSON.stringify(value));
    } catch {
        // The choice holds until the page is closed.
    }
}
