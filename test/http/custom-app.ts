// Routes of the operator's own, whatever their program does.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t from 'tap'
import { HANDLED } from '../../lib/http/route.ts'
import { CustomApp } from '../../lib/langgraph/project/custom-app.ts'
import { until } from '../fixtures/until.ts'

t.test('a client that reads nothing of an endless answer is cut off, and the program hears of it', async (t) => {
  let isCancelled = false
  const endless = () =>
    new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(64 * 1024)),
      cancel: () => {
        isCancelled = true
      }
    })
  const options = { needsUser: false, bodyLimit: 1000, stallMs: 100, userOf: () => ({}) }
  const app = new CustomApp({ fetch: () => new Response(endless()) }, options)
  const ours = { isStream: false, answer: async () => HANDLED }
  const server = createServer((req, res) => void app.answer(req, res, [], null, ours))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  // A server on a port has an address object.
  const { port } = server.address() as AddressInfo
  const client = connect(port, '127.0.0.1').pause()
  t.teardown(() => client.destroy())
  client.on('error', () => {})
  client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => isCancelled, 'the answer is closed')
  t.ok(isCancelled)
})
