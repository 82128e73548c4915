// Whether a JSON value contains another, as in LangGraph's searches: objects may have more members, lists more elements.
import { isObject, type Json } from '../types.ts'

/** Comparisons that one search may cost: lists in lists multiply, and both sides come from outside. */
const STEPS_MAX = 500_000

export class TooCostly extends Error {}

/** Compares until its steps are used up. One for a whole search. */
export class Containment {
  #left: number

  constructor(steps = STEPS_MAX) {
    this.#left = steps
  }

  /** @throws TooCostly */
  holds(value: Json | undefined, wanted: Json): boolean {
    if (--this.#left < 0) throw new TooCostly('the search compares too much: name fewer values')
    if (Array.isArray(wanted))
      return Array.isArray(value) && wanted.every((one) => value.some((element) => this.holds(element, one)))
    if (!isObject(wanted)) return value === wanted
    if (!isObject(value)) return false
    return Object.entries(wanted).every(([key, one]) => Object.hasOwn(value, key) && this.holds(value[key], one))
  }
}
