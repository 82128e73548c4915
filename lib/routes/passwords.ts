// Passwords of accounts: which new ones are taken, and whether one is right. An address that guesses is locked out.
import * as v from 'valibot'
import { actorOf } from '../auth/audit.ts'
import { HashingBusy, hashPassword, isCommon, PASSWORD_BYTES_MAX, verifyPassword } from '../auth/password.ts'
import type { User } from '../base/accounts.ts'
import { Failure, fail } from '../base/errors.ts'
import { KeyedMutex } from '../base/keyed-mutex.ts'
import { LoginLimiter } from '../http/admission.ts'
import type { Call } from '../http/route.ts'
import { describedAs, minCharacters } from '../http/schema.ts'
import type { AuthServices } from './services.ts'

const PASSWORD_MIN = 8

/** A new password: length first, then the blocklist [Auth 8]. */
export const newPassword = v.pipe(
  v.string(),
  v.maxBytes(PASSWORD_BYTES_MAX, `Value error, Password is too long; use at most ${PASSWORD_BYTES_MAX} bytes.`),
  minCharacters(PASSWORD_MIN),
  v.check((password) => !isCommon(password), 'Value error, Password is too common; choose a stronger password.'),
  describedAs<string>({ minLength: PASSWORD_MIN, maxLength: PASSWORD_BYTES_MAX, format: 'password' })
)

export class Passwords {
  readonly #services: AuthServices
  readonly #limiter = new LoginLimiter()
  /** Serialises changes per account. */
  readonly inOrder = new KeyedMutex({ all: Number.POSITIVE_INFINITY, each: 1 })

  constructor(services: AuthServices) {
    this.#services = services
  }

  /** [contract 1.1] has no word for it: who signs in at a provider has no use for these routes. */
  refuseLocal(): void {
    if (!this.#services.config.auth.local) throw fail('local_sign_in_off')
  }

  refuseLocked({ address }: Call): void {
    const seconds = this.#limiter.lockedFor(address)
    if (seconds > 0) throw fail('too_many_logins', null, { 'Retry-After': String(seconds) })
  }

  /**
   * Whether this is the user's password. A locked-out address is refused at once; the lock is checked again when the
   * hashing turn comes, and when it is over, so that parallel attempts count one by one.
   */
  async isRight(call: Call, password: string, hash: string | null): Promise<boolean> {
    this.refuseLocked(call)
    const turn = { address: call.address, lastCheck: () => this.refuseLocked(call) }
    const isRight = await unlessBusy(verifyPassword(password, hash, turn))
    this.refuseLocked(call)
    if (isRight) this.#limiter.succeeded(call.address)
    else this.#limiter.failed(call.address)
    if (!isRight && this.#limiter.lockedFor(call.address) > 0)
      await this.#services.audit.record('lockout', actorOf(call))
    return isRight
  }

  /** Counts what was refused as a guess; a machine that is busy is nobody's guess. */
  guessed({ address }: Call, error: unknown): void {
    if (error instanceof Failure && error.status < 429) this.#limiter.failed(address)
  }

  /** Upgrades an old hash after a sign-in. Failure is harmless. */
  async rehash(user: User, password: string): Promise<void> {
    const { users, writer, log } = this.#services
    try {
      const password_hash = await hashPassword(password)
      await this.inOrder.run(user.id, async () => {
        // The password may have been changed meanwhile, and the old one must not come back.
        const now = await users.byId(user.id)
        if (now?.password_hash !== user.password_hash) return
        const ifVersion = now.token_version
        await writer.write({ name: 'user.update', id: user.id, set: { password_hash }, ifVersion })
      })
    } catch (error) {
      log.warn({ err: error, user_id: user.id }, 'an old password hash could not be renewed')
    }
  }
}

/** Maps an overloaded hasher to 429. */
export function unlessBusy<T>(work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    throw error instanceof HashingBusy ? fail('too_many_logins', null, { 'Retry-After': '5' }) : error
  })
}
