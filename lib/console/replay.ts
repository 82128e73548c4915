// A run played again: frame by frame at its own pace while its frames are kept, later by its events.
import { useEffect, useRef, useState } from 'preact/hooks'
import { Transcript, type TranscriptMessage } from '../client/colloquy.ts'
import { textOf } from './api.ts'
import { html, Icon } from './html.ts'
import { LaneList, Said } from './lane-list.ts'
import { type Lane, Lanes } from './lanes.ts'
import { type Moment, record, type Recording } from './recording.ts'
import { isInFlight, type Run } from './records.ts'
import type { RunEvent } from './steps.ts'
import { count, duration } from './time.ts'

const SPEEDS = [1, 2, 5, 20] as const

/** What has been said after so many moments. Going back begins anew. */
class Playback {
  readonly #moments: readonly Moment[]
  #transcript = new Transcript()
  #lanes = new Lanes()
  #done = 0

  constructor(moments: readonly Moment[]) {
    this.#moments = moments
  }

  shownAt(count: number): { messages: readonly TranscriptMessage[]; lanes: readonly Lane[] } {
    if (count < this.#done) {
      this.#transcript = new Transcript()
      this.#lanes = new Lanes()
      this.#done = 0
    }
    for (; this.#done < count; this.#done++) {
      const { frame } = this.#moments[this.#done]!
      if (!this.#lanes.apply(frame, this.#transcript.messages)) this.#transcript.apply(frame)
    }
    return { messages: this.#transcript.messages, lanes: this.#lanes.list }
  }
}

/** How many moments have come by then. */
function countAt(moments: readonly Moment[], at: number): number {
  let [low, high] = [0, moments.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (moments[middle]!.at <= at) low = middle + 1
    else high = middle
  }
  return low
}

interface ReplayProps {
  readonly run: Run
  readonly events: readonly RunEvent[]
}

export function Replay({ run, events }: ReplayProps) {
  const [recording, setRecording] = useState<Recording | string | null>(null)
  const isOver = !isInFlight(run)
  // Whoever has no frames is played by its events, which come by themselves.
  const hasEvents = events.length > 0
  useEffect(() => {
    if (!isOver || !hasEvents) return
    const abort = new AbortController()
    record(run, events, abort.signal).then(
      setRecording,
      (error) => !abort.signal.aborted && setRecording(textOf(error))
    )
    return () => abort.abort()
  }, [run.run_id, isOver, hasEvents])
  if (!isOver) return html`<p class="hint">The run can be played again when it has ended.</p>`
  if (typeof recording === 'string') return html`<p class="problem" role="alert">${recording}</p>`
  if (recording === null) return html`<p class="hint">Loading…</p>`
  if (recording.moments.length === 0) return html`<p class="hint">Nothing of this run is kept.</p>`
  return html`<${Player} key=${run.run_id} recording=${recording} />`
}

function Player({ recording }: { readonly recording: Recording }) {
  const { moments, lasts, note } = recording
  const [position, setPosition] = useState({ at: 0, count: countAt(moments, 0) })
  const [isPlaying, setPlaying] = useState(false)
  const [speed, setSpeed] = useState<number>(1)
  const playback = useRef(new Playback(moments))
  const toTime = (at: number) => setPosition({ at, count: countAt(moments, at) })
  const toFrame = (wanted: number) => {
    const next = Math.min(moments.length, Math.max(1, wanted))
    setPlaying(false)
    setPosition({ at: moments[next - 1]!.at, count: next })
  }
  useEffect(() => {
    if (!isPlaying) return
    let last = performance.now()
    let at = position.at >= lasts ? 0 : position.at
    let frame = requestAnimationFrame(function step(now) {
      at = Math.min(lasts, at + Math.max(0, now - last) * speed)
      last = now
      toTime(at)
      if (at < lasts) frame = requestAnimationFrame(step)
      else setPlaying(false)
    })
    return () => cancelAnimationFrame(frame)
  }, [isPlaying, speed])
  const onSlide = (event: Event) => {
    setPlaying(false)
    toTime(Number((event.currentTarget as HTMLInputElement).value))
  }
  const onSpeed = (event: Event) => setSpeed(Number((event.currentTarget as HTMLSelectElement).value))
  const where = `${duration(position.at)} of ${duration(lasts)}, frame ${count(position.count)} of ${count(moments.length)}`
  const { messages, lanes } = playback.current.shownAt(position.count)
  return html`<div class="replay">
    ${note && html`<p class="hint">${note}</p>`}
    <div class="tools">
      <button class="plain" onClick=${() => setPlaying(!isPlaying)}><${Icon} name=${isPlaying ? 'stop' : 'play'} /> ${isPlaying ? 'Pause' : 'Play'}</button>
      <button class="quiet" aria-label="One frame back" onClick=${() => toFrame(position.count - 1)}><${Icon} name="left" /></button>
      <button class="quiet" aria-label="One frame on" onClick=${() => toFrame(position.count + 1)}><${Icon} name="right" /></button>
      <label class="check">Speed <select aria-label="Speed" value=${speed} onChange=${onSpeed}>${SPEEDS.map((one) => html`<option key=${one} value=${one}>${one}×</option>`)}</select></label>
      <span>${where}</span>
    </div>
    <input type="range" min="0" max=${Math.max(1, lasts)} step="any" value=${position.at} aria-label="Position in the run" aria-valuetext=${where} onInput=${onSlide} />
    <div class="replayed">
      <${Said} messages=${messages} />
      <${LaneList} lanes=${lanes} isRunning=${true} />
    </div>
  </div>`
}
