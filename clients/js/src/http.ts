import { GasSuggestionError, type GasSuggestionErrorCode } from './errors.js'

export type Fetch = typeof globalThis.fetch

/** Longest body, in bytes. A list of a thousand chains has a quarter of it. */
const MAX_BODY = 2 ** 20

/**
 * Sends a request with `given`, or with the global `fetch` as it is at that moment: tests and pages replace it. Throws
 * an error unless the response is 2xx; `chain` is for its message. Redirects are not followed: they may lead anywhere.
 * Browsers revalidate their copy, which costs a 304 if nothing has changed.
 */
export async function request(given: Fetch | undefined, url: string, init: RequestInit, chain = ''): Promise<Response> {
  const response = await (given ?? fetch)(url, { ...cacheMode(), redirect: 'manual', ...init })
  if (!response.ok) throw await errorOf(response, chain)
  return response
}

/** Returns the body. Throws a `GasSuggestionError` if it is too long. */
export async function textOf(response: Response): Promise<string> {
  const reader = response.body?.getReader?.()
  // React Native has no streams, and no text decoder in its older versions.
  if (!reader || !globalThis.TextDecoder) return response.text()
  const decoder = new TextDecoder()
  let text = ''
  for (let size = 0; ; ) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    size += value.length
    if (size > MAX_BODY) {
      reader.cancel().catch(() => {})
      throw new GasSuggestionError('invalid_response', 'the body is too long', response.status)
    }
    text += decoder.decode(value, { stream: true })
  }
}

/** Returns the error of a response that is not 2xx. */
async function errorOf(response: Response, chain: string): Promise<GasSuggestionError> {
  const { status } = response
  const text = await textOf(response)
  try {
    const { code, detail } = JSON.parse(text)
    if (typeof code === 'string') {
      let message = `${status} ${code}: ${detail}`
      if (code === 'unknown_chain') message += ` (chain: \`${chain}\`)`
      if (code === 'not_found') message += '; is `url` the base of the service, without /v1?'
      return new GasSuggestionError(code as GasSuggestionErrorCode, message, status)
    }
  } catch {
    // Not JSON: a proxy responded.
  }
  // A browser hides the status of a redirect: it is 0.
  return new GasSuggestionError('invalid_response', `${status}: ${status < 400 ? 'a redirect' : text}`, status)
}

/** Returns the member `cache` of a request. Runtimes without a cache may reject it. */
function cacheMode(): RequestInit {
  try {
    const init: RequestInit = { cache: 'no-cache' }
    new Request('http://localhost', init)
    return init
  } catch {
    return {}
  }
}
