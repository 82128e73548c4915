// Whether a JSON value contains another, as in LangGraph's searches: objects may have more members, lists more elements.
import { setImmediate as turn } from 'node:timers/promises'
import { isObject, type Json, type JsonObject } from '../base/types.ts'

/** Maximum comparisons per search: nested lists multiply, and both sides are untrusted. */
const STEPS_MAX = 500_000
/** Maximum comparisons per turn of the event loop: 0.1 s, on a slow machine 2 s. */
const TURN_STEPS_MAX = 100_000
/** A search that can yields to the event loop after this many. */
const TIRED_STEPS = 40_000
/** List entries checked per turn. */
const TURN_ROWS = 16

export class TooCostly extends Error {}

/** Compares JSON values until its budget is used up; one instance per search. */
export class Containment {
  #left = STEPS_MAX
  #leftThisTurn = TURN_STEPS_MAX

  /** Call between values: yields to the event loop if much was compared. Without it a search has the budget of one turn. */
  async rest(): Promise<void> {
    if (this.#leftThisTurn > TURN_STEPS_MAX - TIRED_STEPS) return
    await turn()
    this.#leftThisTurn = TURN_STEPS_MAX
  }

  /** Entries whose metadata contains `wanted`. @throws TooCostly */
  async among<Owner extends { readonly metadata: JsonObject }>(
    all: readonly Owner[],
    wanted: JsonObject
  ): Promise<Owner[]> {
    if (Object.keys(wanted).length === 0) return [...all]
    const found: Owner[] = []
    for (const [at, one] of all.entries()) {
      // Metadata may be long, and may be parsed only here.
      if (at % TURN_ROWS === TURN_ROWS - 1) await turn()
      await this.rest()
      if (this.holds(one.metadata, wanted)) found.push(one)
    }
    return found
  }

  /** @throws TooCostly */
  holds(value: Json | undefined, wanted: Json): boolean {
    if (--this.#left < 0 || --this.#leftThisTurn < 0)
      throw new TooCostly('the search is too expensive: use fewer values')
    if (Array.isArray(wanted))
      return Array.isArray(value) && wanted.every((one) => value.some((element) => this.holds(element, one)))
    if (!isObject(wanted)) return value === wanted
    if (!isObject(value)) return false
    return Object.entries(wanted).every(([key, one]) => Object.hasOwn(value, key) && this.holds(value[key], one))
  }
}
