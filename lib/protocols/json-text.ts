// JSON that is written when somebody is sent it, once for all: whoever passes it over pays nothing for it.

export class JsonText {
  #value: object | null
  #text = ''

  /** @param value does not change any more */
  constructor(value: object) {
    this.#value = value
  }

  toString(): string {
    if (this.#value !== null) {
      this.#text = JSON.stringify(this.#value)
      this.#value = null
    }
    return this.#text
  }
}
