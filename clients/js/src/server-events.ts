import { GasSuggestionError } from './errors.js'
import type { Message, StreamEvent } from './shared-stream.js'

// An event has about 300 bytes.
const MAX_EVENT_LENGTH = 8_192

/**
 * Returns a function that reads the next bytes of the stream of all chains and returns the events that they complete.
 * Lines end with CR, LF, or both. `onRetry` receives the milliseconds that the server asks to wait before a reconnect.
 */
export function eventReader(onRetry: (delay: number) => void): (bytes: Uint8Array) => Message {
  const decoder = new TextDecoder()
  let rest = ''
  let hasCr = false
  let name = ''
  let id = ''
  let data = ''

  return (bytes) => {
    const events: StreamEvent[] = []
    let hasStatus = false
    let text = decoder.decode(bytes, { stream: true })
    if (!text) return {}
    // The second half of a line end.
    if (hasCr && text[0] === '\n') text = text.slice(1)
    hasCr = text.endsWith('\r')
    const lines = (rest + text).split(/\r\n?|\n/)
    rest = lines.pop()!
    if (rest.length + data.length > MAX_EVENT_LENGTH) {
      throw new GasSuggestionError('invalid_response', 'an event is too long')
    }
    for (const line of lines) {
      const [, field, value = ''] = /^([^:]*):? ?([^]*)$/.exec(line)!
      if (field === 'event') name = value
      else if (field === 'data') data += value
      else if (field === 'id') id = value
      else if (field === 'retry' && /^\d+$/.test(value)) onRetry(Number(value))
      if (line) continue
      if (name === 'status') hasStatus = true
      else if (data && name === 'gas-suggestion') {
        const [, chainId, block] = /^(\d{1,20})-(\d{1,15})-[!-~]{1,99}$/.exec(id) ?? []
        if (!chainId) throw new GasSuggestionError('invalid_response', 'an event has no id')
        events.push({ chainId: Number(chainId), block: Number(block), id, data, at: Date.now(), isLive: true })
      }
      name = data = ''
    }
    return { events, hasStatus }
  }
}
