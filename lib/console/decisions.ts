// What a user has decided when an agent asked: kept in the metadata of the run that goes on, and shown where it was asked.
import type { TranscriptMessage } from '../client/colloquy.ts'
import type { Chosen, Question, Run, RunMetadata } from './records.ts'

/** Characters of a word, of an answer, and of all that a run keeps of it. */
const FIELD_MAX = 200
const WORDS_MAX = 1000
const CHOSEN_MAX = 6000

/** Metadata of a run that goes on with an answer. It is cut where it is long: an answer is never refused because of it. */
export function answering({ id }: Question, parent: string | null, chosen: readonly Chosen[]): RunMetadata {
  const short = chosen.map((one) => ({
    ...one,
    asked: cut(one.asked, WORDS_MAX),
    words: cut(one.words, WORDS_MAX),
    fields: one.fields.map(([name, value]) => [cut(name, FIELD_MAX), cut(value, FIELD_MAX)] as const)
  }))
  const bare = () => short.map((one) => ({ ...one, words: cut(one.words, FIELD_MAX), fields: [] }))
  const kept = JSON.stringify(short).length > CHOSEN_MAX ? bare() : short
  return { parent_run: parent, answered: id, chosen: JSON.stringify(kept).length > CHOSEN_MAX ? [] : kept }
}

const cut = (text: string, max: number) => (text.length > max ? `${text.slice(0, max)}…` : text)

/** Metadata is anybody's: only what this page has written is shown. */
function isChosen(given: unknown): given is readonly Chosen[] {
  const isOne = ({ asked, words, fields }: Partial<Chosen>) =>
    typeof asked === 'string' && typeof words === 'string' && Array.isArray(fields) && fields.every(Array.isArray)
  return Array.isArray(given) && given.every((one) => one !== null && isOne(one))
}

/** A conversation whose user has answered questions. */
interface Answered {
  /** Newest first. */
  readonly runs: { readonly value: readonly Run[] }
  /** Of the run that goes on with an answer now. */
  readonly outbox: { readonly answering: { readonly value: RunMetadata | null } }
  readonly shown: { runOf(message: TranscriptMessage): string | null }
}

/** What was chosen, by the message behind which it was: of a call that has its answer as its result, nothing. */
export function decisionsIn(
  { runs, outbox, shown }: Answered,
  messages: readonly TranscriptMessage[]
): ReadonlyMap<string, readonly Chosen[]> {
  const decisions = new Map<string, readonly Chosen[]>()
  const now = outbox.answering.value
  const all = [...(now ? [{ run_id: '', metadata: now }] : []), ...runs.value]
  const answers = all.filter(({ metadata }) => isChosen(metadata.chosen))
  if (answers.length === 0) return decisions
  const calls = new Set(messages.flatMap((message) => message.calls.map(({ id }) => id)))
  // The last message of each run; '': of those whose run is unknown.
  const spoken = messages.filter(({ type }) => type !== 'tool')
  const lastOf = new Map(spoken.map((one) => [shown.runOf(one) ?? '', one.id]))
  const known = new Map(answers.map(({ run_id, metadata }) => [run_id, metadata]))
  for (const { metadata } of answers.toReversed()) {
    let place = metadata.parent_run
    // A run that has only asked again has no message of its own. What clients have written may lead in a circle.
    for (let left = answers.length; left > 0 && place && !lastOf.has(place) && known.has(place); left--)
      place = known.get(place)?.parent_run
    const at = lastOf.get(place ?? '')
    if (at !== undefined && metadata.chosen && !calls.has(metadata.answered ?? null))
      decisions.set(at, [...(decisions.get(at) ?? []), ...metadata.chosen])
  }
  return decisions
}
