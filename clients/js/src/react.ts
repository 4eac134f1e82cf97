import { useCallback, useSyncExternalStore } from 'react'
import { chainName, serviceUrl } from './address.js'
import { createGasClient } from './client.js'
import type { GasSuggestionError } from './errors.js'
import type { GasClientOptions, Suggestion } from './types.js'

/** Everything is `undefined` until the first response. */
export interface GasSuggestionState {
  suggestion: Suggestion | undefined
  block: number | undefined
  /** Age of the suggestion in seconds. It grows until the next one. */
  age: number | undefined
  isStale: boolean | undefined
  /** Set from a failure until the next suggestion, which a reconnect brings. `suggestion` is kept meanwhile. */
  error: GasSuggestionError | undefined
}

const EMPTY: GasSuggestionState = {
  suggestion: undefined,
  block: undefined,
  age: undefined,
  isStale: undefined,
  error: undefined,
}

/** The stream of one chain, which all components share: a browser allows six connections to a server. */
interface Store {
  state: GasSuggestionState
  listeners: Set<() => void>
  stop: () => void
}

const stores = new Map<string, Store>()

function openStore(options: GasClientOptions): Store {
  let receivedAt = 0
  const set = (state: GasSuggestionState) => {
    store.state = state
    for (const listener of store.listeners) listener()
  }
  const unsubscribe = createGasClient(options).subscribe({
    onSuggestion(suggestion) {
      receivedAt = Date.now()
      const { block, age, isStale } = suggestion
      set({ suggestion, block, age, isStale, error: undefined })
    },
    onError: (error) => set({ ...store.state, error }),
  })
  const timer = setInterval(() => {
    const { suggestion, age } = store.state
    if (!suggestion) return
    const now = suggestion.age + Math.max(0, Math.floor((Date.now() - receivedAt) / 1000))
    if (now !== age) set({ ...store.state, age: now })
  }, 1000)
  const store: Store = {
    state: EMPTY,
    listeners: new Set(),
    stop() {
      clearInterval(timer)
      unsubscribe()
    },
  }
  return store
}

/** Follows a chain, block by block, while the component is mounted. */
export function useGasSuggestion({ url, chain }: Pick<GasClientOptions, 'url' | 'chain'>): GasSuggestionState {
  const key = `${serviceUrl(url)}/v1/${chainName(chain)}`
  const subscribe = useCallback(
    (listener: () => void) => {
      const store = stores.get(key) ?? openStore({ url, chain })
      stores.set(key, store)
      store.listeners.add(listener)
      return () => {
        store.listeners.delete(listener)
        if (store.listeners.size > 0) return
        store.stop()
        stores.delete(key)
      }
    },
    // `key` stands for `url` and `chain`.
    [key],
  )
  const state = () => stores.get(key)?.state ?? EMPTY
  return useSyncExternalStore(subscribe, state, () => EMPTY)
}
