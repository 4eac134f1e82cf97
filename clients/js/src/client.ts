import { chainName, serviceUrl } from './address.js'
import { camel } from './camel.js'
import { GasSuggestionError, asError, errorOf } from './errors.js'
import type { components } from './schema.js'
import { subscribe } from './stream.js'
import type { Freshness, GasClient, GasClientOptions, Market, Suggestion } from './types.js'

type Schemas = components['schemas']

/**
 * Returns a client for one chain of a service. It sends nothing until it is used. Throws a `TypeError` if an option
 * cannot be right.
 */
export function createGasClient<Fallback = never>(options: GasClientOptions<Fallback>): GasClient<Fallback> {
  const { timeout = 2000, fallback } = options
  const chain = chainName(options.chain)
  const base = `${serviceUrl(options.url)}/v1/${chain}`
  if (base.startsWith('/') && !globalThis.location) throw new TypeError('url must begin with http:// or https://')
  if (typeof timeout !== 'number' || !(timeout > 0)) throw new TypeError('timeout must be above 0, in milliseconds')
  if (typeof (options.fetch ?? globalThis.fetch) !== 'function') throw new TypeError('fetch must be a function')
  // The global is looked up late, so that tests and pages can replace it.
  const send: typeof fetch = (input, init) => (options.fetch ?? fetch)(input, init)

  async function load<Value>(path: string, parse: (body: never) => Value, signal: AbortSignal): Promise<Value & Freshness> {
    // Browsers revalidate their copy, which costs a 304 if nothing has changed.
    const response = await send(`${base}/${path}`, { ...cacheMode('no-cache'), signal })
    if (!response.ok) throw await errorOf(response, chain)
    const text = await response.text()
    return invalidUnless(() => {
      const { headers } = response
      return {
        ...parse(JSON.parse(text) as never),
        block: integer('X-Newest-Block', headers.get('x-newest-block')),
        age: integer('Age', headers.get('age') ?? '0'),
        isStale: headers.get('x-stale') === 'true',
      }
    }, response.status)
  }

  async function get<Value>(path: string, parse: (body: never) => Value): Promise<Value & Freshness> {
    // `AbortSignal.timeout` is not in every runtime, and a given `fetch` may ignore the signal.
    const abort = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_, reject) => {
      const giveUp = () => {
        reject(new GasSuggestionError('timeout', `timeout: no response within ${timeout} ms`))
        abort.abort()
      }
      timer = setTimeout(giveUp, Math.min(timeout, 2 ** 31 - 1))
    })
    try {
      return await Promise.race([load(path, parse, abort.signal), late])
    } catch (error) {
      throw asError(error)
    } finally {
      clearTimeout(timer)
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
    market: () => get('fee-market', marketOf),
    subscribe: (callbacks) =>
      subscribe({
        ...callbacks,
        async open(headers, signal) {
          const response = await send(`${base}/gas-suggestion/stream`, { ...cacheMode('no-store'), headers, signal })
          if (!response.ok) throw await errorOf(response, chain)
          return response
        },
        current: suggestion,
        parse: (data, block) =>
          invalidUnless(() => ({ ...suggestionOf(JSON.parse(data)), block: integer('id', block), age: 0, isStale: false })),
      }),
  }
}

/** Returns the member `cache` of a request. Runtimes without a cache may reject it. */
function cacheMode(cache: RequestCache): RequestInit {
  try {
    new Request('http://localhost', { cache })
    return { cache }
  } catch {
    return {}
  }
}

function suggestionOf(body: Schemas['GasSuggestion']): Omit<Suggestion, keyof Freshness> {
  const { chainName, type, baseFeePerGas, medium, high } = camel(body)
  if (typeof chainName !== 'string' || (type !== 'eip-1559' && type !== 'legacy')) throw new Error('no suggestion')
  const tier = ({ maxFeePerGas, maxPriorityFeePerGas }: typeof medium) => {
    requireAmounts(maxFeePerGas, maxPriorityFeePerGas)
    return { maxFeePerGas, maxPriorityFeePerGas, ...(type === 'legacy' && { gasPrice: maxFeePerGas }) }
  }
  requireAmounts(baseFeePerGas)
  return { chainName, type, baseFeePerGas, medium: tier(medium), high: tier(high) }
}

function marketOf(body: Schemas['FeeMarket']): Omit<Market, keyof Freshness> {
  const market = camel(body)
  const { low, medium, high } = market.expectedPricePerGas
  requireAmounts(market.averageBaseFeePerGas, low, medium, high)
  suggestionOf(body.suggestion)
  if (!Number.isSafeInteger(market.chainId)) throw new Error('no chain id')
  return market
}

function requireAmounts(...amounts: unknown[]) {
  if (amounts.some((amount) => typeof amount !== 'bigint')) throw new Error('an amount is missing')
}

function integer(name: string, text: string | null): number {
  if (!/^\d{1,15}$/.test(text ?? '')) throw new Error(`${name} is ${text}`)
  return Number(text)
}

function invalidUnless<Value>(parse: () => Value, status?: number): Value {
  try {
    return parse()
  } catch (cause) {
    throw new GasSuggestionError('invalid_response', `the response is not a suggestion: ${cause}`, status, { cause })
  }
}
