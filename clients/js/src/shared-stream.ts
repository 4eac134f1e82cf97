import { GasSuggestionError, type GasSuggestionErrorCode, asError } from './errors.js'
import { type Fetch, request } from './http.js'
import { eventReader } from './server-events.js'

/** A suggestion as the stream sent it. */
export interface StreamEvent {
  chainId: number
  block: number
  id: string
  data: string
  /** Time of its arrival, in milliseconds. */
  at: number
  /** False for the first event of a chain on a connection, and for one that arrived before the reader came. */
  isLive: boolean
}

/** Message of the page with the stream to its own readers and to other pages. */
export interface Message {
  events?: StreamEvent[]
  /** True when the status of a chain has changed. It has the key of the chain, which most readers do not know. */
  hasStatus?: boolean
  /** Arguments of a `GasSuggestionError`. */
  error?: [GasSuggestionErrorCode, string, number | undefined]
  /** True when this page begins to follow the stream, also when it is shown again. */
  isStart?: boolean
  /** True when a page that has just come asks for the last events. */
  isQuestion?: boolean
}

export type Reader = (message: Message) => void

export interface Membership {
  /** Removes the reader. */
  leave: () => void
  /** Newest event of each chain, by chain id, with `isLive` false. */
  last: ReadonlyMap<number, StreamEvent>
}

// The service sends a comment after 15 s without an event. Without either for this long the connection is dead.
const SILENCE_MS = 45_000
// Shortest time between two connects, whatever the stream contains.
const MIN_RETRY_MS = 1_000
const FIRST_RETRY_MS = 2_000
const MAX_RETRY_MS = 30_000
// A stream that ended sooner counts as another failure.
const STABLE_MS = 10_000
// Bounds the memory that a server can take.
const MAX_CHAINS = 1_000

interface SharedStream {
  url: string
  given: Fetch | undefined
  add: (reader: Reader) => Membership
}

const streams = new Set<SharedStream>()

export const isHidden = () => globalThis.document?.visibilityState === 'hidden'

/**
 * Adds a reader to the stream of all chains of the service at `base`, which all readers in this browser share: a
 * browser allows six connections to a server. A hidden page does not follow it.
 */
export function join(base: string, given: Fetch | undefined, reader: Reader): Membership {
  const { href: url } = new URL(`${base}/v1/gas-suggestions/stream`, globalThis.location?.href)
  const stream = [...streams].find((one) => one.url === url && one.given === given) ?? createStream(url, given)
  return stream.add(reader)
}

/** Opens a channel, if the browser has them. One that refuses cookies may throw. */
function openChannel(name: string): BroadcastChannel | undefined {
  try {
    return new BroadcastChannel(name)
  } catch {}
}

/**
 * One page at a time holds a lock. It has the connection, and posts what it receives to the other pages. The next one
 * gets the lock when that page is closed or hidden. Without locks, or with a `fetch` of its own, each page has a
 * connection.
 */
function createStream(url: string, given: Fetch | undefined): SharedStream {
  const page = globalThis.document
  const readers = new Set<Reader>()
  const last = new Map<number, StreamEvent>()
  // Set while the page follows the stream.
  let abort: AbortController | undefined
  let channel: BroadcastChannel | undefined
  let isLeader = false
  // Ends what `lead` waits for.
  let cancel = () => {}

  function receive(message: Message) {
    // What was said before is no longer known to hold.
    if (message.error || message.hasStatus) last.clear()
    for (const event of message.events ?? []) {
      // The next page that asks gets it late.
      last.set(event.chainId, { ...event, isLive: false })
      if (last.size > MAX_CHAINS) last.delete(last.keys().next().value!)
    }
    for (const reader of readers) reader(message)
  }

  const known = () => ({ events: [...last.values()] })

  /** Passes a message on to the readers of this page and to other pages. */
  function publish(message: Message) {
    channel?.postMessage(message)
    receive(message)
  }

  /** Follows the stream with a connection of this page, and connects again after each failure. */
  async function lead(signal: AbortSignal) {
    let retry = FIRST_RETRY_MS
    let failures = 0
    while (!signal.aborted) {
      isLeader = true
      const begin = Date.now()
      const connection = new AbortController()
      cancel = () => connection.abort()
      let timer: ReturnType<typeof setTimeout> | undefined
      const touch = () => {
        clearTimeout(timer)
        timer = setTimeout(() => connection.abort(new Error('the stream is silent')), SILENCE_MS)
      }
      try {
        touch()
        const { body } = await request(given, url, { signal: connection.signal })
        if (!body) throw new GasSuggestionError('invalid_response', 'no body')
        const reader = body.getReader()
        const read = eventReader((delay) => (retry = Math.max(delay, MIN_RETRY_MS)))
        last.clear()
        for (;;) {
          const { done, value } = await reader.read()
          if (done) throw new GasSuggestionError('network_error', 'the stream ended')
          touch()
          const message = read(value)
          for (const event of message.events ?? []) event.isLive = last.has(event.chainId)
          publish(message)
        }
      } catch (thrown) {
        clearTimeout(timer)
        connection.abort()
        if (signal.aborted) return
        const { code, message, status } = asError(thrown)
        publish({ error: [code, message, status] })
      }
      if (Date.now() - begin > STABLE_MS) failures = 0
      // The service spreads `retry` over its clients; the first attempt needs no other jitter.
      const jitter = failures > 0 ? 0.75 + Math.random() / 4 : 1
      const delay = Math.min(retry * 2 ** failures++, MAX_RETRY_MS) * jitter
      await new Promise<void>((resolve) => {
        timer = setTimeout(resolve, delay)
        cancel = resolve
      })
      clearTimeout(timer)
    }
  }

  function start() {
    const { signal } = (abort = new AbortController())
    const locks = given ? undefined : globalThis.navigator?.locks
    const own = locks && openChannel(`gas-suggestion:1:${url}`)
    if (own) {
      channel = own
      own.onmessage = ({ data }: MessageEvent<Message>) => {
        if (data.isQuestion && isLeader) own.postMessage(known())
        receive(data)
      }
      own.postMessage({ isQuestion: true })
      // A page in a sandbox may not have locks.
      locks
        .request(own.name, { signal }, () => lead(signal))
        .catch(() => {
          own.close()
          if (channel === own) channel = undefined
          return lead(signal)
        })
    } else void lead(signal)
    receive({ isStart: true })
  }

  function stop() {
    abort?.abort()
    cancel()
    channel?.close()
    last.clear()
    abort = channel = undefined
    isLeader = false
  }

  function update() {
    const isOn = readers.size > 0 && !isHidden()
    if (isOn && !abort) start()
    if (!isOn && abort) stop()
  }

  const stream: SharedStream = {
    url,
    given,
    add(reader) {
      streams.add(stream)
      page?.addEventListener('visibilitychange', update)
      readers.add(reader)
      if (abort) reader({ ...known(), isStart: true })
      else update()
      const leave = () => {
        readers.delete(reader)
        update()
        if (readers.size > 0) return
        page?.removeEventListener('visibilitychange', update)
        streams.delete(stream)
      }
      return { leave, last }
    },
  }
  return stream
}
