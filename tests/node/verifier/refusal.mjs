// An answer that says why not, in words common to both generations; each puts them in a form of its own.

export class Refusal extends Error {
    // `more` may have a v2 `code`, the schema's `errors`, or the whole `answer` where neither form fits.
    constructor(status, message, more = {}) {
        super(message);
        Object.assign(this, { status, more });
    }
}

// What a check against the API's schema finds, in `request/body` or `request/query`.
export function misfit(where, message) {
    const place = where.replace("request", "");
    const text = `${where} ${message}`;
    return new Refusal(400, text, { code: "invalid_parameter", errors: [{ path: place, message }] });
}
