// The last handler of work that nobody awaits and that is written so as not to fail: an unhandled rejection would end the process, with
// everybody's runs in it. What can be expected to fail has a handler of its own, with a log and what follows.

/** Reports a failure nobody expected as a warning of the process, which `serve` logs and an embedder listens for. */
export function warnUnexpected(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : new Error(String(error)))
}
