// What an agent asks as a flat form, for protocols whose clients ask their user with one, and the answer read from it. Reviews of tool
// calls are those of LangChain's human-in-the-loop middleware.
import { type Interrupt, isObject, type Json, type JsonObject } from '../base/types.ts'

/** A form of plain fields, as JSON Schema. */
export interface Form {
  readonly message: string
  readonly schema: JsonObject
  /** The answer to all that was asked, as a run resumes with it. */
  read(content: JsonObject): Json
  /** The same for who answers with words. */
  ofText(text: string): Json
  /** The same for who does not want to answer. */
  readonly declined: Json
}

/** One question: its fields by name, and its answer read from them. */
interface Asked {
  readonly message: string
  readonly fields: Readonly<Record<string, JsonObject>>
  readonly required: readonly string[]
  read(content: JsonObject): Json
  readonly declined: Json
}

const DECLINED = 'The user does not want to answer.'
const WAITING = 'The agent waits for you'

/** All questions of a run in one form. */
export function formOf(questions: readonly Interrupt[]): Form {
  const several = questions.length > 1
  const asked = questions.length === 0 ? [plain(WAITING)] : questions.map(({ value }) => askedBy(value))
  const nameOf = (at: number, name: string) => (several ? `${name}_${at + 1}` : name)
  const fields = asked.flatMap(({ fields }, at) =>
    Object.entries(fields).map(([name, field]) => [nameOf(at, name), field] as const)
  )
  const required = asked.flatMap(({ required }, at) => required.map((name) => nameOf(at, name)))
  const each = (answerOf: (one: Asked, at: number) => Json): Json =>
    several ? Object.fromEntries(questions.map(({ id }, at) => [id, answerOf(asked[at]!, at)])) : answerOf(asked[0]!, 0)
  return {
    message: asked.map(({ message }, at) => (several ? `${at + 1}. ${message}` : message)).join('\n\n'),
    schema: { type: 'object', properties: Object.fromEntries(fields), required },
    read: (content) =>
      each((one, at) =>
        one.read(Object.fromEntries(Object.keys(one.fields).map((name) => [name, content[nameOf(at, name)] ?? null])))
      ),
    ofText: (text) => each((one) => one.read({ answer: text })),
    declined: each((one) => one.declined)
  }
}

function askedBy(value: Json): Asked {
  if (typeof value === 'string') return plain(value)
  const calls = reviewedIn(value)
  if (calls.length > 0) return review(calls)
  const { question, options } = isObject(value) ? value : {}
  if (typeof question !== 'string')
    return { ...plain(`${WAITING}: ${JSON.stringify(value)}`), read: ({ answer }) => jsonOr(answer ?? null) }
  const choices = Array.isArray(options) ? options.filter((one) => typeof one === 'string' && one.trim() !== '') : []
  return plain(question, choices)
}

function plain(message: string, choices: readonly Json[] = []): Asked {
  const field = { type: 'string', title: 'Your answer', ...(choices.length > 0 && { enum: [...choices] }) }
  return {
    message,
    fields: { answer: field },
    required: ['answer'],
    read: ({ answer }) => answer ?? '',
    declined: DECLINED
  }
}

/** A graph that asks with an object may expect one. */
function jsonOr(text: Json): Json {
  if (typeof text !== 'string') return text
  try {
    return JSON.parse(text) as Json
  } catch {
    return text
  }
}

// --------------------------------------------------------------------------------------------------- reviews

interface Reviewed {
  readonly name: string
  readonly text: string
  readonly decisions: readonly string[]
}

/** Decisions that need no more than a text: one who edits the arguments answers in the form of the question. */
const DECISIONS = ['approve', 'reject', 'respond']

function reviewedIn(value: Json): Reviewed[] {
  if (!isObject(value) || !Array.isArray(value.action_requests)) return []
  const configs = Array.isArray(value.review_configs) ? value.review_configs.filter(isObject) : []
  return value.action_requests.filter(isObject).map(({ name, args, description }) => {
    const allowed = configs.find(({ action_name }) => action_name === name)?.allowed_decisions
    const decisions = DECISIONS.filter((one) => (Array.isArray(allowed) ? allowed.includes(one) : one !== 'respond'))
    const about = typeof description === 'string' && description !== '' ? description : JSON.stringify(args ?? {})
    return { name: String(name), text: `May ${String(name)} be called? ${about}`, decisions }
  })
}

function review(calls: readonly Reviewed[]): Asked {
  const several = calls.length > 1
  const nameOf = (name: string, at: number) => (several ? `${name}_of_${at + 1}` : name)
  const fields = calls.flatMap(({ name, decisions }, at): [string, JsonObject][] => [
    [nameOf('decision', at), { type: 'string', title: name, enum: [...decisions] }],
    [nameOf('reason', at), { type: 'string', title: `Why, or what to say of ${name}` }]
  ])
  const decided = (type: Json | undefined, reason: Json | undefined): JsonObject =>
    type === 'approve'
      ? { type }
      : { type: type ?? 'reject', ...(typeof reason === 'string' && reason !== '' && { message: reason }) }
  return {
    message: calls.map(({ text }) => text).join('\n'),
    fields: Object.fromEntries(fields),
    required: calls.map((_, at) => nameOf('decision', at)),
    read(content) {
      // Words alone: anything but a yes is a reason against.
      const { answer } = content
      const words = typeof answer === 'string' ? answer : null
      const said = words !== null && (/^\s*(approve|yes|y|ok)\s*$/i.test(words) ? ['approve', null] : ['reject', words])
      const decisions = calls.map((_, at) =>
        said ? decided(said[0], said[1]) : decided(content[nameOf('decision', at)], content[nameOf('reason', at)])
      )
      return { decisions }
    },
    declined: { decisions: calls.map(() => ({ type: 'reject', message: DECLINED })) }
  }
}
