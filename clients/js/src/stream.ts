import { GasSuggestionError, asError, errorOf } from './errors.js'
import type { SubscribeOptions, Suggestion } from './types.js'

interface Source extends SubscribeOptions {
  open: (headers: Record<string, string>, signal: AbortSignal) => Promise<Response>
  /** Requests the current suggestion with its age. */
  current: () => Promise<Suggestion>
  parse: (data: string, block: number) => Suggestion
}

// The service sends a comment after 15 s without an event. Without either for this long the connection is dead.
const SILENCE_MS = 45_000
const MIN_RETRY_MS = 2_000
const MAX_RETRY_MS = 30_000
// An event has about 500 bytes.
const MAX_EVENT_LENGTH = 65_536

/**
 * Follows a stream until the returned function is called. The stream does not say how old its first event is, and a
 * status has no price. So the current suggestion is requested at each connect, at each comment and with each status.
 */
export function subscribe({ open, current, parse, onSuggestion, onError }: Source): () => void {
  let isOver = false
  let lastId = ''
  let retry = MIN_RETRY_MS
  let failures = 0
  let abort = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  // Number of the newest request for the current suggestion, and the event that came meanwhile.
  let refreshes = 0
  let isRefreshing = false
  let pending: Suggestion | undefined

  function fail(error: unknown) {
    if (!isOver) onError?.(asError(error))
  }

  async function refresh() {
    const own = ++refreshes
    isRefreshing = true
    let result: Suggestion | GasSuggestionError
    try {
      result = await current()
    } catch (error) {
      result = error as GasSuggestionError
    }
    if (isOver || own !== refreshes) return
    isRefreshing = false
    const newer = pending
    pending = undefined
    if (result instanceof GasSuggestionError) fail(result)
    else if (!newer || newer.block <= result.block) return onSuggestion(result)
    if (newer) onSuggestion(newer)
  }

  function dispatch(id: string, data: string) {
    const suggestion = parse(data, Number(id.split('-')[0]))
    lastId = id
    if (isRefreshing) pending = suggestion
    else onSuggestion(suggestion)
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
    const response = await open(headers, signal)
    if (!response.ok) throw await errorOf(response)
    if (!response.body) throw new GasSuggestionError('invalid_response', 'the stream has no body', response.status)
    failures = 0
    void refresh()
    const reader = response.body.getReader()
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
        throw new GasSuggestionError('invalid_response', 'an event is too long', response.status)
      }
      for (const line of lines) {
        const [, field, text] = /^([^:]*):? ?(.*)$/.exec(line)!
        if (line === '') {
          if (name === 'status') void refresh()
          else if (data && name === 'gas-suggestion') dispatch(id, data)
          name = data = ''
        } else if (field === '') void refresh()
        else if (field === 'event') name = text!
        else if (field === 'data') data += text
        else if (field === 'id') id = text!
        else if (field === 'retry' && Number(text) > 0) retry = Math.min(Number(text), MAX_RETRY_MS)
        if (isOver) return
      }
    }
  }

  async function run() {
    while (!isOver) {
      try {
        await follow()
      } catch (error) {
        // A suggestion from before the failure must not be delivered after it.
        refreshes++
        isRefreshing = false
        pending = undefined
        fail(error)
      }
      clearTimeout(timer)
      abort.abort()
      if (isOver) return
      // The service spreads `retry` over its clients; the first attempt needs no other jitter.
      const delay = Math.min(retry * 2 ** failures++, MAX_RETRY_MS)
      await new Promise((resolve) => {
        timer = setTimeout(resolve, delay * (failures > 1 ? 0.75 + Math.random() / 4 : 1))
      })
    }
  }

  void run()
  return () => {
    isOver = true
    clearTimeout(timer)
    abort.abort()
  }
}
