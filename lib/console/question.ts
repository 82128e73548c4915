// A question of the agent that waits for its user, as a form.
import { useState } from 'preact/hooks'
import type { Question } from './conversation.ts'
import { html } from './html.ts'

interface QuestionProps {
  readonly question: Question
  readonly onAnswer: (answer: string) => void
}

export function QuestionForm({ question, onAnswer }: QuestionProps) {
  const [isSent, setSent] = useState(false)
  const { text, options } = read(question.value)
  const answer = (words: string) => {
    if (!words || isSent) return
    setSent(true)
    onAnswer(words)
  }
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    answer(String(new FormData(event.currentTarget as HTMLFormElement).get('answer')).trim())
  }
  return html`<form class="question" onSubmit=${submit} aria-label="A question for you">
    <p>${text}</p>
    ${
      options.length > 0 &&
      html`<div class="options">
        ${options.map((option) => html`<button type="button" class="plain" key=${option} disabled=${isSent} onClick=${() => answer(option)}>${option}</button>`)}
      </div>`
    }
    <div class="row">
      <input name="answer" aria-label="Your answer" placeholder=${options.length ? 'Or say it in your own words' : 'Your answer'} disabled=${isSent} autocomplete="off" />
      <button class="primary" disabled=${isSent}>Answer</button>
    </div>
  </form>`
}

/** `{question, options}` as ask_user asks; any other value is shown as it is. */
function read(value: unknown): { text: string; options: readonly string[] } {
  if (typeof value === 'string') return { text: value, options: [] }
  if (typeof value !== 'object' || value === null) return { text: JSON.stringify(value), options: [] }
  const { question, options } = value as { question?: unknown; options?: unknown }
  return {
    text: typeof question === 'string' ? question : JSON.stringify(value, null, 2),
    options: Array.isArray(options) ? options.filter((one) => typeof one === 'string') : []
  }
}
