// Lets generated clients parse the responses of `demo`: tests/generators.sh says which.
//
//     node generators.mjs PROGRAM FOLDER
//
// It also writes FOLDER/responses.ts, which assigns each response to the type of openapi-typescript.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const [program, folder] = process.argv.slice(2)

/** Starts `demo` on a free port. Resolves to the process and its URL once it has a suggestion. */
async function startDemo() {
    const args = ['demo', '--block-time', '1h', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
    const service = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { GAS_LOG__FORMAT: 'json' } })
    for await (const line of createInterface({ input: service.stderr })) {
        const { message, address } = JSON.parse(line)
        if (message !== 'listening') continue
        service.stderr.resume()
        const url = `http://${address}`
        const deadline = Date.now() + 10_000
        while (!(await fetch(`${url}/v1/ethereum/gas-suggestion`)).ok) assert(Date.now() < deadline, 'demo has no data')
        return { service, url }
    }
    throw new Error('demo ended')
}

/** Returns the operations by GET that answer with JSON, with a value for each parameter that they need. */
function operations(document) {
    const resolve = (value) =>
        value.$ref ? value.$ref.split('/').slice(1).reduce((node, key) => node[key], document) : value
    const values = { chain: 'ethereum', chain_id: '1', gas_price: '1' }
    // A limit that the price is always below, so that `wait` answers at once.
    const example = ({ name, example }) => (name === 'below' ? '1000000000000000' : example)
    const value = (parameter) => example(parameter) ?? values[parameter.name] ?? parameter.schema.enum?.[0]
    const found = []
    for (const [path, { get }] of Object.entries(document.paths)) {
        if (!get || !resolve(get.responses[200] ?? {}).content?.['application/json']) continue
        // A replacement needs a fee, but which of its parameters have it is up to the caller.
        const isNeeded = ({ name, required, in: place }) => (required && place !== 'header') || name === 'gas_price'
        const needed = (get.parameters ?? []).map(resolve).filter(isNeeded)
        const parameters = needed.map((parameter) => ({ ...parameter, value: value(parameter) ?? 'any' }))
        found.push({ path, id: get.operationId, parameters })
    }
    return found
}

const camelCase = (name) => name.replace(/[_-]+(\w)/g, (_, letter) => letter.toUpperCase())

const { service, url } = await startDemo()
try {
    const found = operations(await (await fetch(`${url}/openapi.json`)).json())
    assert(found.length > 20, `${found.length} operations`)

    const lines = ['import type { paths } from "./types"']
    for (const [index, { path, parameters }] of found.entries()) {
        const filled = parameters.reduce((text, { name, in: place, value }) =>
            place === 'path' ? text.replace(`{${name}}`, value) : text, path)
        const query = new URLSearchParams(parameters.filter((it) => it.in === 'query').map((it) => [it.name, it.value]))
        const response = await fetch(`${url}${filled}?${query}`)
        assert.equal(response.status, 200, `${filled}?${query}`)
        const type = `paths[${JSON.stringify(path)}]["get"]["responses"][200]["content"]["application/json"]`
        // openapi-typescript reads an object of any members as one without members.
        if (path === '/openapi.json') continue
        lines.push(`export const response${index}: ${type} = ${await response.text()}`)
    }
    writeFileSync(`${folder}/responses.ts`, `${lines.join('\n')}\n`)

    // The compiler leaves the endings of imports as they are, and Node needs them.
    const { register } = await import('node:module')
    register(`data:text/javascript,${encodeURIComponent(`
        export async function resolve(name, context, next) {
            for (const ending of ['', '.js', '/index.js']) try { return await next(name + ending, context) } catch (error) {
                if (ending === '/index.js') throw error
            }
        }`)}`)
    for (const kind of ['fetch', 'orval']) writeFileSync(`${folder}/${kind}/package.json`, '{"type":"module"}')
    const fetchClient = await import(`${folder}/fetch/js/index.js`)
    const configuration = new fetchClient.Configuration({ basePath: url })
    const apis = Object.entries(fetchClient).filter(([name]) => name.endsWith('Api')).map(([, Api]) => new Api(configuration))
    const orvalClient = await import(`${folder}/orval/js/client.js`)
    const plainFetch = globalThis.fetch
    for (const { id, parameters } of found) {
        const api = apis.find((candidate) => id in candidate)
        assert(api, `typescript-fetch has no ${id}`)
        await api[id](Object.fromEntries(parameters.map(({ name, value }) => [camelCase(name), value])))
        globalThis.fetch = (path, options) => plainFetch(new URL(path, url), options)
        const places = parameters.filter((it) => it.in === 'path').map((it) => it.value)
        const query = parameters.filter((it) => it.in === 'query')
        if (query.length > 0) places.push(Object.fromEntries(query.map(({ name, value }) => [name, value])))
        const { status } = await orvalClient[id](...places)
        assert.equal(status, 200, `orval: ${id}`)
        globalThis.fetch = plainFetch
    }
    console.log(`typescript-fetch and orval parsed the responses of ${found.length} operations`)
} finally {
    service.kill()
    await once(service, 'exit')
}
