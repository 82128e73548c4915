// The phases of a run in this process, and the transitions between them: all in one table.

/** Maximum attempts, of agents that go on and of runs that were queued: one that ends its process each time ends as an error. */
export const ATTEMPTS_MAX = 3

/** `pending`: stored, queued in its thread. `open`: the agent works. `settling`: the end is decided and being written. */
export type RunPhase =
  | 'pending'
  | 'open'
  /** Its agent was cut, and what it has is being stored: whoever recovers it goes on with it. */
  | 'leaving'
  | 'settling'
  /** The store has refused some records: the end is written without them. */
  | 'salvaging'
  /** The end is stored; joiners get it. */
  | 'closed'
  /** The same, but some records are not stored: they stay in memory. */
  | 'closed-with-loss'
  /** Another process owns it. */
  | 'abandoned'

export type RunTransition =
  /** Its turn has come. */
  | 'start'
  /** Success, failure, cancel, timeout, shutdown. */
  | 'end'
  /** It is to go on elsewhere. */
  | 'leave'
  /** The store refuses its records for good. */
  | 'refusal'
  /** Its end is stored. */
  | 'stored'
  /** This process has lost its lease, or has left the run. */
  | 'lease-lost'

/** Anything not listed changes nothing: a run has one end, and nothing follows it. */
export const TRANSITIONS: Readonly<Record<RunPhase, Readonly<Partial<Record<RunTransition, RunPhase>>>>> = {
  pending: { start: 'open', end: 'settling', refusal: 'salvaging', 'lease-lost': 'abandoned' },
  open: { end: 'settling', leave: 'leaving', refusal: 'salvaging', 'lease-lost': 'abandoned' },
  leaving: { end: 'settling', refusal: 'salvaging', 'lease-lost': 'abandoned' },
  settling: { refusal: 'salvaging', stored: 'closed', 'lease-lost': 'abandoned' },
  salvaging: { stored: 'closed-with-loss', 'lease-lost': 'abandoned' },
  closed: {},
  'closed-with-loss': {},
  abandoned: {}
}

/** No transitions from here. */
export function isFinal(phase: RunPhase): boolean {
  return Object.keys(TRANSITIONS[phase]).length === 0
}
