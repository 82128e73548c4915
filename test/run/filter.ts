// Filters: what of a log a reader asked to see.
import t from 'tap'
import { bit, Kind } from '../../lib/run/log/frame.ts'
import { extraKinds, filterOf } from '../../lib/run/log/filter.ts'

const kindsOf = (modes: string[]) =>
  Object.entries(Kind).flatMap(([name, kind]) => (filterOf(modes).mask & bit(kind) ? [name] : []))

t.test('every reader sees metadata and errors, whatever it asked for', async (t) => {
  for (const modes of [[], ['values'], ['custom'], ['messages'], ['nonsense']]) {
    t.ok(kindsOf(modes).includes('metadata'), String(modes))
    t.ok(kindsOf(modes).includes('error'), String(modes))
  }
})

t.test('messages-tuple shows deltas as they stand; messages accumulates them', async (t) => {
  t.same(kindsOf(['messages-tuple']), ['metadata', 'messages', 'error', 'feedback'])
  t.equal(filterOf(['messages-tuple']).accumulate, false)
  t.same(kindsOf(['messages']), ['metadata', 'error', 'feedback'], 'no delta as it stands')
  t.equal(filterOf(['messages']).accumulate, true)
  t.not(filterOf(['messages']), filterOf(['messages-tuple']))
})

t.test('names that every object has are unknown modes', async (t) => {
  for (const name of ['constructor', '__proto__', 'hasOwnProperty', 'toString'])
    t.equal(filterOf([name]), filterOf(['values']), name)
})

t.test('a mode named twice, or in another order, is the same filter', async (t) => {
  t.equal(filterOf(['custom', 'updates', 'custom']), filterOf(['updates', 'custom']))
})

t.test('only updates, tasks, checkpoints and debug have to be asked for by the creator', async (t) => {
  const all = ['values', 'messages', 'messages-tuple', 'custom', 'updates', 'tasks', 'checkpoints', 'debug', 'nonsense']
  t.equal(extraKinds(all), bit(Kind.updates) | bit(Kind.tasks) | bit(Kind.checkpoints) | bit(Kind.debug))
  t.equal(extraKinds(['values', 'messages', 'custom']), 0)
})

t.test('the numbers of kinds are stored, and never change', async (t) => {
  t.same(Kind, {
    metadata: 0,
    values: 1,
    messages: 2,
    updates: 3,
    custom: 4,
    tasks: 5,
    checkpoints: 6,
    debug: 7,
    error: 8,
    whole: 9,
    part: 10,
    events: 11,
    tools: 12,
    state: 13,
    envelope: 14,
    feedback: 15,
    extension: 16,
    offset: 17,
    joined: 18
  })
})
