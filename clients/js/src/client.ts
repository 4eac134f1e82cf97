import { chainName, serviceUrl } from './address.js'
import type { CostBody, FeesBody, MarketBody } from './bodies.js'
import { camel } from './camel.js'
import { GasSuggestionError, asError, errorOf } from './errors.js'
import { parametersOf, pathOf } from './query.js'
import type { components } from './schema.js'
import { subscribe } from './stream.js'
import type { Cost, FeeMatrix, Freshness, GasClient, GasClientOptions, Market, Suggestion } from './types.js'

type Schemas = components['schemas']

interface RequestOptions {
  /** Body of a `POST`. */
  body?: string
  /** How long the service may hold the request before it responds, in milliseconds. */
  hold?: number
  signal?: AbortSignal | undefined
}

// Longest delay of a timer.
const MAX_DELAY_MS = 2 ** 31 - 1

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

  async function load<Value>(
    path: string,
    parse: (body: never) => Value,
    { body, hold }: RequestOptions,
    signal: AbortSignal,
  ): Promise<Value & Freshness> {
    // Browsers revalidate their copy, which costs a 304 if nothing has changed. A body of text needs no preflight.
    const init = body === undefined ? cacheMode('no-cache') : { method: 'POST', body }
    const response = await send(`${base}/${path}`, { ...init, signal })
    if (!response.ok) throw await errorOf(response, chain)
    const text = await response.text()
    // The type of `wait` has the `null`.
    if (hold && response.status === 204) return null as never
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

  async function get<Value>(path: string, parse: (body: never) => Value, request: RequestOptions = {}) {
    const { hold = 0, signal } = request
    if (signal?.aborted) throw signal.reason
    // `AbortSignal.timeout` is not in every runtime, and a given `fetch` may ignore the signal.
    const abort = new AbortController()
    const limit = timeout + hold
    let timer: ReturnType<typeof setTimeout> | undefined
    let giveUp!: (error?: unknown) => void
    const end = new Promise<never>((_, reject) => {
      giveUp = (error) => {
        reject(error)
        abort.abort()
      }
      const late = () => giveUp(new GasSuggestionError('timeout', `timeout: no response within ${limit} ms`))
      timer = setTimeout(late, Math.min(limit, MAX_DELAY_MS))
    })
    signal?.addEventListener('abort', giveUp)
    try {
      return await Promise.race([load(path, parse, request, abort.signal), end])
    } catch (error) {
      throw signal?.aborted ? signal.reason : asError(error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', giveUp)
    }
  }

  const suggestion = () => get('gas-suggestion', suggestionOf)
  const market = () => get('fee-market', marketOf)
  return {
    async price() {
      const { chainName, chainId, expectedPricePerGas, ...rest } = await market()
      const { level, levelDeviation, currency, usdPerCoin = null, block, age, isStale } = rest
      const { low, medium, high } = expectedPricePerGas
      return { chainName, chainId, low, medium, high, level, levelDeviation, currency, usdPerCoin, block, age, isStale }
    },
    async suggestion() {
      try {
        return await suggestion()
      } catch (error) {
        if (fallback === undefined || !(error as GasSuggestionError).isTemporary) throw error
        if (typeof fallback !== 'function') return fallback
        return (fallback as (error: unknown) => Fallback | Promise<Fallback>)(error)
      }
    },
    market,
    async cost(request) {
      const parameters = parametersOf(request)
      if (request.transaction === undefined) return get(pathOf('cost', parameters), costOf)
      return get('cost', costOf, { body: JSON.stringify({ ...parameters, probability: request.probability }) })
    },
    // With and without `within` the types differ.
    fees: (async (request) => {
      const path = pathOf('fees', parametersOf(request ?? {}))
      return request && 'within' in request ? get(path, feesOf) : get(path, matrixOf)
    }) as GasClient['fees'],
    async wait({ below, timeout: hold = 30_000, signal }) {
      if (!(hold >= 1000 && hold <= 120_000)) throw new TypeError('timeout must be from 1000 to 120000, in milliseconds')
      const seconds = Math.ceil(hold / 1000)
      return get(pathOf('wait', parametersOf({ below, timeout: seconds })), marketOf, { hold: seconds * 1000, signal })
    },
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

function marketOf(body: MarketBody): Omit<Market, keyof Freshness> {
  const market = camel(body)
  const { low, medium, high } = market.expectedPricePerGas
  requireAmounts(market.averageBaseFeePerGas, low, medium, high)
  suggestionOf(body.suggestion)
  if (!Number.isSafeInteger(market.chainId)) throw new Error('no chain id')
  if (market.usdPerCoin) requireDollars(market.usdPerCoin.price)
  return market
}

function costOf(body: CostBody): Omit<Cost, keyof Freshness> {
  const cost = camel(body)
  const { dataFee, blobFee, usd } = cost
  if (dataFee) requireAmounts(dataFee.fee, dataFee.max, dataFee.operatorFee.expected, dataFee.operatorFee.max)
  if (blobFee) requireAmounts(blobFee.expected, blobFee.max)
  for (const name of ['low', 'medium', 'high'] as const) {
    const { maxFeePerGas, maxPriorityFeePerGas, ...amounts } = cost.tiers[name]
    requireAmounts(maxFeePerGas, maxPriorityFeePerGas)
    const { expected, max, maxSend } = amounts
    for (const amount of [expected, max, maxSend]) if (amount !== null) requireAmounts(amount)
    if (usd) requireDollars(usd[name].expected, usd[name].max)
  }
  return cost
}

function matrixOf(body: FeesBody): Omit<FeeMatrix, keyof Freshness> {
  const fees = camel(body)
  for (const { maxPriorityFeePerGas, maxFeePerGas, expectedPricePerGas } of fees.cells) {
    requireAmounts(maxPriorityFeePerGas, maxFeePerGas, expectedPricePerGas)
  }
  return fees
}

function feesOf(body: FeesBody) {
  const { cells, ...rest } = matrixOf(body)
  if (cells.length !== 1) throw new Error(`${cells.length} cells`)
  return { ...rest, ...cells[0]! }
}

function requireAmounts(...amounts: unknown[]) {
  if (amounts.some((amount) => typeof amount !== 'bigint')) throw new Error('an amount is missing')
}

function requireDollars(...amounts: unknown[]) {
  const isDecimal = (amount: unknown) => typeof amount === 'string' && /^\d{1,78}(\.\d{1,36})?$/.test(amount)
  if (!amounts.every(isDecimal)) throw new Error('an amount in dollars is missing')
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
