// An error response in a form common to both API versions; each version renders it in its own format.

export class Refusal extends Error {
    // `more` may have a v2 `code`, the schema's `errors`, or a complete `response` if neither format fits.
    constructor(status, message, more = {}) {
        super(message);
        Object.assign(this, { status, more });
    }
}

// A violation of the API's schema in `request/body` or `request/query`.
export function misfit(where, message) {
    const place = where.replace("request", "");
    const text = `${where} ${message}`;
    return new Refusal(400, text, { code: "invalid_parameter", errors: [{ path: place, message }] });
}
