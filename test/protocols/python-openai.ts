// OpenAI's client in Python, unmodified: five turns with reasoning and tools, cut at random bytes and over a kill -9. `npm run test:long`.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { startChild } from '../fixtures/child.ts'
import { at, listIn, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'
import { openProxy } from '../fixtures/proxy.ts'
import { pythonWith } from '../fixtures/python.ts'
import { Random } from '../fixtures/random.ts'
import { IS_LONG, SEED } from '../fixtures/size.ts'

const TURNS = 5
const CUTS = 60
const HEAD_BYTES = 6000
/** Follows each answer by hand behind the number of its last event, and prints what it was told, answer by answer. */
const TALKING = `
import json, sys, time, openai
url, key, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = openai.OpenAI(base_url=url + "/v1", api_key=key)
texts, results, previous = {}, [], None
for turn in range(turns):
    last, response, stream = -1, None, None
    ask = "/demo rate=120 deltas=240 reasoning tool=current_time"
    more = {"previous_response_id": previous} if previous else {}
    while response is None:
        try:
            if last < 0:
                stream = client.responses.create(model="lead_agent", input=ask, stream=True, **more)
            else:
                stream = client.responses.retrieve(previous, stream=True, starting_after=last)
            for event in stream:
                assert event.sequence_number == last + 1, (event.sequence_number, last)
                last = event.sequence_number
                if event.type == "response.created":
                    previous = event.response.id
                if event.type == "response.output_text.delta":
                    texts[event.item_id] = texts.get(event.item_id, "") + event.delta
                if event.type == "response.output_item.done" and event.item.type == "mcp_call":
                    results.append(event.item.output)
                if event.type in ("response.completed", "response.failed", "response.incomplete"):
                    response = event.response
        except AssertionError:
            raise
        except Exception:
            time.sleep(0.01)
print(json.dumps({"texts": list(texts.values()), "results": results, "conversation": response.conversation.id}))
`
const skip = !IS_LONG && 'real clients of other protocols are run by npm run test:long'

t.test('openai in Python: five turns are the state, each part once, over cuts and a kill -9', { skip }, async (t) => {
  const python = await pythonWith('openai', 'openai')
  if ('reason' in python) return t.comment(python.reason)
  const config = { memory: { enabled: false }, title: { enabled: false } }
  const site = await startChild(t, { config })
  const person = await signIn(site)
  const { token } = await programOf(person, ...PERMISSIONS)
  const proxy = await openProxy(t, site.url)
  const random = new Random(SEED)
  t.comment(`seed ${SEED}`)
  proxy.cutAfter(random.between(HEAD_BYTES, 2 * HEAD_BYTES))
  for (let i = 0; i < CUTS; i++) proxy.cutAfter(random.between(HEAD_BYTES, 2 * HEAD_BYTES))
  const args = ['-c', TALKING, proxy.url, token, String(TURNS)]
  const talking = promisify(execFile)(join(python.bin, 'python'), args, { timeout: 300_000 })
  await until(async () => proxy.connections > 10, 'in the middle of it')
  await site.kill()
  const next = await startChild(t, { config, home: site.home })
  proxy.turnTo(next.url)
  const { stdout } = await talking
  const told: unknown = JSON.parse(stdout)
  const thread = textIn(told, 'conversation').replace(/^conv_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  const messages = listIn(
    (await new Person(next.url, person.cookies).get(`/api/threads/${thread}/state`)).body,
    'values',
    'messages'
  )
  const textsOf = (type: string) =>
    messages.flatMap((one) => (at(one, 'type') === type && at(one, 'content') ? [textIn(one, 'content')] : []))
  // The one that was killed may have said nothing yet.
  t.ok(textsOf('ai').length >= TURNS - 1)
  t.strictSame(at(told, 'texts'), textsOf('ai'))
  t.strictSame(at(told, 'results'), textsOf('tool'))
  t.ok(proxy.connections > TURNS + 10, `${proxy.connections} connections`)
})
