// The newest runs of a thread. Delayed runs that have not begun have no place in it, and are listed in front of all others.
import { isDelayed, type Run } from '../base/types.ts'

/** Runs of a page behind the first: however many are delayed, few pages are read. */
const PAGE = 100

/**
 * Those that have begun or wait for their turn, newest first.
 * @param list all runs of the thread, newest first
 */
export async function newestRuns(
  limit: number,
  list: (page: { readonly limit: number; readonly offset: number }) => Promise<readonly Run[]>
): Promise<Run[]> {
  const found: Run[] = []
  for (let [offset, size] = [0, limit]; ; [offset, size] = [offset + size, PAGE]) {
    const page = await list({ limit: size, offset })
    found.push(...page.filter((run) => !isDelayed(run)))
    if (found.length >= limit || page.length < size) return found.slice(0, limit)
  }
}
