// The plan of an agent that keeps one: what is done, what is under way, what is left.
import type { TranscriptMessage } from '../client/colloquy.ts'
import { classes, html, Icon } from './html.ts'
import { t } from './words.ts'

interface Todo {
  readonly content: string
  readonly status: string
}

/** The newest list of todos that the agent has written, by a tool call or into the state. */
function planIn(messages: readonly TranscriptMessage[], values: Readonly<Record<string, unknown>>): readonly Todo[] {
  for (const { calls, type } of messages.toReversed()) {
    if (type === 'human' && calls.length === 0) continue
    for (const { args } of calls.toReversed()) {
      const todos = args.includes('"todos"') ? todosIn(parsed(args)?.todos) : []
      if (todos.length > 0) return todos
    }
  }
  return todosIn(values.todos)
}

function parsed(args: string): Record<string, unknown> | null {
  try {
    return JSON.parse(args)
  } catch {
    // Still arriving.
    return null
  }
}

function todosIn(given: unknown): readonly Todo[] {
  if (!Array.isArray(given)) return []
  return given.flatMap((one) => {
    const {
      content,
      title,
      text,
      status = 'pending'
    } = (typeof one === 'string' ? { content: one } : (one ?? {})) as Record<string, unknown>
    const words = content ?? title ?? text
    return typeof words === 'string' ? [{ content: words, status: String(status) }] : []
  })
}

const isDone = ({ status }: Todo): boolean => /^(completed|done)$/.test(status)
const isActive = ({ status }: Todo): boolean => /^(in_progress|active|running)$/.test(status)

interface PlanProps {
  readonly messages: readonly TranscriptMessage[]
  /** Channels of the state beside them. */
  readonly values: Readonly<Record<string, unknown>>
}

export function View({ messages, values }: PlanProps) {
  const todos = planIn(messages, values)
  if (todos.length === 0) return null
  const done = todos.filter(isDone).length
  const now = todos.find(isActive) ?? todos.find((one) => !isDone(one))
  return html`<details class="plan">
    <summary>
      <${Icon} name=${now ? 'queue' : 'check'} />
      <b>${done} of ${todos.length}</b>
      <span dir="auto">${now?.content ?? t('All done')}</span>
      <progress value=${done} max=${todos.length} aria-label="Done of the plan"></progress>
    </summary>
    <ol>
      ${todos.map((todo, i) => html`<li key=${i} class=${classes(isDone(todo) && 'done', isActive(todo) && 'now')}><${Icon} name=${isDone(todo) ? 'check' : isActive(todo) ? 'pulse' : 'dot'} /><span dir="auto">${todo.content}</span></li>`)}
    </ol>
  </details>`
}
