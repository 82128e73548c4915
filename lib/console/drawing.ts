// When a conversation that grows is drawn: at most once per animation frame, and at most half of the time. Whatever a drawing has cost, as
// much is left for all else; hidden pages are drawn a few times a second.

/** How often a hidden page is drawn, in ms. */
const HIDDEN_MS = 250
/** A drawing that took longer was held up by something else, in ms. */
const LONGEST_MS = 500

export class Drawing {
  readonly #draw: () => void
  #isDue = false
  /** When it may be drawn again. */
  #restsUntil = 0

  constructor(draw: () => void) {
    this.#draw = draw
  }

  soon(): void {
    if (this.#isDue) return
    this.#isDue = true
    const rest = this.#restsUntil - performance.now()
    if (document.hidden) setTimeout(this.#now, HIDDEN_MS)
    else if (rest > 0) setTimeout(() => requestAnimationFrame(this.#now), rest)
    else requestAnimationFrame(this.#now)
  }

  readonly #now = (): void => {
    this.#isDue = false
    const begun = performance.now()
    this.#draw()
    // It comes behind the picture.
    setTimeout(() => {
      this.#restsUntil = begun + 2 * Math.min(performance.now() - begun, LONGEST_MS)
    })
  }
}
