// Encrypts what only this service may read again: the state of a sign-in in a browser's cookie, the tokens of providers in the database, and
// tool servers in the home.
import { createHash } from 'node:crypto'
import { EncryptJWT, errors, jwtDecrypt, type JWTPayload } from 'jose'
import { isObject, type JsonObject } from '../base/types.ts'

export interface Seal {
  /** @param purpose what it is good for: a text of another purpose cannot be opened in its place */
  seal(value: Readonly<Record<string, unknown>>, purpose: string, lifetimeS: number): Promise<string>
  /** null: it is none of ours, of another purpose, or has expired. */
  open(text: string, purpose: string): Promise<JWTPayload | null>
}

/** @param secret that of the session tokens, which all processes behind one address share */
export function openSeal(secret: Uint8Array): Seal {
  const key = new Uint8Array(createHash('sha256').update('key of what is sealed:').update(secret).digest())
  return {
    seal: (value, purpose, lifetimeS) =>
      new EncryptJWT({ ...value })
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
        .setAudience(purpose)
        .setExpirationTime(Math.floor(Date.now() / 1000) + lifetimeS)
        .encrypt(key),
    async open(text, purpose) {
      try {
        const { payload } = await jwtDecrypt(text, key, {
          audience: purpose,
          keyManagementAlgorithms: ['dir'],
          contentEncryptionAlgorithms: ['A256GCM']
        })
        return payload
      } catch (error) {
        if (error instanceof errors.JOSEError) return null
        throw error
      }
    }
  }
}

const TOOL_SERVERS = 'tool servers'
/** They do not expire. */
const CENTURY_S = 100 * 366 * 86_400

/** How tool servers are encrypted, whose environment and headers have secrets; null: there is no key for it. */
export function toolServerSeal(key: string | null) {
  if (key === null) return null
  const { seal, open } = openSeal(Buffer.from(key))
  return {
    seal: (servers: JsonObject) => seal({ servers }, TOOL_SERVERS, CENTURY_S),
    async open(text: string): Promise<JsonObject | null> {
      const opened = await open(text, TOOL_SERVERS)
      return isObject(opened?.servers) ? opened.servers : null
    }
  }
}
