// The setup link: where a server listens beyond its machine, only who can read its home makes the first administrator.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fail } from '../base/errors.ts'
import { keptLine } from '../files/kept-line.ts'

export const SETUP_FILE = 'setup_link.txt'
const TOKEN_BYTES = 32

export class SetupLink {
  readonly file: string

  constructor(home: string) {
    this.file = join(home, SETUP_FILE)
  }

  /** Writes the file, for its owner alone; one that is there stays. @param url of the page */
  async write(url: string): Promise<void> {
    const base = url.replace(/\/+$/, '')
    await keptLine(this.file, () => `${base}/#/setup/${randomBytes(TOKEN_BYTES).toString('base64url')}`)
  }

  /** @throws Failure setup_link_needed: this is not what the file has behind its last slash */
  async check(token: string | null): Promise<void> {
    const line = await readFile(this.file, 'utf8').catch(() => '')
    const wanted = line.trim().split('/').at(-1) ?? ''
    if (wanted === '' || token === null || !timingSafeEqual(hash(wanted), hash(token))) throw fail('setup_link_needed')
  }

  /** There is an administrator now. */
  async remove(): Promise<void> {
    await rm(this.file, { force: true })
  }
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
