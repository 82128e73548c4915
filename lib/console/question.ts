// The agent's open question as a form: options to choose from, tool calls to approve, or whatever a graph asks.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { say } from './announce.ts'
import { html } from './html.ts'
import type { Chosen, Question } from './records.ts'
import { ReviewCards, reviewIn } from './review.ts'
import { t } from './words.ts'

interface QuestionProps {
  readonly question: Question
  /** It is one of several, and neither spoken nor focused. */
  readonly isQuiet?: boolean
  /**
   * @param chosen what stays of it
   * @throws the error, after which the user can answer again
   */
  readonly onAnswer: (answer: unknown, chosen: readonly Chosen[]) => Promise<void>
}
/** A choice: its label, and the answer it sends. */
interface Choice {
  readonly label: string
  readonly answer: (words: string) => unknown
}
interface Asked {
  readonly text: string
  readonly detail: string
  readonly choices: readonly Choice[]
  readonly hint: string
  /** The answer for typed text; null: text alone is not an answer. */
  readonly read: ((words: string) => unknown) | null
}

export function View({ question, onAnswer, isQuiet }: QuestionProps) {
  const [isSent, setSent] = useState(false)
  const [words, setWords] = useState('')
  const form = useRef<HTMLFormElement>(null)
  const { text, detail, choices, hint, read } = asked(question.value)
  const review = useMemo(() => reviewIn(question.value), [question])
  const focus = () => form.current?.querySelector<HTMLElement>('.options button, input')?.focus()
  useEffect(() => {
    if (isQuiet) return
    const labels = choices.map(({ label }) => label).join(', ')
    const asks = review
      ? t('The agent asks whether it may call {}.', review.calls.map(({ name }) => name).join(', '))
      : t('The agent asks you: {}', text)
    say(review || !labels ? asks : `${asks} ${t('Choose: {}.', labels)}`)
    if (isFocusFree()) focus()
  }, [])
  const answer = (value: unknown, chosen = [chosenOf(text, value)]) => {
    if (isSent) return
    setSent(true)
    onAnswer(value, chosen).catch(() => {
      setSent(false)
      requestAnimationFrame(focus)
    })
  }
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (words.trim() && read) answer(read(words.trim()))
  }
  if (review)
    return html`<form class="question" ref=${form} onSubmit=${(event: Event) => event.preventDefault()} aria-label="A question for you">
      <p>${review.calls.length === 1 ? t('May this tool be called?') : t('May these {} tools be called?', review.calls.length)}</p>
      <${ReviewCards} review=${review} isSent=${isSent} onAnswer=${answer} />
    </form>`
  return html`<form class="question" ref=${form} onSubmit=${submit} aria-label="A question for you">
    <p>${text}</p>
    ${detail && html`<pre tabindex="0">${detail}</pre>`}
    ${
      choices.length > 0 &&
      html`<div class="options">
        ${choices.map(({ label, answer: of }) => html`<button type="button" class="plain" key=${label} disabled=${isSent} onClick=${() => answer(of(words.trim()))}>${label}</button>`)}
      </div>`
    }
    <div class="row">
      <input name="answer" value=${words} aria-label="Your answer" placeholder=${hint} disabled=${isSent} autocomplete="off" onInput=${(event: InputEvent) => setWords((event.currentTarget as HTMLInputElement).value)} />
      ${read && html`<button class="primary" disabled=${isSent}>Answer</button>`}
    </div>
  </form>`
}

function chosenOf(asked: string, value: unknown): Chosen {
  const words = typeof value === 'string' ? value : JSON.stringify(value)
  return { asked, choice: null, words, fields: [] }
}

/** Nobody is writing or reading anywhere: the focus is nowhere, or in an empty composer. */
function isFocusFree(): boolean {
  const { activeElement } = document
  return !activeElement || activeElement === document.body || (activeElement as HTMLTextAreaElement).value === ''
}

const asIs = (words: string): unknown => words

/** `{question, options}` of ask_user, tool calls to approve, a text, or any value of a graph. */
function asked(value: unknown): Asked {
  if (typeof value === 'string') return { text: value, detail: '', choices: [], hint: t('Your answer'), read: asIs }
  const { question, options } = (value ?? {}) as { question?: unknown; options?: unknown }
  const labels = Array.isArray(options) ? options.filter((one) => typeof one === 'string') : []
  const hint = labels.length > 0 ? t('Or say it in your own words') : t('Your answer')
  const choices = labels.map((label) => ({ label, answer: () => label }))
  if (typeof question === 'string') return { text: question, detail: '', choices, hint, read: asIs }
  const detail = JSON.stringify(value, null, 2)
  return {
    text: t('The agent waits for you'),
    detail,
    choices,
    hint: t('Your answer: words, or JSON'),
    read: jsonOrWords
  }
}

/** A graph that asks with an object may expect one. */
function jsonOrWords(words: string): unknown {
  try {
    return JSON.parse(words)
  } catch {
    return words
  }
}
