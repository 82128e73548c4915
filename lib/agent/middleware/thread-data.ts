// Sets the channel with the paths of the thread's folders, which front ends read.
import { VIRTUAL_ROOT } from '../tools.ts'
import type { Middleware } from './middleware.ts'

const THREAD_DATA = {
  workspace_path: `${VIRTUAL_ROOT}/workspace`,
  uploads_path: `${VIRTUAL_ROOT}/uploads`,
  outputs_path: `${VIRTUAL_ROOT}/outputs`
}

export const threadDataMiddleware: Middleware = {
  tag: 'thread_data',
  async beforeModel(run) {
    if (run.channel('thread_data') === undefined) await run.update({ thread_data: THREAD_DATA })
  }
}
