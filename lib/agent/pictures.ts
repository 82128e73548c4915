// Images that tools of running runs have made for models, within what a call takes.
import { Budget, ofHeap, type Share } from '../base/budget.ts'

export interface Picture {
  /** As its bytes say. */
  readonly mimeType: string
  readonly bytes: Buffer
}

/** Limits of one model call: servers refuse larger requests. */
export const SHOWN_BYTES = 12 << 20
export const SHOWN_MAX = 20

/** What one model call still takes of images. Newer ones are put in first. */
export class CallRoom {
  #images = SHOWN_MAX
  #bytes = SHOWN_BYTES

  get isFull(): boolean {
    return this.#images === 0
  }

  /** False: there is no room for an image of so many bytes. */
  take(bytes: number): boolean {
    if (this.isFull || bytes > this.#bytes) return false
    this.#images--
    this.#bytes -= bytes
    return true
  }
}

/** Of the heap: the images of a user's runs, and of everybody's. */
const PARTS = { each: 16, all: 8 }

/** What images may take that tools have made. */
export function pictureBudget(): Budget {
  const most = Number.POSITIVE_INFINITY
  return new Budget({ each: ofHeap(most, PARTS.each), all: ofHeap(most, PARTS.all) })
}

/** Those of a run, until it ends. They are in no state and no frame: of many, or large ones, the newest are kept, as far as a call takes them. */
export class RunPictures {
  readonly #share: Share
  readonly #made: { readonly resultId: string; readonly picture: Picture }[] = []

  /** @param share of what all may take */
  constructor(share: Share) {
    this.#share = share
  }

  add(resultId: string, pictures: readonly Picture[]): void {
    for (const picture of pictures) {
      const { length } = picture.bytes
      if (length <= SHOWN_BYTES && this.#hasRoom(length)) this.#made.push({ resultId, picture })
    }
  }

  /** Those that a tool has made with the result of that id. */
  of(resultId: string): Picture[] {
    return this.#made.filter((one) => one.resultId === resultId).map(({ picture }) => picture)
  }

  release(): void {
    this.#made.length = 0
    this.#share.release()
  }

  /** Takes room for one, at the cost of older ones. */
  #hasRoom(bytes: number): boolean {
    while (this.#made.length === SHOWN_MAX || this.#share.held + bytes > SHOWN_BYTES || !this.#share.take(bytes)) {
      const oldest = this.#made.shift()
      if (!oldest) return false
      this.#share.give(oldest.picture.bytes.length)
    }
    return true
  }
}
