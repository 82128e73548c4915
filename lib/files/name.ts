// Sanitises names of uploaded files.
import { extname, join } from 'node:path'
import { kindOf } from './paths.ts'

/** Maximum bytes of a name in UTF-8, the limit of all common file systems. */
export const NAME_BYTES_MAX = 255

/** Longer texts cannot fit after normalisation, which is quadratic for many combining accents. */
const UNITS_MAX = 4 * NAME_BYTES_MAX

/**
 * The name to store a file under, or null. Clients may send paths (`a/b.txt`); the last part counts. Normalised to NFC, because
 * the two encodings of `é` are one file on some systems and two on others.
 */
export function nameOf(given: string): string | null {
  const last = given.slice(given.lastIndexOf('/') + 1)
  if (last.length > UNITS_MAX) return null
  // A name is shown as it is written: an override would make `gpj.exe` end with jpg.
  const name = last.normalize('NFC').replace(/\p{Bidi_Control}/gu, '')
  // Control characters could forge lines in logs and listings.
  return isName(name) && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(name) && Buffer.byteLength(name) <= NAME_BYTES_MAX ? name : null
}

/** Whether a text is a plain file name, not a path. */
export function isName(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..' && !/[/\\\0]/.test(text)
}

/** `notes_1.txt` for `notes.txt`, or the next free number. */
export async function freeName(wanted: string, taken: ReadonlySet<string>, folder: string): Promise<string> {
  const extension = extname(wanted)
  const stem = wanted.slice(0, wanted.length - extension.length)
  for (let i = 1; ; i++) {
    const tail = `_${i}${extension}`
    const name = `${cutToBytes(stem, NAME_BYTES_MAX - Buffer.byteLength(tail))}${tail}`
    if (!taken.has(name) && (await kindOf(join(folder, name))) === null) return name
  }
}

/** The longest prefix that fits, without splitting a character. */
function cutToBytes(text: string, bytesMax: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(Math.max(0, bytesMax)))
  return text.slice(0, read)
}
