// The configured models by name.
import type { AnswerLimits } from './chat-completion.ts'
import { ChatModel, type ModelConfig } from './chat-model.ts'
import type { Model } from './model.ts'
import type { AgentLog } from './observer.ts'

export class Models {
  /** At least one; the first is the default. */
  readonly all: readonly Model[]

  constructor(all: readonly Model[]) {
    if (all.length === 0) throw new Error('At least one model is needed')
    this.all = all
  }

  /** @returns null for a name that is not configured */
  named(name: string | null): Model | null {
    return (name === null ? this.all[0] : this.all.find(({ info }) => info.name === name)) ?? null
  }
}

/** Models behind servers that speak chat-completions. */
export function chatModels(configs: readonly ModelConfig[], log?: AgentLog, limits?: AnswerLimits): Models {
  return new Models(configs.map((config) => new ChatModel(config, { log, limits })))
}
