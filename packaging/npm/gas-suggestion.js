#!/usr/bin/env node
// Starts the program from the package of this platform. Signals reach the program, and its exit status is that of this
// script.

'use strict'

const { constants } = require('node:os')
const { spawn } = require('node:child_process')

const platform = `${process.platform}-${process.arch}`
let program
try {
  program = require.resolve(`gas-suggestion-cli-${platform}/gas-suggestion`)
} catch {
  console.error(
    `gas-suggestion-cli: the package gas-suggestion-cli-${platform} is not installed. There are packages for Linux and ` +
      'macOS on x64 and arm64, and npm leaves them out with --omit=optional. Elsewhere run the container image.',
  )
  process.exit(1)
}
const arguments_ = process.argv.slice(2)

// Node.js from 22.15 on can replace itself, so that no other process is left between the caller and the program.
if (process.execve) process.execve(program, [program, ...arguments_])

// A terminal sends Ctrl-C to all processes of a group. The program is in a group of its own, because a second signal would
// stop it without draining. For the same reason a signal that npm repeats is passed on once.
const child = spawn(program, arguments_, { stdio: 'inherit', detached: true })
let passed
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (passed === signal) return
    passed = signal
    setTimeout(() => (passed = undefined), 500).unref()
    child.kill(signal)
  })
}
child.on('error', (error) => {
  console.error(`gas-suggestion-cli: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
  // Reached if the signal does not end this process.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 100)
})
