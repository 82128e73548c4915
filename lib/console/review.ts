// Tool calls that an agent wants to make, one card for each: approve, edit its arguments, reject with a reason. It reads LangChain's
// human-in-the-loop requests and those of agent-inbox, and answers in their own form.
import { useState } from 'preact/hooks'
import { html } from './html.ts'
import type { Chosen } from './records.ts'
import { t } from './words.ts'

type Json = unknown
type Args = Readonly<Record<string, Json>>

/** What may be done with a call, in the words of LangChain. */
type Choice = 'approve' | 'edit' | 'reject' | 'respond'

interface Asked {
  readonly name: string
  readonly args: Args
  readonly description: string
  readonly choices: readonly Choice[]
  /** What its schema says of each argument, by name, where it came with one. */
  readonly schema: Readonly<Record<string, Args>>
  readonly required: readonly Json[]
}

interface Review {
  readonly calls: readonly Asked[]
  /** The answer to the question, from one decision for each call. */
  readonly answer: (decisions: readonly Decision[]) => Json
}

export interface Decision {
  readonly choice: Choice
  readonly name: string
  readonly args: Args
  readonly reason: string
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** null: the question is about something else. */
export function reviewIn(value: unknown): Review | null {
  return fromLangChain(value) ?? fromAgentInbox(value)
}

/** `{action_requests: [{name, args, description}], review_configs: [{action_name, allowed_decisions, args_schema}]}`, also in camel case. */
function fromLangChain(value: unknown): Review | null {
  if (!isRecord(value)) return null
  const requests = value.action_requests ?? value.actionRequests
  const configs = value.review_configs ?? value.reviewConfigs
  if (!Array.isArray(requests) || requests.length === 0) return null
  const isCamel = value.action_requests === undefined
  const calls = requests.filter(isRecord).map(({ name, args, arguments: others, description }): Asked => {
    const config = (Array.isArray(configs) ? configs.filter(isRecord) : []).find(
      (one) => (one.action_name ?? one.actionName) === name
    )
    const allowed = config?.allowed_decisions ?? config?.allowedDecisions
    const choices = Array.isArray(allowed) ? CHOICES.filter((one) => allowed.includes(one)) : DEFAULT_CHOICES
    const schema = schemaIn(config?.args_schema ?? config?.argsSchema)
    return { name: String(name), args: argsIn(args ?? others), description: textIn(description), choices, ...schema }
  })
  const decided = ({ choice, name, args, reason }: Decision) => {
    if (choice === 'edit') return { type: 'edit', [isCamel ? 'editedAction' : 'edited_action']: { name, args } }
    if (choice === 'approve') return { type: 'approve' }
    return { type: choice, ...(reason && { message: reason }) }
  }
  return { calls, answer: (decisions) => ({ decisions: decisions.map(decided) }) }
}

/** `[{action_request: {action, args}, config: {allow_accept, allow_edit, allow_respond, allow_ignore}, description}]`, or one of them. */
function fromAgentInbox(value: unknown): Review | null {
  const list = (Array.isArray(value) ? value : [value]).filter(isRecord)
  if (list.length === 0 || !list.every((one) => isRecord(one.action_request))) return null
  const calls = list.map(({ action_request, config, description }): Asked => {
    const { action, args } = action_request as Record<string, unknown>
    const allow = isRecord(config) ? config : {}
    const choices: Choice[] = [
      ...(allow.allow_accept ? (['approve'] as const) : []),
      ...(allow.allow_edit ? (['edit'] as const) : []),
      ...(allow.allow_respond ? (['respond'] as const) : []),
      ...(allow.allow_ignore ? (['reject'] as const) : [])
    ]
    return { name: String(action), args: argsIn(args), description: textIn(description), choices, ...schemaIn(null) }
  })
  const decided = ({ choice, name, args, reason }: Decision) => {
    if (choice === 'approve') return { type: 'accept', args: null }
    if (choice === 'edit') return { type: 'edit', args: { action: name, args } }
    return choice === 'respond' ? { type: 'response', args: reason } : { type: 'ignore', args: null }
  }
  return { calls, answer: (decisions) => decisions.map(decided) }
}

const CHOICES: readonly Choice[] = ['approve', 'edit', 'reject', 'respond']
const DEFAULT_CHOICES: readonly Choice[] = ['approve', 'edit', 'reject']
const argsIn = (given: unknown): Args => (isRecord(given) ? given : given === undefined ? {} : { value: given })
const textIn = (given: unknown): string => (typeof given === 'string' ? given : '')

/** Of a JSON schema of arguments. */
function schemaIn(given: unknown): Pick<Asked, 'schema' | 'required'> {
  const { properties, required } = isRecord(given) ? given : {}
  const schema: Record<string, Args> = {}
  for (const [name, one] of Object.entries(isRecord(properties) ? properties : {}))
    if (isRecord(one)) schema[name] = one
  return { schema, required: Array.isArray(required) ? required : [] }
}

// ------------------------------------------------------------------------------------------------- the cards

const LABELS: Readonly<Record<Choice, string>> = {
  approve: t('Approve'),
  edit: t('Edit'),
  reject: t('Reject'),
  respond: t('Answer')
}

interface CardsProps {
  readonly review: Review
  readonly isSent: boolean
  readonly onAnswer: (answer: Json, chosen: readonly Chosen[]) => void
}

/** What stays of a decision. */
const chosenBy = ({ choice, name, args, reason }: Decision): Chosen => ({
  asked: name,
  choice,
  words: reason,
  fields: Object.entries(args).map(([key, value]) => [key, shown(value)])
})

/** It is answered when each call is decided. */
export function ReviewCards({ review, isSent, onAnswer }: CardsProps) {
  const [decisions, setDecisions] = useState<readonly (Decision | null)[]>(review.calls.map(() => null))
  const left = decisions.filter((one) => one === null).length
  const send = (all: readonly Decision[]) => onAnswer(review.answer(all), all.map(chosenBy))
  const decide = (at: number, decision: Decision | null) => {
    const next = decisions.with(at, decision)
    setDecisions(next)
    // One call needs no second click.
    if (next.length === 1 && decision) send([decision])
  }
  return html`<ol class="review">
      ${review.calls.map((call, i) => html`<${Card} key=${i} ...${{ call, isSent, decision: decisions[i] }} onDecide=${(decision: Decision | null) => decide(i, decision)} />`)}
    </ol>
    ${
      review.calls.length > 1 &&
      html`<div class="row end">
        <small>${left === 0 ? t('All decided') : t('{} of {} to decide', left, review.calls.length)}</small>
        <button type="button" class="plain" disabled=${isSent || left === 0} onClick=${() =>
          setDecisions(
            decisions.map(
              (one, i) =>
                one ?? { choice: 'approve', name: review.calls[i]!.name, args: review.calls[i]!.args, reason: '' }
            )
          )}>Approve the rest</button>
        <button type="button" class="primary" disabled=${isSent || left > 0} onClick=${() => send(decisions.filter((one) => one !== null))}>Send</button>
      </div>`
    }`
}

const shown = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value))

