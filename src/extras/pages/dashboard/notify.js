// Notifications when a price falls below a limit. They work while the page is open, also in a hidden tab.

/** Limits by chain key. A limit is removed once it has been reached. */
export class Alerts {
    #limits = new Map();

    /** Returns the limit in wei, or `undefined`. */
    limit(key) {
        return this.#limits.get(key);
    }

    clear(key) {
        this.#limits.delete(key);
    }

    /**
     * Asks the user for permission and sets a limit. Call it only for a click: browsers require it.
     *
     * @returns {Promise<string>} empty on success, otherwise why the page cannot notify
     */
    async set(key, wei) {
        if (!("Notification" in globalThis)) return "This browser has no notifications, or the page is not served by HTTPS.";
        const permission = await Notification.requestPermission();
        if (permission !== "granted") return "Notifications are blocked: allow them in the settings of your browser.";
        this.#limits.set(key, wei);
        return "";
    }

    /** Notifies if the chain's price is below its limit. Returns true if it did. */
    check({ key, name, price, isLive }) {
        const limit = this.#limits.get(key);
        if (limit === undefined || !isLive || !price || price.isPast || price.wei >= limit) return false;
        this.#limits.delete(key);
        const title = `${name}: ${price.number} ${price.unit}`;
        try {
            new Notification(title, { body: "The medium gas price is below your limit.", tag: `gas-${key}` });
        } catch {
            // Some phones show notifications of service workers only. The page itself says it too.
        }
        return true;
    }
}
