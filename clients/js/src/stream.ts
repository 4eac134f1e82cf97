import { GasSuggestionError, asError } from './errors.js'
import type { SubscribeOptions, Suggestion } from './types.js'

interface Source extends SubscribeOptions {
  open: (headers: Record<string, string>, signal: AbortSignal) => Promise<Response>
  /** Requests the current suggestion with its age. */
  current: () => Promise<Suggestion>
  /** Throws an error if `data` is no suggestion, or `block` no number. */
  parse: (data: string, block: string) => Suggestion
}

// The service sends a comment after 15 s without an event. Without either for this long the connection is dead.
const SILENCE_MS = 45_000
// Shortest time between two connects, and between two requests, whatever the stream contains.
const MIN_PAUSE_MS = 1_000
const FIRST_RETRY_MS = 2_000
const MAX_RETRY_MS = 30_000
// A stream that ended sooner counts as another failure.
const STABLE_MS = 10_000
// An event has about 500 bytes.
const MAX_EVENT_LENGTH = 65_536

/**
 * Follows a stream until the returned function is called. The stream does not say how old its first event is, and a
 * status has no price. So the current suggestion is requested at each connect, at each comment and with each status.
 */
export function subscribe({ open, current, parse, ...callbacks }: Source): () => void {
  if (typeof callbacks.onSuggestion !== 'function') throw new TypeError('onSuggestion must be a function')
  if (!globalThis.TextDecoder) throw new TypeError('this runtime has no streams: call suggestion() at intervals')
  let isOver = false
  let lastId = ''
  let retry = FIRST_RETRY_MS
  let failures = 0
  let abort = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  // Set for a while after each request for the current suggestion.
  let gate: ReturnType<typeof setTimeout> | undefined
  let isDue = false
  // Number of the newest of these requests, and the event that came meanwhile.
  let refreshes = 0
  let isRefreshing = false
  let pending: Suggestion | undefined

  function call<Value>(callback: ((value: Value) => void) | undefined, value: Value) {
    if (isOver) return
    try {
      callback?.(value)
    } catch (error) {
      // An exception of a callback is no failure of the stream. It is reported as that of an event listener is.
      setTimeout(() => {
        throw error
      })
    }
  }
  const show = (suggestion: Suggestion) => call(callbacks.onSuggestion, suggestion)
  const fail = (error: unknown) => call(callbacks.onError, asError(error))

  /** Requests the current suggestion, at once or when the last request is over and old enough. */
  function refresh() {
    isDue = gate !== undefined || isRefreshing
    if (isDue || isOver) return
    gate = setTimeout(() => {
      gate = undefined
      if (isDue) refresh()
    }, MIN_PAUSE_MS)
    void load()
  }

  async function load() {
    const own = ++refreshes
    isRefreshing = true
    let result: Suggestion | undefined
    let error: unknown
    try {
      result = await current()
    } catch (thrown) {
      error = thrown
    }
    if (isOver || own !== refreshes) return
    isRefreshing = false
    if (error) fail(error)
    const newest = pending && !(result && pending.block <= result.block) ? pending : result
    pending = undefined
    if (newest) show(newest)
    if (isDue) refresh()
  }

  function dispatch(id: string, data: string) {
    // The id becomes a header.
    const [, block = ''] = /^(\d+)-[!-~]{1,99}$/.exec(id) ?? []
    const suggestion = parse(data, block)
    lastId = id
    if (isRefreshing) pending = suggestion
    else show(suggestion)
  }

  async function follow() {
    const { signal } = (abort = new AbortController())
    const touch = () => {
      clearTimeout(timer)
      timer = setTimeout(() => abort.abort(new Error('the stream is silent')), SILENCE_MS)
    }
    touch()
    const headers: Record<string, string> = { accept: 'text/event-stream' }
    if (lastId) headers['last-event-id'] = lastId
    const { body, status } = await open(headers, signal)
    if (!body) throw new GasSuggestionError('invalid_response', 'the stream has no body', status)
    refresh()
    const reader = body.getReader()
    const decoder = new TextDecoder()
    let rest = ''
    let name = ''
    let id = ''
    let data = ''
    for (;;) {
      const { done, value } = await reader.read()
      if (done) throw new GasSuggestionError('network_error', 'the stream ended')
      touch()
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r?\n/)
      rest = lines.pop()!
      if (rest.length + data.length > MAX_EVENT_LENGTH) {
        throw new GasSuggestionError('invalid_response', 'an event is too long', status)
      }
      for (const line of lines) {
        const [, field, text] = /^([^:]*):? ?(.*)$/.exec(line)!
        if (line === '') {
          if (name === 'status') refresh()
          else if (data && name === 'gas-suggestion') dispatch(id, data)
          name = data = ''
        } else if (field === '') refresh()
        else if (field === 'event') name = text!
        else if (field === 'data') data += text
        else if (field === 'id') id = text!
        else if (field === 'retry' && /^\d+$/.test(text!)) retry = Math.max(Number(text), MIN_PAUSE_MS)
        if (isOver) return
      }
    }
  }

  async function run() {
    while (!isOver) {
      const begin = Date.now()
      try {
        await follow()
      } catch (error) {
        // A suggestion from before the failure must not be delivered after it.
        refreshes++
        isRefreshing = isDue = false
        pending = undefined
        fail(error)
      }
      clearTimeout(timer)
      abort.abort()
      if (isOver) return
      if (Date.now() - begin > STABLE_MS) failures = 0
      // The service spreads `retry` over its clients; the first attempt needs no other jitter.
      const jitter = failures > 0 ? 0.75 + Math.random() / 4 : 1
      const delay = Math.min(retry * 2 ** failures++, MAX_RETRY_MS) * jitter
      await new Promise((resolve) => {
        timer = setTimeout(resolve, delay)
      })
    }
  }

  void run()
  return () => {
    isOver = true
    clearTimeout(timer)
    clearTimeout(gate)
    abort.abort()
  }
}
