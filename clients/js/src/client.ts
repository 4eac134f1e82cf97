import { camel } from './camel.js'
import { GasSuggestionError, asError, errorOf } from './errors.js'
import type { components } from './schema.js'
import { subscribe } from './stream.js'
import type { Freshness, GasClient, GasClientOptions, Market, Suggestion } from './types.js'

type Body = components['schemas']['GasSuggestion']

/** Returns a client for one chain of a service. It sends nothing until it is used. */
export function createGasClient<Fallback = never>(options: GasClientOptions<Fallback>): GasClient<Fallback> {
  const { chain, timeout = 2000, fallback } = options
  const base = `${options.url.replace(/\/+$/, '')}/v1/${encodeURIComponent(chain)}`
  // The global is looked up late, so that tests and pages can replace it.
  const send: typeof fetch = (input, init) => (options.fetch ?? fetch)(input, init)

  async function get<Value>(path: string, parse: (body: never) => Value): Promise<Value & Freshness> {
    try {
      // Browsers revalidate their copy, which costs a 304 if nothing has changed.
      const init: RequestInit = { cache: 'no-cache', signal: AbortSignal.timeout(timeout) }
      const response = await send(`${base}/${path}`, init)
      if (!response.ok) throw await errorOf(response)
      const text = await response.text()
      return invalidUnless(() => {
        const { headers } = response
        const block = headers.get('x-newest-block')
        if (!block) throw new Error('no X-Newest-Block')
        return {
          ...parse(JSON.parse(text) as never),
          block: Number(block),
          age: Number(headers.get('age')),
          isStale: headers.get('x-stale') === 'true',
        }
      }, response.status)
    } catch (error) {
      throw asError(error)
    }
  }

  const suggestion = () => get('gas-suggestion', suggestionOf)
  return {
    async suggestion() {
      try {
        return await suggestion()
      } catch (error) {
        if (fallback === undefined || !(error as GasSuggestionError).isTemporary) throw error
        if (typeof fallback !== 'function') return fallback
        return (fallback as (error: unknown) => Fallback | Promise<Fallback>)(error)
      }
    },
    market: () => get('fee-market', (body): Omit<Market, keyof Freshness> => camel(body)),
    subscribe: (callbacks) =>
      subscribe({
        ...callbacks,
        open: (headers, signal) => send(`${base}/gas-suggestion/stream`, { headers, signal, cache: 'no-store' }),
        current: suggestion,
        parse: (data, block) =>
          invalidUnless(() => ({ ...suggestionOf(JSON.parse(data) as Body), block, age: 0, isStale: false })),
      }),
  }
}

function suggestionOf(body: Body): Omit<Suggestion, keyof Freshness> {
  const { chainName, type, baseFeePerGas, medium, high } = camel(body)
  const tier = ({ maxFeePerGas, maxPriorityFeePerGas }: typeof medium) => ({
    maxFeePerGas,
    maxPriorityFeePerGas,
    ...(type === 'legacy' && { gasPrice: maxFeePerGas }),
  })
  return { chainName, type, baseFeePerGas, medium: tier(medium), high: tier(high) }
}

function invalidUnless<Value>(parse: () => Value, status?: number): Value {
  try {
    return parse()
  } catch (cause) {
    throw new GasSuggestionError('invalid_response', `the response is not a suggestion: ${cause}`, status, { cause })
  }
}
