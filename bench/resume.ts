// What does it cost when a client of another protocol comes back near the end of a long answer? Where somebody has read the run that way,
// and where nobody has: then the first reader finds his place, as on a process that has just started.
import type { Script } from './agent.ts'
import type { Options } from './options.ts'
import { median, type Row, report } from './report.ts'
import { Server } from './rig.ts'

const SCRIPT: Script = { deltas: 20_000, size: 60, rate: 0, atOnce: true }
/** Deltas that a reader has when it comes back. */
const SEEN = 0.99
/** Times a reader comes back to a run that was read before. */
const TIMES = 20
const DELTA = '"delta":'

interface Run {
  readonly thread: string
  readonly id: string
}

/** How a protocol asks for a run: all of it, or what is behind so many deltas. */
interface Way {
  whole(run: Run): string
  behind(run: Run, deltas: number, cursor: string): { readonly path: string; readonly lastId?: string }
}

const placed = (whole: Way['whole']): Way => ({
  whole,
  behind: (run, _, cursor) => ({ path: whole(run), lastId: `1:${cursor}.0` })
})

const WAYS: Readonly<Record<string, Way>> = {
  Responses: {
    whole: ({ id }) => `/v1/responses/resp_${id.replaceAll('-', '')}?stream=true`,
    // Four events come before the first delta.
    behind: ({ id }, deltas) => ({
      path: `/v1/responses/resp_${id.replaceAll('-', '')}?stream=true&starting_after=${deltas + 3}`
    })
  },
  'AI SDK': placed(({ thread }) => `/api/ai/chat/${thread}/stream`),
  'AG-UI': placed(({ thread, id }) => `/api/agui/threads/${thread}/runs/${id}`)
}

interface Sample {
  readonly firstMs: number
  readonly wallMs: number
  readonly cpuMs: number
}

async function ended(server: Server): Promise<{ readonly run: Run; readonly cursor: string }> {
  const path = await server.run(SCRIPT)
  const text = await (await server.get(path)).text()
  const [, thread = '', id = ''] = /threads\/(.*)\/runs\/(.*)\/stream/.exec(path) ?? []
  const cursors = [...text.matchAll(/^event: messages\ndata: .*\nid: (.*)$/gm)].map(([, cursor]) => cursor!)
  // Until the frames of the run are compressed, as they are for whoever comes later.
  await new Promise((resolve) => setTimeout(resolve, 1000))
  return { run: { thread, id }, cursor: cursors[SCRIPT.deltas * SEEN - 1]! }
}

async function comeBack(server: Server, way: Way, run: Run, cursor: string): Promise<Sample> {
  const seen = SCRIPT.deltas * SEEN
  const { path, lastId } = way.behind(run, seen, cursor)
  const before = await server.usage()
  const began = performance.now()
  const headers = { ...server.headers, ...(lastId !== undefined && { 'last-event-id': lastId }) }
  const answer = await fetch(server.url + path, { headers })
  const reader = answer.body!.getReader()
  const first = await reader.read()
  const firstMs = performance.now() - began
  const decoder = new TextDecoder()
  let text = decoder.decode(first.value, { stream: true })
  for (let read = await reader.read(); !read.done; read = await reader.read()) text += decoder.decode(read.value)
  const wallMs = performance.now() - began
  const cpuMs = ((await server.usage()).cpu - before.cpu) / 1000
  const deltas = text.split(DELTA).length - 1
  if (deltas !== SCRIPT.deltas - seen) throw new Error(`${deltas} deltas came behind ${seen}`)
  return { firstMs, wallMs, cpuMs }
}

async function sample(server: Server, way: Way, isKnown: boolean): Promise<Sample> {
  const { run, cursor } = await ended(server)
  if (!isKnown) return comeBack(server, way, run, cursor)
  await (await server.get(way.whole(run))).arrayBuffer()
  const all: Sample[] = []
  for (let i = 0; i < TIMES; i++) all.push(await comeBack(server, way, run, cursor))
  const mean = (of: (one: Sample) => number) => all.reduce((sum, one) => sum + of(one), 0) / all.length
  return {
    firstMs: mean(({ firstMs }) => firstMs),
    wallMs: mean(({ wallMs }) => wallMs),
    cpuMs: mean(({ cpuMs }) => cpuMs)
  }
}

export async function resume({ repeats, beside }: Options): Promise<void> {
  const server = await Server.gateway({}, false, beside)
  const rows: Row[] = []
  try {
    // The first run of a process is compiled.
    for (const way of Object.values(WAYS)) await sample(server, way, false)
    for (const [name, way] of Object.entries(WAYS))
      for (const isKnown of [true, false]) {
        const samples: Sample[] = []
        for (let i = 0; i < repeats; i++) samples.push(await sample(server, way, isKnown))
        const mid = (of: keyof Sample) => median(samples.map((one) => one[of])).text
        rows.push({
          protocol: name,
          'it was read here': isKnown ? 'yes' : 'no',
          'first event ms': mid('firstMs'),
          'to the end ms': mid('wallMs'),
          'CPU ms': mid('cpuMs')
        })
      }
  } finally {
    await server.stop()
  }
  report('What does it cost to come back at 99 % of a long answer?', { repeats, ...SCRIPT }, rows, [])
}
