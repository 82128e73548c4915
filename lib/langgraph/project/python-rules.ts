// Asks the Auth object of a Python project, in the project's own process, who a caller is and what he may do.
import { isObject, type Json, type JsonObject } from '../../base/types.ts'
import type { AccessRules } from './access-policy.ts'
import { headOf } from './python-app.ts'

/** What a rule has said; a refusal is a result like others, as an exception would lose its status on the way. */
interface Answer {
  readonly result?: Json
  readonly refused?: { readonly status: number; readonly message: string; readonly headers: Record<string, string> }
  /** The value it was asked about, as rules have left it. */
  readonly value?: Json
}

export class PythonRules implements AccessRules {
  readonly authenticates: boolean
  readonly #ask: (name: string, about: object) => Promise<Answer>

  constructor(authenticates: boolean, ask: (name: string, about: object) => Promise<unknown>) {
    this.authenticates = authenticates
    // Both sides are of the same build.
    this.#ask = ask as (name: string, about: object) => Promise<Answer>
  }

  async authenticate(request: Request): Promise<unknown> {
    return resultOf(await this.#ask('authenticate', headOf(request)))
  }

  async authorize({ value, ...question }: Parameters<AccessRules['authorize']>[0]): Promise<unknown> {
    const answer = await this.#ask('authorize', { ...question, value })
    const result = resultOf(answer)
    if (isObject(answer.value)) become(value as JsonObject, answer.value)
    return result
  }
}

function resultOf({ refused, result }: Answer): unknown {
  if (!refused) return result
  const { status, headers, message } = refused
  throw Object.assign(new Error(message), { status, headers })
}

/** Who has asked looks at the value he has given. */
function become(value: JsonObject, changed: JsonObject): void {
  for (const key of Object.keys(value)) if (!Object.hasOwn(changed, key)) delete value[key]
  Object.assign(value, changed)
}
