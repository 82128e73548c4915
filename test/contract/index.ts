// The obligations of lib/store/store.ts as suites that any implementation can run: ours do, and so may yours. They need `tap` to
// run them and `fast-check` for the rules that hold for any input.
//
//   import t from 'tap'
//   import { eventsOverMemory, storeContract } from 'colloquy/testing'
//
//   // A whole store: every suite.
//   storeContract(t, 'mine', async () => {
//     const store = await openStore({ home, options: {}, warn: () => {} })
//     return { store, close: () => store.close() }
//   })
//
//   // A place for events alone: every suite on a store that is made of it and a memory database.
//   storeContract(t, 'mine', eventsOverMemory(async () => {
//     const events = await openEventStore({ home, options: {}, warn: () => {} })
//     return { events }
//   }))
import type { Test } from 'tap'
import { apiTokenStoreContract } from './api-tokens.ts'
import { applyContract } from './apply.ts'
import { graphStateContract } from './graph-states.ts'
import { assistantStoreContract } from './assistants.ts'
import { checkpointStoreContract } from './checkpoints.ts'
import { aliasStoreContract } from './aliases.ts'
import { cronStoreContract } from './crons.ts'
import { retentionContract } from './retention.ts'
import { eventStoreContract } from './events.ts'
import { feedbackStoreContract } from './feedback.ts'
import { frameUpkeepContract } from './frame-upkeep.ts'
import { frameStoreContract } from './frames.ts'
import type { Open } from './harness.ts'
import { holdContract } from './holds.ts'
import { itemStoreContract } from './items.ts'
import { jobStoreContract } from './jobs.ts'
import { limitContract } from './limits.ts'
import { peerContract } from './peers.ts'
import { runStoreContract } from './runs.ts'
import { scopeContract } from './scope.ts'
import { searchContract } from './search.ts'
import { threadMetadataContract } from './thread-metadata.ts'
import { threadStoreContract } from './threads.ts'
import { usageContract } from './usage.ts'
import { userStoreContract } from './users.ts'

export type { Open, Opened } from './harness.ts'
export { write } from './harness.ts'
export { eventsOverMemory, type OpenedEvents } from './events-over-memory.ts'
export {
  aliasStoreContract,
  apiTokenStoreContract,
  applyContract,
  assistantStoreContract,
  graphStateContract,
  checkpointStoreContract,
  eventStoreContract,
  feedbackStoreContract,
  frameStoreContract,
  frameUpkeepContract,
  holdContract,
  itemStoreContract,
  cronStoreContract,
  peerContract,
  retentionContract,
  runStoreContract,
  scopeContract,
  searchContract,
  threadMetadataContract,
  jobStoreContract,
  limitContract,
  threadStoreContract,
  usageContract,
  userStoreContract
}

/** Every suite, by the noun that it is about. */
export const SUITES: Readonly<Record<string, (t: Test, open: Open) => void | Promise<void>>> = {
  apply: applyContract,
  scope: scopeContract,
  users: userStoreContract,
  usage: usageContract,
  apiTokens: apiTokenStoreContract,
  assistants: assistantStoreContract,
  graphStates: graphStateContract,
  jobs: jobStoreContract,
  limits: limitContract,
  threads: threadStoreContract,
  threadMetadata: threadMetadataContract,
  runs: runStoreContract,
  events: eventStoreContract,
  frames: frameStoreContract,
  frameUpkeep: frameUpkeepContract,
  checkpoints: checkpointStoreContract,
  items: itemStoreContract,
  crons: cronStoreContract,
  aliases: aliasStoreContract,
  holds: holdContract,
  retention: retentionContract,
  feedback: feedbackStoreContract,
  search: searchContract,
  peers: peerContract
}

/**
 * Runs every suite on the store that `open` gives: a new and empty one each time. Suites need nothing of each other. A store
 * that cannot `reopen` skips the rules of durability, one that cannot be jammed a rule of [Store 3], one without `beside` those of
 * [Store 10], each with its reason.
 */
export function storeContract(t: Test, name: string, open: Open): void {
  t.test(name, async (t) => {
    for (const [noun, suite] of Object.entries(SUITES)) {
      // Awaited by the test itself: it ends when the last of its own tests has.
      t.test(noun, async (t) => suite(t, open))
    }
  })
}
