// Legal holds in front of what is no row, and of work that would end runs before the store refuses it.
import { fail } from '../base/errors.ts'
import type { HeldScope, Store } from '../store/store.ts'

/** @throws Failure held while a hold keeps it */
export async function refuseHeld({ holds }: Pick<Store, 'holds'>, of: HeldScope, id: string): Promise<void> {
  if (await holds.isHeld(of, id)) throw fail('held')
}
