// Model calls beside runs: each by a model that its user may use, and those that users wait for a few at once.
import { completeOnce } from '../agent/model-call.ts'
import type { Models } from '../agent/model.ts'
import type { Reporting } from '../agent/observer.ts'
import type { GroupAccess } from '../auth/group-access.ts'
import type { User } from '../base/accounts.ts'
import { fail } from '../base/errors.ts'
import { KeyedMutex, MutexBusy } from '../base/keyed-mutex.ts'
import type { Question, Services } from '../routes/services.ts'

/** Calls that users wait for, at once. */
const TURNS = { all: 16, each: 1, waitingEach: 4 }

interface QuestionsParts {
  readonly models: Models
  readonly access: GroupAccess
  readonly reporting: Reporting
}

export class Questions {
  readonly #parts: QuestionsParts
  readonly #turns = new KeyedMutex(TURNS)

  constructor(parts: QuestionsParts) {
    this.#parts = parts
  }

  /** For a user who waits: when it is his turn. */
  readonly ask: Services['ask'] = async (user, question, signal) => {
    const modelName = this.#modelFor(user, question)
    try {
      return await this.#turns.run(user.id, () => this.#complete(modelName, question, signal), signal)
    } catch (error) {
      throw error instanceof MutexBusy ? fail('too_many_questions', null, { 'Retry-After': '5' }) : error
    }
  }

  /** For somebody who does not wait. @throws Failure model_not_allowed */
  async askFor(userId: string, question: Question, signal: AbortSignal): Promise<string> {
    const user = await this.#parts.access.userFor(userId)
    return this.#complete(this.#modelFor(user, question), question, signal)
  }

  #modelFor(user: User | null, { named = null, chosen }: Question): string | null {
    const { models, access } = this.#parts
    const infos = models.all.map(({ info }) => info)
    return access.modelFor(user, named, infos, chosen)
  }

  async #complete(modelName: string | null, { messages }: Question, signal: AbortSignal): Promise<string> {
    const { models, reporting } = this.#parts
    const model = models.named(modelName)
    if (!model) throw new Error(`There is no model "${modelName}"`)
    return completeOnce(model, messages, signal, reporting)
  }
}
