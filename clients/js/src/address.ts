import type { GasClientOptions } from './types.js'

/** Returns the service's URL without a slash at its end. Throws a `TypeError` if it cannot be right. */
export function serviceUrl(url: GasClientOptions['url']): string {
  const text = String(url ?? '').trim()
  if (!/^(https?:\/)?\//i.test(text)) throw new TypeError('url must begin with http:// or https://')
  if (/^[^/]*\/\/[^/]*@|[\s?#\\]/.test(text)) throw new TypeError('url must have no password, blank, query or fragment')
  // Throws a `TypeError` for the rest, such as a port that is no number.
  new URL(text, 'http://localhost')
  return text.replace(/\/+$/, '')
}

/** Returns the chain as a segment of a path. Throws a `TypeError` if it cannot be right. */
export function chainName(chain: GasClientOptions['chain']): string {
  const name = String(chain ?? '').trim()
  // `undefined` and the like come from templates and environments.
  const pattern = typeof chain === 'string' ? /^(?!(?:undefined|null|NaN)$)[\w-]+$/ : /^[1-9]\d*$/
  if (typeof chain === 'object' || !pattern.test(name)) {
    throw new TypeError(`chain must be a key or a chain id, not \`${chain}\``)
  }
  return name
}

/** Returns the chain id, or `undefined` for the key of a chain. */
export const idOf = (chain: string) => (/^\d+$/.test(chain) ? Number(chain) : undefined)
