// All open questions of one's agents in one place, to be answered there.
import { useEffect, useState } from 'preact/hooks'
import { call, colloquy } from './api.ts'
import { html } from './html.ts'
import { View as QuestionForm } from './question.ts'
import { answering } from './decisions.ts'
import { type Checkpoint, type Chosen, newId, type Question } from './records.ts'
import { threadLink } from './router.ts'
import { titleOf, type Thread } from './threads.ts'
import { ago } from './time.ts'
import { notify, notifyFailure } from './toast.ts'
import { asking, refreshAsking } from './waiting.ts'
import { t } from './words.ts'

export function View() {
  useEffect(() => void refreshAsking().catch(notifyFailure), [])
  return html`<main class="chat inbox">
    <div class="scroller" tabindex="-1"><div class="column">
      <h1>Waits for you</h1>
      <p class="lead">${asking.value.length === 0 ? t('No agent asks you anything.') : t('Your agents go on when you have answered.')}</p>
      ${asking.value.map((thread) => html`<${Entry} key=${thread.thread_id} thread=${thread} />`)}
    </div></div>
  </main>`
}

function Entry({ thread }: { readonly thread: Thread }) {
  const [questions, setQuestions] = useState<readonly Question[] | null>(null)
  /** The run that asks. */
  const [runId, setRunId] = useState<string | null>(null)
  const path = `/api/threads/${encodeURIComponent(thread.thread_id)}`
  useEffect(() => {
    call<Checkpoint>('GET', `${path}/state`).then(({ tasks, metadata }) => {
      setQuestions(tasks.flatMap(({ interrupts }) => interrupts))
      setRunId(metadata.run_id ?? null)
    }, notifyFailure)
  }, [thread.updated_at])
  const answer = async (question: Question, value: unknown, chosen: readonly Chosen[]) => {
    const resume = questions?.length === 1 ? value : { [question.id]: value }
    const body = { command: { resume }, on_disconnect: 'continue', metadata: answering(question, runId, chosen) }
    try {
      await colloquy.request('POST', `${path}/runs`, { body, headers: { 'Idempotency-Key': newId() } })
      notify('Answered. The agent goes on.')
      asking.value = asking.value.filter((one) => one !== thread)
    } catch (error) {
      notifyFailure(error)
      throw error
    }
  }
  // A thread that was stopped is interrupted too, and asks nothing.
  if (questions?.length === 0) return null
  return html`<section class="asks" aria-label=${titleOf(thread)}>
    <header><a href=${threadLink(thread.thread_id)} dir="auto">${titleOf(thread)}</a> <small>${ago(thread.updated_at)}</small></header>
    ${(questions ?? []).map((question) => html`<${QuestionForm} key=${question.id} question=${question} isQuiet onAnswer=${(value: unknown, chosen: readonly Chosen[]) => answer(question, value, chosen)} />`)}
  </section>`
}
