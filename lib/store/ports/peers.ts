// The processes that have one database open together: what they know of each other.
import type { Run, RunStatus } from '../../types.ts'

/** What one process tells another: ids and never contents. Any of it may get lost; who relies on it asks the database as well. */
export type PeerMessage =
  /** These runs are yours: they were admitted here, behind others of their thread that you have. */
  | { readonly kind: 'arrived'; readonly runs: readonly string[] }
  /** Tell me when something of these runs of yours is stored. */
  | { readonly kind: 'follow' | 'unfollow'; readonly runs: readonly string[] }
  /** Something of `runs` was stored; those in `over` have ended with it. */
  | { readonly kind: 'stored'; readonly runs: readonly string[]; readonly over: readonly string[] }
  | {
      readonly kind: 'cancel'
      readonly run: string
      readonly action: 'interrupt' | 'rollback'
      readonly reason: string | null
    }
  /** The creator of this run, of yours, has come to a stream here, or has left it. */
  | { readonly kind: 'creator'; readonly run: string; readonly isHere: boolean }
  /** End your runs of this thread, and say when their agents have let go. */
  | { readonly kind: 'clear' | 'cleared'; readonly thread: string }
  /** The thread is gone, with all that it had; `user` is whose it was. */
  | { readonly kind: 'removed'; readonly thread: string; readonly user: string | null }
  | { readonly kind: 'revoked'; readonly digest: string }
  | { readonly kind: 'revoked'; readonly userId: string }
  /** I end: what I leave is to be had. */
  | { readonly kind: 'left' }

export interface PeerListener {
  onMessage(message: PeerMessage, from: string): void
  /** What was told in the last moments may not have arrived. */
  onGap(): void
  /** This process has lost its lease: its runs are somebody else's. Called before anything is refused for it. */
  onLeaseLost(): void
}

/** Where a run stands, as other processes can know it. */
export interface RunLocation {
  readonly run_id: string
  readonly status: RunStatus
  /** null: nobody, or one that is no more. */
  readonly owner: string | null
  /** n of its last stored frame; null: there is none. */
  readonly last: number | null
}

/** What the processes on one database must agree upon. */
export interface PeerIdentity {
  /** Which secret signs its sessions, without telling it. */
  readonly secret: string
  /** Where its run events lie: the same text is the same place. */
  readonly events: string
}

/** The processes that have one database open at the same time [Store 10]. */
export interface Peers {
  /** This process, as the owner of its runs. A new one after the lease was lost. */
  readonly id: string
  /** How long a process that does not renew its lease keeps it, in ms. */
  readonly leaseMs: number
  /**
   * Makes this process known and begins to listen; answers who the others are that live. `before`: one that is known to be dead, whose
   * lease ends now.
   */
  start(listener: PeerListener, identity: PeerIdentity, before: string | null): Promise<PeerIdentity[]>
  /** Prolongs the lease; a loss is told to the listener. To be called every third of `leaseMs`. */
  renew(): Promise<void>
  /** Takes the runs of processes that have lost their lease. Answers every run in flight of this process, oldest first. */
  claim(): Promise<Run[]>
  /** Those of these runs that there are. */
  runLocations(runIds: readonly string[]): Promise<RunLocation[]>
  /** Tells one process, or with null all others. Nobody learns whether it has arrived. */
  tell(to: string | null, message: PeerMessage): void
}
