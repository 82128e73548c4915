// A group that is refused: it is not written, its run or request learns the message, and the others of its batch are kept [Store 2].
import type { Owner, UserArg } from '../scope.ts'

export class Refused extends Error {}

/**
 * The user of an op, which its writer has resolved: the current user of a committer is whoever happened to wake it [Auth 7].
 * @throws Refused when it has not: nothing may be written unfiltered by mistake.
 */
export function resolved(user: UserArg): Owner {
  if (user === undefined) throw new Refused('the user of this op was not resolved')
  return user
}
