// Processes that share one database, and their messages to each other.
import type { Run, RunStatus } from '../../base/types.ts'

/** Messages between processes: ids, never contents. Any of them may get lost, so everything that relies on one also polls the database. */
export type PeerMessage =
  /** These runs are yours: admitted here, behind runs of their thread that you own. */
  | { readonly kind: 'arrived'; readonly runs: readonly string[] }
  /** Subscribe: announce what is stored of these runs, which are yours. */
  | { readonly kind: 'follow' | 'unfollow'; readonly runs: readonly string[] }
  /** Records of `runs` were stored; those in `over` have ended. */
  | { readonly kind: 'stored'; readonly runs: readonly string[]; readonly over: readonly string[] }
  | { readonly kind: 'cancel'; readonly run: string; readonly action: 'interrupt' | 'rollback' }
  /** Readers here wait for the next run of these threads: announce it. */
  | { readonly kind: 'watch'; readonly threads: readonly string[] }
  /** There may be another run in the thread; or, where `thread` names a user, his thread `of` has changed. */
  | { readonly kind: 'admitted'; readonly thread: string; readonly of?: string }
  /** The creator of this run, or a reader whose disconnect ends it, has opened a stream here or left it. */
  | { readonly kind: 'creator'; readonly run: string; readonly isHere: boolean; readonly isAsked?: boolean }
  /** Cancel your runs of this thread, and reply when their agents have stopped. */
  | { readonly kind: 'clear' | 'cleared'; readonly thread: string }
  /** The thread was removed; `user` owned it. */
  | { readonly kind: 'removed'; readonly thread: string; readonly user: string | null }
  | { readonly kind: 'revoked'; readonly digest: string }
  | { readonly kind: 'revoked'; readonly userId: string }
  /** Read your configuration again, and answer what you have taken of it. */
  | { readonly kind: 'reconfigure'; readonly question: string }
  | { readonly kind: 'reconfigured'; readonly question: string; readonly reply: ConfigurationReply }
  /** I am shutting down: my runs can be taken over. */
  | { readonly kind: 'left' }

/** What a process has made of its configuration, by names of options. */
export interface ConfigurationReply {
  /** They have changed, and count from now on. */
  readonly taken: readonly string[]
  /** They have changed, and count from the next start on. */
  readonly left: readonly string[]
  /** Why nothing was taken. */
  readonly problems: readonly string[]
}

export interface PeerListener {
  onMessage(message: PeerMessage, from: string): void
  /** Recent messages may have been lost. */
  onGap(): void
  /** This process has lost its lease: its runs belong to others. Called before any write is refused for it. */
  onLeaseLost(): void
}

/** A run's state as other processes can see it. */
export interface RunLocation {
  readonly run_id: string
  readonly status: RunStatus
  /** null: nobody, or a process that is gone. */
  readonly owner: string | null
  /** n of its last stored frame; null: none. */
  readonly last: number | null
}

/** What processes on one database must agree on. */
export interface PeerIdentity {
  /** Fingerprint of the secret that signs sessions. */
  readonly secret: string
  /** Where its run events are stored: equal text means the same place. */
  readonly events: string
  /** Id of the home, where files are; missing: an older version did not tell it. */
  readonly home?: string
}

/** The processes that share this database [Store 10]. */
export interface Peers {
  /** This process's id as an owner of runs. Changes after its lease was lost. */
  readonly id: string
  /** Lifetime of a lease that is not renewed, in ms. */
  readonly leaseMs: number
  /**
   * Registers this process and starts listening; returns the other live processes. `before`: a process known to be
   * dead, whose lease ends now.
   */
  start(listener: PeerListener, identity: PeerIdentity, before: string | null): Promise<PeerIdentity[]>
  /** Renews the lease; the listener is told if it was lost. Call every third of `leaseMs`. */
  renew(): Promise<void>
  /** Takes over runs of processes whose lease expired. Returns every run in flight of this process, oldest first. */
  claim(): Promise<Run[]>
  /** Ids of the other processes whose leases have not expired. */
  others(): Promise<string[]>
  /** States of those of these runs that exist. */
  runLocations(runIds: readonly string[]): Promise<RunLocation[]>
  /** Sends to one process, or with null to all others. Delivery is not confirmed. */
  tell(to: string | null, message: PeerMessage): void
}
