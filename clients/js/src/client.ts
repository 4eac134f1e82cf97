import { chainName, idOf, serviceUrl } from './address.js'
import type { CostBody, FeesBody, MarketBody } from './bodies.js'
import { camel } from './camel.js'
import { GasSuggestionError, asError } from './errors.js'
import { request as send, textOf } from './http.js'
import { parametersOf, pathOf } from './query.js'
import type { components } from './schema.js'
import { follow } from './stream.js'
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
  const base = serviceUrl(options.url)
  if (base.startsWith('/') && !globalThis.location) throw new TypeError('url must begin with http:// or https://')
  if (typeof timeout !== 'number' || !(timeout > 0)) throw new TypeError('timeout must be above 0, in milliseconds')
  if (typeof (options.fetch ?? globalThis.fetch) !== 'function') throw new TypeError('fetch must be a function')

  async function load<Value>(
    path: string,
    parse: (body: never) => Value,
    { body, hold }: RequestOptions,
    signal: AbortSignal,
  ): Promise<Value & Freshness> {
    // A body of text needs no preflight.
    const init = { ...(body !== undefined && { method: 'POST', body }), signal }
    const response = await send(options.fetch, `${base}/v1/${chain}/${path}`, init, chain)
    const text = await textOf(response)
    // The type of `wait` has the `null`.
    if (hold && response.status === 204) return null as never
    return invalidUnless(() => {
      const { headers } = response
      const value = parse(JSON.parse(text) as never)
      const { chainId } = value as { chainId?: number }
      if (chainId !== undefined && chainId !== (idOf(chain) ?? chainId)) throw new Error(`it is that of chain ${chainId}`)
      return {
        ...value,
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
    const stop = () => abort.abort()
    const timer = setTimeout(stop, Math.min(limit, MAX_DELAY_MS))
    signal?.addEventListener('abort', stop)
    try {
      const end = new Promise<never>((_, reject) => abort.signal.addEventListener('abort', reject))
      return await Promise.race([load(path, parse, request, abort.signal), end])
    } catch (error) {
      if (signal?.aborted) throw signal.reason
      if (abort.signal.aborted) throw new GasSuggestionError('timeout', `timeout: no response within ${limit} ms`)
      throw asError(error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', stop)
    }
  }

  const suggestion = () => get('gas-suggestion', suggestionOf)
  const market = () => get('fee-market', marketOf)
  return {
    async price() {
      const all = await market()
      const { chainName, chainId, level, levelDeviation, currency, usdPerCoin = null, block, age, isStale } = all
      const { low, medium, high } = all.expectedPricePerGas
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
    subscribe({ onSuggestion, onError }) {
      if (typeof onSuggestion !== 'function') throw new TypeError('onSuggestion must be a function')
      return follow({
        base,
        chain,
        fetch: options.fetch,
        // A suggestion has no chain id.
        load: () =>
          get('fee-market', (body: MarketBody) => ({ ...suggestionOf(body.suggestion), chainId: marketOf(body).chainId })),
        parse: (data, freshness) => invalidUnless(() => ({ ...suggestionOf(JSON.parse(data)), ...freshness })),
        show({ chainId, ...suggestion }: Suggestion & { chainId?: number }) {
          onSuggestion(suggestion)
        },
        fail: onError,
      })
    },
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
