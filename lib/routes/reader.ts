// Identity of a stream's reader: found when its credential is revoked.
import type { Call } from '../http/call.ts'
import type { Reader } from '../run/delivery/credential-revalidator.ts'
import type { Services } from './services.ts'

export function readerOf(services: Pick<Services, 'isValid'>, { user, grant }: Call): Reader {
  return {
    userId: user?.id ?? null,
    credential: grant?.digest ?? null,
    isValid: async () => grant === null || services.isValid(grant)
  }
}
