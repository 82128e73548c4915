// The process in which one document of a stranger is read, and which dies of it in our place: memory that a thread asks for in one
// piece, and does not get, ends the whole process. Its main thread does nothing but watch the reader. Arguments: the path, the
// kind, bytes of memory. Says the text on stdout and ends with 0; or why there is none, and ends with something else.
import { writeSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { ReaderAnswer } from './reader.ts'

const WATCH_MS = 20

const [path, kind, memoryBytes] = process.argv.slice(2)
const file = new URL(import.meta.url.endsWith('.ts') ? './reader.ts' : './reader.js', import.meta.url)
// What libraries have to say is not the text.
let hasAnswered = false
const reader = new Worker(file, { workerData: { path, kind }, stdout: true, stderr: true })
reader.stdout.resume()
reader.stderr.resume()

reader.on('message', (answer: ReaderAnswer) => {
  hasAnswered = true
  if ('text' in answer) process.stdout.write(answer.text, () => process.exit(0))
  else end(answer.reason)
})
reader.on('error', (error) => end(error instanceof Error ? error.message : String(error)))
reader.on('exit', () => {
  if (!hasAnswered) end('')
})
setInterval(() => {
  if (process.memoryUsage.rss() > Number(memoryBytes)) end('it takes too much memory')
}, WATCH_MS)
// Who wants the text is gone.
process.stdin
  .resume()
  .on('close', () => end(''))
  .on('error', () => end(''))

/** At once: the reader may be anywhere, also where nothing but a kill stops it. */
function end(reason: string): void {
  try {
    writeSync(1, reason)
  } finally {
    process.kill(process.pid, 'SIGKILL')
  }
}
