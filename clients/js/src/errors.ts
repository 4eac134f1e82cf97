import type { components } from './schema.js'

/**
 * Why a request failed: a code of the service, or one of this client.
 *
 * - `timeout`: no complete response within `timeout`
 * - `network_error`: no connection, or the stream ended
 * - `invalid_response`: the response is not from this service
 */
export type GasSuggestionErrorCode =
  | components['schemas']['ProblemCode']
  | 'timeout'
  | 'network_error'
  | 'invalid_response'

export class GasSuggestionError extends Error {
  override readonly name = 'GasSuggestionError'

  constructor(
    readonly code: GasSuggestionErrorCode,
    message: string,
    /** Status of the response, if there was one. */
    readonly status?: number,
    options?: { cause?: unknown },
  ) {
    super(message, options)
  }

  /** True if a later request may succeed. False for mistakes of the caller, such as an unknown chain. */
  get isTemporary(): boolean {
    const { status = 503 } = this
    return status < 400 || status >= 500 || status === 408 || status === 429
  }
}

/** Returns the error of a response that is not 2xx. */
export async function errorOf(response: Response): Promise<GasSuggestionError> {
  const { status } = response
  const text = await response.text()
  try {
    const { code, detail } = JSON.parse(text)
    if (typeof code === 'string') {
      return new GasSuggestionError(code as GasSuggestionErrorCode, `${status} ${code}: ${detail}`, status)
    }
  } catch {
    // Not JSON: a proxy responded.
  }
  return new GasSuggestionError('invalid_response', `${status}: ${text.slice(0, 200)}`, status)
}

/** Returns the error for anything that a request throws. */
export function asError(thrown: unknown): GasSuggestionError {
  if (thrown instanceof GasSuggestionError) return thrown
  const options = { cause: thrown }
  if ((thrown as Error | undefined)?.name === 'TimeoutError') {
    return new GasSuggestionError('timeout', 'the service did not respond in time', undefined, options)
  }
  const reason = (thrown as Error | undefined)?.message ?? thrown
  return new GasSuggestionError('network_error', `the service is unreachable: ${reason}`, undefined, options)
}
