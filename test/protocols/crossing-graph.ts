// Crossing: a run of a LangGraph graph that was begun in any protocol is joined in any other, in mid-run and after its end.
import t from 'tap'
import { crossAll } from '../fixtures/crossings.ts'
import { graphsFolder } from '../fixtures/graphs.ts'

// Other protocols ask for it by the name that every assistant of ours has.
const folder = graphsFolder(t, 'newest', { lead_agent: 'crossing.mjs:crossing' })
const script = (more: object) => JSON.stringify({ rate: 100, deltas: 40, ...more })

await crossAll(
  t,
  [
    { status: 'completed', words: (silence) => script({ silence }) },
    { status: 'failed', words: (silence) => script({ silence, fails: true }), isStepLost: true },
    { status: 'cancelled', words: () => script({ deltas: 100_000 }), cancelAt: 'w10 ', isStepLost: true },
    {
      status: 'cancelled',
      how: ' within a call',
      words: () => script({ silence: 600_000 }),
      cancelAt: 'path',
      isStepLost: true
    },
    { status: 'asked', words: (silence) => script({ silence, asks: true }) }
  ],
  { agent: { runtime: 'graphs', config: folder } }
)
