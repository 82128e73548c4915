// Crossing: a run that was begun in any protocol on one process is joined in any other on another one, on PostgreSQL, in mid-run and after.
import t from 'tap'
import { crossProcesses } from '../fixtures/crossings.ts'
import { IS_LONG } from '../fixtures/size.ts'

const TALK = 'reasoning tool=write_file args={"path":"a.txt","content":"hi 𝕏"}'
const QUESTION = 'tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'

const ENDINGS = [
  { status: 'completed', words: (ms: number) => `/demo rate=100 pause=10:${ms} deltas=60 ${TALK}` },
  { status: 'cancelled', words: () => '/demo rate=100 deltas=100000 reasoning', cancelAt: 'w0010 ' }
] as const
const MORE = [
  { status: 'failed', words: (ms: number) => `/demo error rate=100 pause=10:${ms} deltas=60 ${TALK}` },
  { status: 'asked', words: (ms: number) => `/demo rate=100 pause=10:${ms} deltas=60 reasoning ${QUESTION}` }
] as const

await crossProcesses(t, IS_LONG ? [...ENDINGS, ...MORE] : ENDINGS)
