// Whether a JSON value contains another, as in LangGraph's searches: objects may have more members, lists more elements.
import { setImmediate as turn } from 'node:timers/promises'
import { isObject, type Json, type JsonObject } from '../types.ts'

/** Comparisons that one search may cost: lists in lists multiply, and both sides come from outside. */
const STEPS_MAX = 500_000
/** Comparisons of one turn of the event loop: a tenth of a second, on a slow machine two. */
const TURN_STEPS_MAX = 100_000
/** After so many a search leaves the loop to others, if it can. */
const TIRED_STEPS = 40_000
/** Of a long list so many are looked into in one turn. */
const TURN_ROWS = 16

export class TooCostly extends Error {}

/** Compares until its steps are used up. One for a whole search. */
export class Containment {
  #left = STEPS_MAX
  #leftThisTurn = TURN_STEPS_MAX

  /** Between two values: leaves the event loop to others when much was compared. A search that never calls it has one turn's steps. */
  async rest(): Promise<void> {
    if (this.#leftThisTurn > TURN_STEPS_MAX - TIRED_STEPS) return
    await turn()
    this.#leftThisTurn = TURN_STEPS_MAX
  }

  /** Those whose metadata contain what is wanted. @throws TooCostly */
  async among<Owner extends { readonly metadata: JsonObject }>(
    all: readonly Owner[],
    wanted: JsonObject
  ): Promise<Owner[]> {
    if (Object.keys(wanted).length === 0) return [...all]
    const found: Owner[] = []
    for (const [at, one] of all.entries()) {
      // Metadata of a store may be read no sooner than here, and be long.
      if (at % TURN_ROWS === TURN_ROWS - 1) await turn()
      await this.rest()
      if (this.holds(one.metadata, wanted)) found.push(one)
    }
    return found
  }

  /** @throws TooCostly */
  holds(value: Json | undefined, wanted: Json): boolean {
    if (--this.#left < 0 || --this.#leftThisTurn < 0)
      throw new TooCostly('the search compares too much: name fewer values')
    if (Array.isArray(wanted))
      return Array.isArray(value) && wanted.every((one) => value.some((element) => this.holds(element, one)))
    if (!isObject(wanted)) return value === wanted
    if (!isObject(value)) return false
    return Object.entries(wanted).every(([key, one]) => Object.hasOwn(value, key) && this.holds(value[key], one))
  }
}
