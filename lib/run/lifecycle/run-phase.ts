// Where a run stands in this process, and what leads from there to where: all of it is this one table.

/** `pending`: stored, waits for its turn in the thread. `open`: the agent works. `settling`: the end is decided, and being written. */
export type RunPhase =
  | 'pending'
  | 'open'
  | 'settling'
  /** The store has refused some of its records: its end is written without them. */
  | 'salvaging'
  /** The end is stored; joiners are told. */
  | 'closed'
  /** The same, and some of its records are not stored: they stay in memory. */
  | 'closed-with-loss'
  /** It is another process's. */
  | 'abandoned'

export type RunTransition =
  /** Its turn has come. */
  | 'start'
  /** Success, failure, cancel, timeout, shutdown. */
  | 'end'
  /** The store refuses its records, for what they are. */
  | 'refusal'
  /** Its end is stored. */
  | 'stored'
  /** This process has lost its lease. */
  | 'lease-lost'

/** What is not here changes nothing: a run has one end, and nothing follows it. */
export const TRANSITIONS: Readonly<Record<RunPhase, Readonly<Partial<Record<RunTransition, RunPhase>>>>> = {
  pending: { start: 'open', end: 'settling', refusal: 'salvaging', 'lease-lost': 'abandoned' },
  open: { end: 'settling', refusal: 'salvaging', 'lease-lost': 'abandoned' },
  settling: { refusal: 'salvaging', stored: 'closed', 'lease-lost': 'abandoned' },
  salvaging: { stored: 'closed-with-loss', 'lease-lost': 'abandoned' },
  closed: {},
  'closed-with-loss': {},
  abandoned: {}
}

/** Nothing leads from here. */
export function isFinal(phase: RunPhase): boolean {
  return Object.keys(TRANSITIONS[phase]).length === 0
}
