// Makes states that an agent keeps itself available to run logs, so that late readers still get the final state.
import type { StatePort } from '../agent/states.ts'
import type { CheckpointReads, Store, StoredCheckpoint } from '../store/store.ts'
import { isObject, type Json } from '../types.ts'

type ShownValues = Pick<StatePort, 'values'>

/** The store with those states in place of its own checkpoints. */
export function withShownStates(store: Store, states: ShownValues): Store {
  const { peers } = store
  return {
    users: store.users,
    apiTokens: store.apiTokens,
    assistants: store.assistants,
    threads: store.threads,
    runs: store.runs,
    events: store.events,
    frames: store.frames,
    checkpoints: shownStates(states),
    graphStates: store.graphStates,
    items: store.items,
    crons: store.crons,
    jobs: store.jobs,
    feedback: store.feedback,
    ...(peers && { peers }),
    apply: (groups) => store.apply(groups),
    get trouble() {
      return store.trouble ?? null
    },
    close: () => store.close()
  }
}

function shownStates(states: ShownValues): CheckpointReads {
  return {
    async load(threadId, checkpointId) {
      const found = await states.values(threadId, checkpointId)
      // The port answers JSON text.
      return found && storedOf(threadId, checkpointId, JSON.parse(found.json) as Json)
    },
    history: async () => []
  }
}

/** Presents each value as a channel of ours: only its text is read. */
function storedOf(thread_id: string, checkpointId: string | null, values: Json): StoredCheckpoint {
  const channels = Object.entries(isObject(values) ? values : {})
  return {
    thread_id,
    checkpoint_id: checkpointId ?? '',
    parent_checkpoint_id: null,
    run_id: null,
    created_at: '',
    metadata: {},
    next: [],
    messages: [],
    channels: {},
    messageBodies: [],
    channelBodies: channels.map(([name, value], no) => ({ name, no, json: JSON.stringify(value) })),
    nextBody: 0
  }
}
