// Asks a model for the thread's title after the first exchange. If that fails, the run uses the first words instead.
import { type Message, textOf } from '../../base/types.ts'
import type { Middleware, MiddlewareContext } from '../middleware.ts'

interface TitleOptions {
  readonly max_words: number
  readonly max_chars: number
  /** null: the run's own model. */
  readonly model_name: string | null
}

const TAG = 'title'
const EXCERPT_CHARS = 500
/** The run waits for the title. */
const TIMEOUT_MS = 15_000

export function titleMiddleware(options: TitleOptions): Middleware {
  return {
    tag: TAG,
    async afterAnswer(run) {
      const asked = question(run, options)
      if (asked === null) return
      const answer = await run.ask(TAG, [{ role: 'user', content: asked }], options.model_name, TIMEOUT_MS)
      const title = answer === null ? '' : cleaned(answer, options)
      if (title === '') return
      await run.update({ title })
      await run.note(TAG, {
        name: 'TitleMiddleware',
        hook: 'after_model',
        action: 'generate_title',
        changes: { title }
      })
    }
  }
}

/** null: the thread has a title, or this is not its first exchange. */
function question(run: MiddlewareContext, { max_words }: TitleOptions): string | null {
  const title = run.channel('title')
  if (typeof title === 'string' && title !== '') return null
  const messages = run.messages()
  const users = messages.filter(({ type }) => type === 'human')
  const answer = messages.findLast(({ type }) => type === 'ai')
  if (users.length !== 1 || !answer) return null
  return [
    `Give this conversation a title of at most ${max_words} words, in its own language.`,
    'Answer with the title alone: no quotes, no full stop.',
    `User: ${excerpt(users[0]!)}`,
    `Assistant: ${excerpt(answer)}`
  ].join('\n\n')
}

function excerpt(message: Message): string {
  return textOf(message.content).trim().slice(0, EXCERPT_CHARS)
}

/** The first line without quotes, cut to the limits. */
function cleaned(answer: string, { max_words, max_chars }: TitleOptions): string {
  // Cut first: the patterns below are slow on long texts.
  const line = answer.trim().slice(0, EXCERPT_CHARS).split('\n')[0] ?? ''
  const bare = line.replace(/^["'“”„«»*#\s]+|["'“”„«».*\s]+$/gu, '')
  const words = bare.split(/\s+/u).slice(0, max_words).join(' ')
  return [...words].slice(0, max_chars).join('').trim()
}
