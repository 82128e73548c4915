// The work on one run as far as it has come: its conversation and its channels, and what is recorded of both.
import type { Json, Message } from '../base/types.ts'
import type { Budget } from '../base/budget.ts'
import { type Picture, RunPictures } from './pictures.ts'
import { type AgentInput, type AgentRecord, RunCut, type Sink } from './runtime.ts'

/** Of an agent, for all its runs. */
export interface Shared {
  /** Its process is about to end. */
  readonly leaving: { readonly isAsked: boolean }
  /** What images that tools make may take. */
  readonly pictureBudget: Budget
}

export class Work {
  readonly input: AgentInput
  readonly signal: AbortSignal
  readonly messages: Message[]
  channels: Readonly<Record<string, Json>>
  /** Channels changed since the last step. */
  isChanged = false
  readonly #sink: Sink
  readonly #leaving: Shared['leaving']
  readonly #pictureBudget: Budget
  /** Made by the run's tools; null: none, as in most runs. */
  pictures: RunPictures | null = null

  /** @param begun where it begins */
  constructor(
    input: AgentInput,
    begun: Pick<AgentInput, 'messages' | 'channels'>,
    sink: Sink,
    signal: AbortSignal,
    { leaving, pictureBudget }: Shared
  ) {
    this.input = input
    this.signal = signal
    this.messages = [...begun.messages]
    this.channels = begun.channels
    this.#sink = sink
    this.#leaving = leaving
    this.#pictureBudget = pictureBudget
  }

  /** Keeps records, which are stored together, and waits when the log is full. Nothing is kept after an abort. */
  async record(...records: readonly AgentRecord[]): Promise<void> {
    this.signal.throwIfAborted()
    let hasSpace = true
    for (const record of records) {
      hasSpace = this.#sink.record(record)
      if (record.type === 'update') this.#update(record.channels)
      else if (record.type === 'step') this.isChanged = false
    }
    if (!hasSpace) await this.#sink.space()
    this.signal.throwIfAborted()
  }

  keepPictures(resultId: string, pictures: readonly Picture[]): void {
    this.pictures ??= new RunPictures(this.#pictureBudget.share(this.input.userId ?? ''))
    this.pictures.add(resultId, pictures)
  }

  step(node: string): Promise<void> {
    return this.record({ type: 'step', node })
  }

  #update(channels: Readonly<Record<string, Json>>): void {
    this.channels = { ...this.channels, ...channels }
    this.isChanged = true
  }

  /** Resolves when all records are stored. */
  async flushed(): Promise<void> {
    await this.#sink.flushed()
    this.signal.throwIfAborted()
  }

  /** @throws RunCut when the process stops and another attempt can do the rest */
  leaveIfAsked(): void {
    if (this.#leaving.isAsked && this.input.goesOn)
      throw new RunCut('drain', 'AgentInterrupted', 'The gateway was stopped')
  }
}
