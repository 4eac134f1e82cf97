import type { components } from './schema.js'

/**
 * Why a request failed: a code of the service, or one of this client.
 *
 * - `timeout`: no complete response within `timeout`
 * - `network_error`: no connection, or the stream ended
 * - `invalid_response`: the response is not from this service, a redirect, for another chain, or too long
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
    // One line, because parts of it may come from a proxy's error page.
    super(message.replace(/[\s\x00-\x1f\x7f-\x9f]+/g, ' ').trim().slice(0, 300), options)
  }

  /** True if a later request may succeed. False for mistakes of the caller, such as an unknown chain. */
  get isTemporary(): boolean {
    const { status = 503 } = this
    return status < 400 || status >= 500 || status === 408 || status === 429
  }
}

/** Returns the error for anything that a request throws. */
export function asError(thrown: unknown): GasSuggestionError {
  if (thrown instanceof GasSuggestionError) return thrown
  const { message = thrown, cause } = (thrown ?? {}) as { message?: unknown; cause?: { message?: string; code?: string } }
  // Node.js has the reason in the cause.
  const reason = [message, cause?.message || cause?.code].filter(Boolean).join(': ')
  return new GasSuggestionError('network_error', `the service is unreachable: ${reason}`, undefined, { cause: thrown })
}