function Fields({ fields }: { readonly fields: Chosen['fields'] }) {
  return html`<dl class="args">${fields.map(
    ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd dir="auto">${value}</dd></div>`
  )}</dl>`
}

/** What was chosen, where it was: it stays when the agent has gone on. */
export function View({ chosen }: { readonly chosen: readonly Chosen[] }) {
  return html`<ol class="review chosen" aria-label="What was chosen">
    ${chosen.map(({ asked, choice, words, fields }, i) =>
      choice === null
        ? html`<li class="answered" key=${i}><span dir="auto">${asked}</span><b dir="auto">${words}</b></li>`
        : html`<li class="review-card" key=${i} data-choice=${choice}>
            <p><b>${asked}</b> <span class="badge">${DONE[choice as Choice] ?? choice}</span></p>
            ${words && html`<p class="hint" dir="auto">${words}</p>`}
            ${fields.length > 0 && html`<${Fields} fields=${fields} />`}
          </li>`
    )}
  </ol>`
}

interface CardProps {
  readonly call: Asked
  readonly decision: Decision | null | undefined
  readonly isSent: boolean
  readonly onDecide: (decision: Decision | null) => void
}

function Card({ call, decision, isSent, onDecide }: CardProps) {
  const [open, setOpen] = useState<'edit' | 'reject' | 'respond' | null>(null)
  const [args, setArgs] = useState(call.args)
  const [reason, setReason] = useState('')
  const [problems, setProblems] = useState<Readonly<Record<string, string | null>>>({})
  const problem = Object.values(problems).find((one) => one !== null) ?? null
  const { name, schema } = call
  const take = (choice: Choice) => {
    setOpen(null)
    const given = Object.entries(args).filter(([, value]) => value !== undefined)
    onDecide({ choice, name, args: choice === 'edit' ? Object.fromEntries(given) : call.args, reason: reason.trim() })
  }
  const choose = (choice: Choice) => {
    if (choice === 'approve') return take(choice)
    setProblems({})
    setOpen(choice)
  }
  return html`<li class="review-card" data-choice=${decision?.choice}>
    <p><b>${name}</b>${decision && html` <span class="badge">${DONE[decision.choice]}</span>`}</p>
    ${call.description && html`<p class="hint">${call.description}</p>`}
    ${
      open === 'edit'
        ? Object.keys({ ...schema, ...args }).map(
            (key) =>
              html`<${Field} key=${key} ...${{ name: key, value: args[key], schema: schema[key], isRequired: call.required.includes(key) }} onChange=${(
                next: Json,
                wrong: string | null
              ) => {
                setProblems({ ...problems, [key]: wrong })
                if (!wrong) setArgs({ ...args, [key]: next })
              }} />`
          )
        : html`<${Fields} fields=${Object.entries(decision?.args ?? call.args).map(([key, value]) => [key, shown(value)])} />`
    }
    ${
      (open === 'reject' || open === 'respond') &&
      html`<label>${open === 'reject' ? t('Why not') : t('Your answer')}<textarea rows="2" dir="auto" value=${reason} onInput=${(event: InputEvent) => setReason((event.currentTarget as HTMLTextAreaElement).value)}></textarea></label>`
    }
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="options">
      ${
        open
          ? html`<button type="button" class="primary" disabled=${isSent || problem !== null} onClick=${() => take(open)}>${TAKE[open]}</button>
            <button type="button" class="plain" onClick=${() => setOpen(null)}>Back</button>`
          : decision && !isSent
            ? html`<button type="button" class="plain" onClick=${() => onDecide(null)}>Decide again</button>`
            : call.choices.map(
                (choice) =>
                  html`<button type="button" key=${choice} class="plain" disabled=${isSent} onClick=${() => choose(choice)}>${LABELS[choice]}</button>`
              )
      }
    </div>
  </li>`
}

const DONE: Readonly<Record<Choice, string>> = {
  approve: t('approved'),
  edit: t('edited'),
  reject: t('rejected'),
  respond: t('answered')
}
const TAKE: Readonly<Record<'edit' | 'reject' | 'respond', string>> = {
  edit: t('Use these arguments'),
  reject: t('Reject'),
  respond: t('Send')
}

interface FieldProps {
  readonly name: string
  /** undefined: the call has none. */
  readonly value: Json
  readonly schema: Args | undefined
  readonly isRequired: boolean
  readonly onChange: (next: Json, problem: string | null) => void
}

/** The types that a schema allows, also by its `anyOf`. */
const typesIn = ({ type, anyOf }: Args): Json[] => [
  ...[type].flat(),
  ...(Array.isArray(anyOf) ? anyOf.filter(isRecord).flatMap(typesIn) : [])
]

/** A field for a value by its schema, or else by its type: texts and numbers as they are, everything else as JSON. */
function Field({ name, value, schema = {}, isRequired, onChange }: FieldProps) {
  const types = (value ?? null) === null ? typesIn(schema) : [typeof value]
  // What was there may be emptied; what was not there and stays empty is not sent.
  const [wasThere] = useState(value !== undefined)
  const [isText] = useState(types.includes('string'))
  const [isNumber] = useState(types.includes('number') || types.includes('integer'))
  const [isCheck] = useState(types.includes('boolean'))
  const isBare = value === undefined || typeof value === 'string' || (value === null && isText)
  const [text, setText] = useState(isBare ? textIn(value) : JSON.stringify(value, null, 2))
  const hint = html`${name}${schema.description && html` <small dir="auto">${textIn(schema.description)}</small>`}`
  if (Array.isArray(schema.enum))
    return html`<${Options} ...${{ hint, value, all: schema.enum, isRequired, onChange }} />`
  if (isCheck)
    return html`<label class="check"><input type="checkbox" checked=${value === true} onChange=${(event: Event) => onChange((event.currentTarget as HTMLInputElement).checked, null)} /> ${hint}</label>`
  const onInput = (event: InputEvent) => {
    const given = (event.currentTarget as HTMLTextAreaElement).value
    setText(given)
    if (given === '' && !isRequired && !(wasThere && isText)) return onChange(undefined, null)
    if (isText) return onChange(given, null)
    try {
      onChange(JSON.parse(given), null)
    } catch {
      onChange(value, isNumber ? t('{} is not a number', name) : t('{} is not JSON', name))
    }
  }
  const rows = Math.min(10, text.split('\n').length)
  return html`<label>${hint}<textarea rows=${rows} dir="auto" value=${text} onInput=${onInput}></textarea></label>`
}

interface OptionsProps extends Pick<FieldProps, 'value' | 'isRequired' | 'onChange'> {
  readonly hint: unknown
  readonly all: readonly Json[]
}

/** One of the values that a schema names. */
function Options({ hint, value, all, isRequired, onChange }: OptionsProps) {
  const at = all.indexOf(value)
  const choose = (event: Event) => onChange(all[Number((event.currentTarget as HTMLSelectElement).value)], null)
  return html`<label>${hint}<select onChange=${choose}>
    ${(at < 0 || !isRequired) && html`<option value="-1" selected=${at < 0}></option>`}
    ${all.map((one, i) => html`<option key=${i} value=${i} selected=${i === at}>${shown(one)}</option>`)}
  </select></label>`
}
