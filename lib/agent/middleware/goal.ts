// Reminds the model of the thread's goal, which its user has set for all turns (channel `goal`).
import { isObject } from '../../base/types.ts'
import type { Middleware } from '../middleware.ts'

const TAG = 'goal'

export function goalMiddleware(): Middleware {
  return {
    tag: TAG,
    async beforeModel(run) {
      const goal = run.channel('goal')
      const objective = isObject(goal) && goal.status === 'active' ? goal.objective : null
      run.instruct(TAG, typeof objective === 'string' ? `The user's goal for this conversation:\n${objective}` : null)
    }
  }
}
