// Crossing: a run that was begun in any protocol on one process is joined in any other on another one, on PostgreSQL, in mid-run and after.
import t from 'tap'
import { crossProcesses } from '../fixtures/crossings.ts'

const TALK = 'reasoning tool=write_file args={"path":"a.txt","content":"hi 𝕏"}'
const QUESTION = 'tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'

await crossProcesses(t, [
  { status: 'completed', words: (ms) => `/demo rate=100 pause=10:${ms} deltas=60 ${TALK}` },
  { status: 'failed', words: (ms) => `/demo error rate=100 pause=10:${ms} deltas=60 ${TALK}` },
  { status: 'cancelled', words: () => '/demo rate=100 deltas=100000 reasoning', cancelAt: 'w0010 ' },
  { status: 'asked', words: (ms) => `/demo rate=100 pause=10:${ms} deltas=60 reasoning ${QUESTION}` }
])
