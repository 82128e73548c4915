// Sanitises names of uploaded files.
import { extname, join } from 'node:path'
import { kindOf } from './paths.ts'

/** What the longest name may take, in UTF-8: the limit of all common file systems. */
export const NAME_BYTES_MAX = 255

/** A longer text has no normal form that fits; to look for one costs the square of its length, where accents are heaped up. */
const UNITS_MAX = 4 * NAME_BYTES_MAX

/**
 * The name under which a file may be kept, or null. Clients send paths (`a/b.txt`), of which the last part counts. In one
 * normal form, because two spellings of `é` look the same and are one file on some systems and two on others.
 */
export function nameOf(given: string): string | null {
  const last = given.slice(given.lastIndexOf('/') + 1)
  if (last.length > UNITS_MAX) return null
  const name = last.normalize('NFC')
  // Control characters: no name needs them, and they forge lines of logs and listings.
  return isName(name) && !/\p{Cc}/u.test(name) && Buffer.byteLength(name) <= NAME_BYTES_MAX ? name : null
}

/** True for a text that names something in its folder and nothing elsewhere. */
export function isName(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..' && !/[/\\\0]/.test(text)
}

/** `notes_1.txt` for `notes.txt`, or the next number that neither this request nor an earlier one has used. */
export async function freeName(wanted: string, taken: ReadonlySet<string>, folder: string): Promise<string> {
  const extension = extname(wanted)
  const stem = wanted.slice(0, wanted.length - extension.length)
  for (let i = 1; ; i++) {
    const tail = `_${i}${extension}`
    const name = `${cutToBytes(stem, NAME_BYTES_MAX - Buffer.byteLength(tail))}${tail}`
    if (!taken.has(name) && (await kindOf(join(folder, name))) === null) return name
  }
}

/** The beginning of a text that fits, not ending inside a character. */
function cutToBytes(text: string, bytesMax: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(Math.max(0, bytesMax)))
  return text.slice(0, read)
}
