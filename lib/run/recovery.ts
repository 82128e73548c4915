// What a start does about the runs that the process before it left behind: one that had started is ended, one that was waiting
// waits again.
import type { Store, Writer } from '../store/store.ts'
import type { Run } from '../types.ts'
import { timestamp } from '../types.ts'
import { Kind } from './filter.ts'
import { FrameLog, newEpoch } from './frames.ts'
import type { Registry } from './registry.ts'
import { cursorText } from './sse.ts'

const RESTARTED = 'Gateway restarted before this run reached a durable final state.'

/** Ends what had started and queues what had not, oldest first. Resolves with the numbers of both. */
export async function recover(
  store: Store,
  writer: Writer & GroupWriter,
  registry: Registry
): Promise<{ ended: number; resumed: number }> {
  const found = { ended: 0, resumed: 0 }
  for (const run of await store.runs.unfinished()) {
    if (run.status === 'running') {
      await end(run, store, writer)
      found.ended++
    } else {
      const bounds = await store.frames.bounds(run.key)
      registry.resume(run, { epochs: bounds?.epochs ?? [], head: bounds ? bounds.last + 1 : 0 })
      found.resumed++
    }
  }
  return found
}

/** Writes ops that belong together. */
export interface GroupWriter {
  writeAll(ops: Parameters<Store['apply']>[0][number]['ops']): Promise<readonly unknown[]>
}

/** One terminal status and one terminal frame, under an epoch of its own: older cursors are told apart from it. */
async function end(run: Run, store: Store, writer: GroupWriter): Promise<void> {
  const bounds = await store.frames.bounds(run.key)
  const log = new FrameLog(newEpoch(), 0, bounds ? bounds.last + 1 : 0)
  log.append(Kind.error, 'error', JSON.stringify({ error: 'ServerRestart', name: 'ServerRestart', message: RESTARTED }))
  const newest = await store.checkpoints.load(run.thread_id, null, [])
  const {
    total_input_tokens,
    total_output_tokens,
    total_tokens,
    llm_call_count,
    lead_agent_tokens,
    subagent_tokens,
    middleware_tokens,
    message_count
  } = run
  await writer.writeAll([
    { name: 'frames.append', run_key: run.key, thread_id: run.thread_id, segment: log.take()! },
    {
      name: 'run.settle',
      run_id: run.run_id,
      thread_id: run.thread_id,
      status: 'error',
      thread_status: 'error',
      title: null,
      error: RESTARTED,
      stop_reason: 'server_restart',
      model_name: run.model_name,
      last_cursor: cursorText(log.epoch, log.head - 1),
      final_checkpoint_id: newest?.checkpoint_id ?? null,
      first_human_message: null,
      last_ai_message: null,
      now: timestamp(),
      total_input_tokens,
      total_output_tokens,
      total_tokens,
      llm_call_count,
      lead_agent_tokens,
      subagent_tokens,
      middleware_tokens,
      message_count
    }
  ])
}
