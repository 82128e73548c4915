// A hook that calls a route for a view: its answer, or the problem, and how to ask again.
import { useEffect, useState } from 'preact/hooks'
import { call, textOf } from './api.ts'

/** The response of a route, or an error. */
export function useAnswer<T>(path: string): { answer: T | null; problem: string | null; reload: () => void } {
  const [answer, setAnswer] = useState<T | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const reload = () => void call<T>('GET', path).then(setAnswer, (error) => setProblem(textOf(error)))
  useEffect(reload, [])
  return { answer, problem, reload }
}
