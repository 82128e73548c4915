// The worker thread of operations.ts: a backup, the shrinking of the database's file, or the count of what is too old, while requests go
// on.
import { parentPort } from 'node:worker_threads'
import type { Actor } from '../auth/audit.ts'
import { ThreadChannel } from '../base/thread-channel.ts'
import type { Config } from '../config/config.ts'
import { backUp } from './backup.ts'
import { countOld, prune } from './operator.ts'

/** By name; each is given the configuration first. */
const WORKS = {
  backup: (config: Config, file: string, by: Actor) => backUp(config, file, false, by),
  prune,
  countOld
} as const

export type Works = typeof WORKS

if (parentPort) new ThreadChannel(parentPort, WORKS)
