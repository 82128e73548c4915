// Which images model servers accept, by their first bytes.

/** Of the largest. */
export const IMAGE_BYTES = 5 << 20

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const JPEG = Buffer.from([0xff, 0xd8, 0xff])

/** @returns null: not one of the four types that model servers accept */
export function imageTypeOf(bytes: Buffer): string | null {
  if (begins(bytes, PNG)) return 'image/png'
  if (begins(bytes, JPEG)) return 'image/jpeg'
  const head = bytes.toString('latin1', 0, 12)
  if (/^GIF8[79]a/.test(head)) return 'image/gif'
  return /^RIFF[\s\S]{4}WEBP$/.test(head) ? 'image/webp' : null
}

function begins(bytes: Buffer, mark: Buffer): boolean {
  return bytes.subarray(0, mark.length).equals(mark)
}
