// Encrypts what only this service may read again: the state of a sign-in in a browser's cookie, and the tokens of providers in the database.
import { createHash } from 'node:crypto'
import { EncryptJWT, errors, jwtDecrypt, type JWTPayload } from 'jose'

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
