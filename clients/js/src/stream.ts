import { idOf } from './address.js'
import { GasSuggestionError, asError } from './errors.js'
import type { Fetch } from './http.js'
import { type StreamEvent, isHidden, join } from './shared-stream.js'
import type { Freshness } from './types.js'

interface Source<Value> {
  base: string
  /** Key or id of the chain. */
  chain: string
  fetch?: Fetch | undefined
  /** Requests the current value. */
  load: () => Promise<Value & Freshness & { chainId: number }>
  /** Returns the value of an event. Without it each event causes a request. */
  parse?: (data: string, freshness: Freshness) => Value
  show: (value: Value) => void
  fail?: ((error: GasSuggestionError) => void) | undefined
}

// Shortest time between two requests, whatever the stream contains.
const MIN_PAUSE_MS = 1_000
// A value is requested again after this long without another.
const MAX_PAUSE_MS = 15_000

/**
 * Follows a chain until the returned function is called. An event does not say how old the first value is, nor the key
 * of its chain, and a status has no value. So the current value is requested at first, then at each status.
 */
export function follow<Value>({ base, chain, fetch, load, parse, show, fail }: Source<Value>): () => void {
  if (!globalThis.TextDecoder) throw new TypeError('this runtime has no streams: call suggestion() at intervals')
  let id = idOf(chain)
  let isOver = false
  let hasFailed = false
  // Newest event, and block of the newest value that was requested.
  let newest: StreamEvent | undefined
  let loaded = -1
  // True from the begin of a request until a while after it. `isDue`: then another one is needed.
  let isBusy = false
  let isDue = false
  let timer: ReturnType<typeof setTimeout> | undefined

  /** Calls a callback. What that throws is no failure of the stream: a microtask reports it as an event listener does. */
  function report(isFailure: boolean, callback: () => void) {
    hasFailed = isFailure
    if (!isBusy) wait()
    queueMicrotask(() => isOver || callback())
  }
  const deliver = (value: Value) => report(false, () => show(value))
  const onError = (error: unknown) => report(true, () => fail?.(asError(error)))

  function wait() {
    clearTimeout(timer)
    timer = setTimeout(refresh, MAX_PAUSE_MS)
  }

  /** Requests the current value, at once or when the last request is old enough. */
  async function refresh() {
    isDue = isBusy
    if (isBusy || isHidden()) return
    isBusy = true
    clearTimeout(timer)
    const before = newest
    try {
      const value = await load()
      loaded = value.block
      // An event may have a newer one.
      if (!parse || !newest || loaded >= newest.block) deliver(value)
      if (!id) {
        id = value.chainId
        const event = membership.last.get(id)
        if (event) onEvent(event)
      }
    } catch (error) {
      onError(error)
    }
    if (isOver) return
    timer = setTimeout(() => {
      isBusy = false
      const isNewer = newest !== before && newest!.block > loaded
      if (isDue || (!parse && isNewer)) void refresh()
      else wait()
    }, MIN_PAUSE_MS)
  }

  function onEvent(event: StreamEvent) {
    const { chainId, block, data, at, isLive } = event
    if (chainId === id) {
      const isNew = event.id !== newest?.id
      newest = event
      // The value that was requested has its real age.
      if (!isLive && !hasFailed && (!isNew || block <= loaded)) return
      if (parse && isNew) {
        try {
          const age = Math.max(0, Math.floor((Date.now() - at) / 1000))
          deliver(parse(data, { block, age, isStale: false }))
        } catch (error) {
          onError(error)
        }
      }
      if (parse && isLive) return
    } else if (id || isLive) return
    // Without the id, the request for it has failed, and now the service is there again.
    if (!isBusy || hasFailed) void refresh()
  }

  const membership = join(base, fetch, ({ events = [], error, isStart, hasStatus }) => {
    if (isStart || hasStatus) void refresh()
    for (const event of events) onEvent(event)
    if (error) onError(new GasSuggestionError(...error))
  })
  return () => {
    isOver = true
    clearTimeout(timer)
    membership.leave()
  }
}
