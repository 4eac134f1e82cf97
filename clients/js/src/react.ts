import { useCallback, useSyncExternalStore } from 'react'
import { chainName, serviceUrl } from './address.js'
import { createGasClient } from './client.js'
import type { GasSuggestionError } from './errors.js'
import { parametersOf, pathOf } from './query.js'
import { follow } from './stream.js'
import type {
  Cost,
  CostRequest,
  FeeMatrix,
  Fees,
  FeesRequest,
  Freshness,
  GasClient,
  GasClientOptions,
  HoldRequest,
  Market,
  Price,
  Suggestion,
} from './types.js'

/** The service and the chain. */
export type HookOptions = Pick<GasClientOptions, 'url' | 'chain'>

/** Members that every hook returns beside its value. All are `undefined` until the first response. */
export interface HookState {
  block: number | undefined
  /** Age of the value in seconds. It grows until the next one. */
  age: number | undefined
  isStale: boolean | undefined
  /** Set from a failure until the next value. The value is kept meanwhile. */
  error: GasSuggestionError | undefined
}

interface State extends HookState {
  value: Freshness | undefined
}

const EMPTY: State = { value: undefined, block: undefined, age: undefined, isStale: undefined, error: undefined }

/** A value that all components with the same options share. */
interface Store {
  state: State
  listeners: Set<() => void>
  stop: () => void
}

/** Begins to deliver values and errors. Returns a function that ends it. */
type Source = (show: (value: Freshness) => void, fail: (error: GasSuggestionError) => void) => () => void

const stores = new Map<string, Store>()

function openStore(source: Source): Store {
  let receivedAt = 0
  const set = (state: State) => {
    store.state = state
    for (const listener of store.listeners) listener()
  }
  const store: Store = { state: EMPTY, listeners: new Set(), stop: () => {} }
  const end = source(
    (value) => {
      receivedAt = Date.now()
      const { block, age, isStale } = value
      set({ value, block, age, isStale, error: undefined })
    },
    (error) => set({ ...store.state, error }),
  )
  const timer = setInterval(() => {
    const { value, age } = store.state
    if (!value) return
    const now = value.age + Math.max(0, Math.floor((Date.now() - receivedAt) / 1000))
    if (now !== age) set({ ...store.state, age: now })
  }, 1000)
  store.stop = () => {
    clearInterval(timer)
    end()
  }
  return store
}

/** Keeps the store of this key open and calls `listener` at each change. Returns a function that ends this. */
function retain(key: string, source: Source, listener: () => void): () => void {
  const store = stores.get(key) ?? openStore(source)
  stores.set(key, store)
  store.listeners.add(listener)
  return () => {
    store.listeners.delete(listener)
    if (store.listeners.size > 0) return
    store.stop()
    stores.delete(key)
  }
}

const baseOf = ({ url, chain }: HookOptions) => `${serviceUrl(url)}/v1/${chainName(chain)}`

const stream =
  ({ url, chain }: HookOptions): Source =>
  (onSuggestion, onError) =>
    createGasClient({ url, chain }).subscribe({ onSuggestion, onError })

/** Requests a value at each event of the chain. */
const request =
  ({ url, chain }: HookOptions, load: (gas: GasClient) => Promise<Freshness & { chainId: number }>): Source =>
  (show, fail) => {
    const gas = createGasClient({ url, chain })
    return follow({ base: serviceUrl(url), chain: chainName(chain), load: () => load(gas), show, fail })
  }

function useStore(key: string | undefined, source: Source): State {
  const subscribe = useCallback(
    (listener: () => void) => (key === undefined ? () => {} : retain(key, source, listener)),
    // `key` stands for all options of `source`.
    [key],
  )
  const state = () => stores.get(key ?? '')?.state ?? EMPTY
  return useSyncExternalStore(subscribe, state, () => EMPTY)
}

function useRequest(
  options: HookOptions,
  path: string | undefined,
  load: (gas: GasClient) => Promise<Freshness & { chainId: number }>,
): State {
  const base = baseOf(options)
  return useStore(path && `${base}/${path}`, request(options, load))
}

/** Follows the suggestion, block by block, while the component is mounted. */
export function useSuggestion(options: HookOptions): HookState & { suggestion: Suggestion | undefined } {
  const { value, ...state } = useStore(baseOf(options), stream(options))
  return { suggestion: value as Suggestion | undefined, ...state }
}

/** Follows the price per gas, block by block. */
export function usePrice(options: HookOptions): HookState & { price: Price | undefined } {
  const { value, ...state } = useRequest(options, 'price', (gas) => gas.price())
  return { price: value as Price | undefined, ...state }
}

/** Follows how the suggestion was calculated, block by block. */
export function useMarket(options: HookOptions): HookState & { market: Market | undefined } {
  const { value, ...state } = useRequest(options, 'fee-market', (gas) => gas.market())
  return { market: value as Market | undefined, ...state }
}

/** Follows the cost of a transaction, block by block. Without a transaction it requests nothing. */
export function useCost(
  options: HookOptions,
  transaction: CostRequest | undefined,
): HookState & { cost: Cost | undefined } {
  const path = transaction && pathOf('cost', parametersOf(transaction))
  const { value, ...state } = useRequest(options, path, (gas) => gas.cost(transaction!))
  return { cost: value as Cost | undefined, ...state }
}

/** Follows the fees for a horizon and a probability, or for all of them, block by block. */
export function useFees(options: HookOptions, request: FeesRequest): HookState & { fees: Fees | undefined }
export function useFees(options: HookOptions, request?: HoldRequest): HookState & { fees: FeeMatrix | undefined }
export function useFees(options: HookOptions, request?: FeesRequest | HoldRequest): HookState & { fees: unknown } {
  const path = pathOf('fees', parametersOf(request ?? {}))
  const { value, ...state } = useRequest(options, path, (gas) => gas.fees(request as HoldRequest))
  return { fees: value, ...state }
}
