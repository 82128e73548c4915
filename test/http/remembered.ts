// What is remembered of a user is said to the model for that user and for nobody else: ten users, memory learned in the background,
// by a stop, and while the process is killed.
import t from 'tap'
import { type Child, startChild } from '../fixtures/child.ts'
import { type Echo, startEcho } from '../fixtures/echo.ts'
import { asked, at, listIn, type Person, signIn, until } from '../fixtures/gateway.ts'

const USERS = 10
/** `mark-<user>-<number>`: a secret of that user. */
const MARK = /mark-\d+-\d+/g

const markOf = (user: number, n: number) => `mark-${user}-${n}`

/** Says something in a thread of its own, as a user who is known by number. */
async function say(person: Person, words: string): Promise<void> {
  const { status, text } = await person.post(`/api/threads/${await person.thread()}/runs/wait`, asked(words))
  if (status !== 200) throw new Error(`${status} ${text}`)
}

const each = <T>(people: readonly Person[], work: (person: Person, user: number) => Promise<T>) =>
  Promise.all(people.map(work))

async function knows(person: Person, mark: string): Promise<boolean> {
  const { body } = await person.get('/api/memory')
  return listIn(body, 'facts').some((fact) => at(fact, 'content') === mark)
}

/** Prompts in which the marks of two users stand. */
const mixed = ({ shown }: Echo) =>
  shown.filter((prompt) => new Set((prompt.match(MARK) ?? []).map((mark) => mark.split('-')[1])).size > 1)

t.test(
  "[Isolation] of ten users none is told another's memory, over background updates, a stop and a kill",
  async (t) => {
    const echo = await startEcho(t, MARK)
    const config = (debounce_seconds: number) => ({
      models: [{ name: 'main', base_url: echo.baseUrl, api_key: 'k', model: 'echo' }],
      memory: { debounce_seconds },
      auth: { token_expiry_days: 7 }
    })
    // So long that nothing is learned but by the stop.
    let gateway: Child = await startChild(t, { config: config(300) })
    const people: Person[] = []
    for (let user = 0; user < USERS; user++) people.push(await signIn(gateway, `user-${user}`))
    const restart = async (debounce: number) => {
      gateway = await startChild(t, { home: gateway.home, config: config(debounce) })
      for (const person of people) person.url = gateway.url
    }
    /** Everybody asks at once, in a new thread; what the model was shown for each. */
    const prompts = async () => {
      const before = echo.shown.length
      await each(people, (person, user) => say(person, `asked by number ${user}.`))
      return people.map((_, user) =>
        echo.shown.slice(before).filter((prompt) => prompt.includes(`asked by number ${user}.`))
      )
    }

    await each(people, (person, user) => say(person, `Remember ${markOf(user, 0)}.`))
    await gateway.stop()
    await restart(1)
    for (const [user, shown] of (await prompts()).entries())
      t.ok(
        shown.some((prompt) => prompt.includes(markOf(user, 0))),
        `user ${user} is remembered after a stop`
      )

    await each(people, async (person, user) => {
      for (const n of [1, 2]) await say(person, `Remember ${markOf(user, n)}.`)
    })
    for (const [user, person] of people.entries())
      await until(() => knows(person, markOf(user, 2)), `the memory of ${user} has learned in the background`)
    // In the middle of the next updates.
    await each(people, (person, user) => say(person, `Remember ${markOf(user, 3)}.`))
    const updates = () => echo.shown.filter((prompt) => prompt.includes('newFacts') && /mark-\d+-3/.test(prompt)).length
    await until(() => updates() > 0, 'an update is under way')
    await gateway.kill()
    await restart(1)
    for (const [user, shown] of (await prompts()).entries())
      for (const n of [0, 1, 2])
        t.ok(
          shown.some((prompt) => prompt.includes(markOf(user, n))),
          `user ${user} is remembered after a kill: ${n}`
        )

    t.ok(echo.shown.length > USERS * 8, `${echo.shown.length} prompts`)
    t.strictSame(mixed(echo), [])
    for (const [user, person] of people.entries()) {
      const { text } = await person.get('/api/memory')
      const others = (text.match(MARK) ?? []).filter((mark) => !mark.startsWith(`mark-${user}-`))
      t.strictSame(others, [], `the memory of ${user}`)
    }
  }
)
