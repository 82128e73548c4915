// An ended run as moments with times, for the replay: its stored frames from the server, or its events where those are gone.
import type { Frame } from '../client/colloquy.ts'
import { beside, call } from './api.ts'
import type { Run } from './records.ts'
import type { RunEvent } from './steps.ts'
import { count } from './time.ts'

/** Something that happened in a run. */
export interface Moment {
  /** In ms after the first one. */
  readonly at: number
  readonly frame: Frame
}

export interface Recording {
  readonly moments: readonly Moment[]
  readonly lasts: number
  /** What is not as it was, in words; null: all is. */
  readonly note: string | null
}

interface FrameTime {
  readonly n: number
  readonly at: string
}

/** Frames of one recording: what an hour of words has. */
const FRAMES_MAX = 50_000
const MODES = ['messages-tuple', 'custom']

export async function record(run: Run, events: readonly RunEvent[], signal: AbortSignal): Promise<Recording> {
  const frames = await framesOf(run, signal)
  if (frames.length === 0) return ofEvents(events)
  const times = await timesOf(run, signal)
  const note =
    times.length === 0
      ? 'When its frames came is not known: they are spread evenly.'
      : frames.length === FRAMES_MAX
        ? `Only the first ${count(FRAMES_MAX)} frames are shown.`
        : null
  const lasts = Date.parse(run.updated_at) - Date.parse(run.created_at)
  return recordingOf(
    times.length > 0 ? timed(frames, times) : frames.map((frame, i) => ({ at: (lasts * i) / frames.length, frame })),
    note
  )
}

/** The kept frames of a run that has ended, as far as they are shown; none: they are gone. */
export async function framesOf(run: Run, signal: AbortSignal): Promise<Frame[]> {
  const frames: Frame[] = []
  const stream = beside.watch(run, { modes: MODES, signal })
  for await (const frame of stream) {
    if (frame.event === 'gap') break
    if (frame.id !== null) frames.push(frame)
    if (frames.length === FRAMES_MAX) break
  }
  stream.close()
  return frames
}

async function timesOf({ thread_id, run_id }: Run, signal: AbortSignal): Promise<FrameTime[]> {
  const times: FrameTime[] = []
  for (let from: number | null = 0; from !== null && times.length < FRAMES_MAX; ) {
    const path = `/api/threads/${thread_id}/runs/${run_id}/frames?limit=2000&from=${from}`
    const page: { times: FrameTime[]; next: number | null } = await call('GET', path, undefined, signal)
    times.push(...page.times)
    from = page.next
  }
  return times
}

/** Each frame with the time of the newest entry up to it: both are in order. */
function timed(frames: readonly Frame[], times: readonly FrameTime[]): Moment[] {
  let next = 0
  let at = Date.parse(times[0]!.at)
  return frames.map((frame) => {
    const n = Number(frame.id!.split('-')[1])
    while (next < times.length && times[next]!.n <= n) at = Math.max(at, Date.parse(times[next++]!.at))
    return { at, frame }
  })
}

/** What its durable log has: whole messages, when they were complete. */
function ofEvents(events: readonly RunEvent[]): Recording {
  const messages = events.filter(({ category, content }) => category === 'message' && typeof content === 'object')
  const moments = messages.map(({ content, created_at }) => ({
    at: Date.parse(created_at),
    frame: { event: 'messages', data: [content, {}], id: null }
  }))
  return recordingOf(moments, 'Its frames are no longer kept: it is played by its events.')
}

function recordingOf(moments: readonly Moment[], note: string | null): Recording {
  const begin = moments[0]?.at ?? 0
  return {
    moments: moments.map(({ at, frame }) => ({ at: at - begin, frame })),
    lasts: (moments.at(-1)?.at ?? 0) - begin,
    note
  }
}
