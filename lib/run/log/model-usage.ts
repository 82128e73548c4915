// What a run has taken of each model: tokens, and money at the prices of the configuration.
import type { UsageMetadata } from '../../base/types.ts'
import type { ModelUsage } from '../../store/store.ts'

/** Money for a million tokens. */
interface Price {
  readonly input: number
  readonly output: number
  /** Of input tokens that the provider has in its cache; null: as others. */
  readonly cached_input: number | null
}

interface PricedModel {
  readonly name: string
  readonly model: string
  readonly price: Price | null
}

/** By the names under which models are called: ours, or the server's, which graphs use. */
export type Prices = ReadonlyMap<string, Price>

export function pricesOf(models: readonly PricedModel[]): Prices {
  const prices = new Map<string, Price>()
  for (const { name, price } of models) if (price) prices.set(name, price)
  for (const { model, price } of models) if (price && !prices.has(model)) prices.set(model, price)
  return prices
}

/** Of a model's name: longer ones are told apart by their beginning. */
const NAME_MAX = 128
/** Of one run and model: what an agent reports beyond is not believed, and sums stay whole numbers. */
const COUNT_MAX = 1_000_000_000_000
/** Models of one run that are told apart; others count as unknown. */
const MODELS_MAX = 32

type Sums = { -readonly [K in keyof ModelUsage]: ModelUsage[K] }

export class ModelUsages {
  readonly #prices: Prices
  readonly #byModel = new Map<string, Sums>()

  constructor(prices: Prices) {
    this.#prices = prices
  }

  /** A call of the model has begun: it may end without a word of what it took. */
  called(model: string): void {
    this.#sumsOf(model.slice(0, NAME_MAX))
  }

  /** A call of the model has ended. */
  add(model: string, usage: UsageMetadata): void {
    const sums = this.#sumsOf(model.slice(0, NAME_MAX))
    sums.input_tokens = bounded(sums.input_tokens + usage.input_tokens)
    sums.output_tokens = bounded(sums.output_tokens + usage.output_tokens)
    sums.total_tokens = bounded(sums.total_tokens + (usage.total_tokens || usage.input_tokens + usage.output_tokens))
    sums.money_micros = bounded(sums.money_micros + this.moneyFor(model, usage))
  }

  /** The first is the one that the run counts for. */
  list(main: string | null): readonly [ModelUsage, ...ModelUsage[]] {
    const [called = ''] = this.#byModel.keys()
    const name = main?.slice(0, NAME_MAX) ?? called
    const first = this.#byModel.get(name) ?? noUsage(name)
    const others = [...this.#byModel.values()].filter((one) => one !== first && one.total_tokens > 0)
    return [rounded(first), ...others.map(rounded)]
  }

  #sumsOf(model: string): Sums {
    const found = this.#byModel.get(model)
    if (found) return found
    if (this.#byModel.size >= MODELS_MAX && model !== '') return this.#sumsOf('')
    const sums = noUsage(model)
    this.#byModel.set(model, sums)
    return sums
  }

  /** What a call takes, in millionths: millionths for a token is money for a million of them. */
  moneyFor(model: string, { input_tokens, output_tokens, input_token_details }: UsageMetadata): number {
    const price = this.#prices.get(model)
    if (!price) return 0
    const cached = Math.min(input_tokens, input_token_details?.cache_read ?? 0)
    const ofInput = (input_tokens - cached) * price.input + cached * (price.cached_input ?? price.input)
    return ofInput + output_tokens * price.output
  }
}

function noUsage(model: string): Sums {
  return { model, input_tokens: 0, output_tokens: 0, total_tokens: 0, money_micros: 0 }
}

function bounded(count: number): number {
  return Math.min(COUNT_MAX, count)
}

function rounded(one: ModelUsage): ModelUsage {
  return { ...one, money_micros: Math.round(one.money_micros) }
}
