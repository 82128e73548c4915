// A stamp: when a frame was made, inside its text, so that whoever reads it knows how old it is. By the machine's clock that never
// goes back, which all processes share.
const WIDTH = 20

function micros(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

/** The text with its beginning replaced by a stamp of this moment. */
export function stamped(text: string): string {
  return `@${String(micros()).padStart(WIDTH - 2, '0')}@${text.slice(WIDTH)}`
}

/** Ages of the frames in a chunk, in ms; one that the chunk cuts in its stamp is left out. */
export function agesIn(chunk: Buffer): number[] {
  const now = micros()
  return [...chunk.toString('latin1').matchAll(/@(\d{18})@/g)].map(([, made]) => (now - Number(made)) / 1000)
}
