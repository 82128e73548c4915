// Times and amounts as the page shows them: each in the unit that it rounds to, and days by the reader's calendar. Without a browser.
import t from 'tap'
import { becomePage, pageModule } from '../fixtures/page-module.ts'

// Summer time ends there on 25 October 2026, and begins on 29 March: days of 25 and 23 hours.
process.env.TZ = 'Europe/Berlin'
becomePage()
const { ago, bytes, dayOf, duration } = await pageModule<{
  ago(iso: string, now: number): string
  bytes(count: number): string
  dayOf(iso: string, now: Date): string
  duration(ms: number): string
}>('time')

t.test('a duration is rounded before its unit is chosen', async (t) => {
  t.same([0, 999.4, 999.6, 1000, 59_940].map(duration), ['0 ms', '999 ms', '1.0 s', '1.0 s', '59.9 s'])
  t.same([59_960, 60_000, 119_400, 119_600].map(duration), ['1 min', '1 min', '1 min 59 s', '2 min'])
})

t.test('so are bytes, and how long ago something was', async (t) => {
  const near = [1024 ** 2 - 1, 1024 ** 3 - 1]
  t.same([1023, 1024, ...near].map(bytes), ['1023 B', '1.0 KB', '1.0 MB', '1.00 GB'])
  const now = Date.UTC(2026, 5, 15, 12)
  const before = (minutes: number) => ago(new Date(now - minutes * 60_000).toISOString(), now)
  t.same([59.4, 59.6, 23 * 60, 23 * 60 + 40].map(before), ['59 min', '1 h', '23 h', 'Jun 14'])
})

t.test('a day is one of the calendar, also where it has 25 hours or 23', async (t) => {
  const days = (...given: string[]) => given.map((local) => dayOf(new Date(local).toISOString(), new Date(now)))
  let now = '2026-10-26T09:00'
  t.same(days('2026-10-26T00:00', '2026-10-25T23:59', '2026-10-25T00:30'), ['Today', 'Yesterday', 'Yesterday'])
  t.same(days('2026-10-24T23:59', '2026-10-19T00:30'), ['Previous 7 days', 'Previous 7 days'])
  t.same(days('2026-10-18T23:59', '2026-09-26T00:30'), ['Previous 30 days', 'Previous 30 days'])
  t.same(days('2026-09-25T23:59'), ['September 2026'])
  now = '2026-03-30T09:00'
  t.same(days('2026-03-29T00:30', '2026-03-28T23:30'), ['Yesterday', 'Previous 7 days'])
})
