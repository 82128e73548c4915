// Options of quotas: how much each user may use.
import * as v from 'valibot'
import { filled, nullable, number, section, whole } from './kinds.ts'

const MONEY_MAX = 1_000_000_000
const quotaOfGroup = v.object(
  {
    // As the provider names it.
    name: filled(),
    // Id of the provider; null: of any.
    provider: nullable(),
    // Runs a day; null: what everybody has, 0: no limit.
    runs_per_day: v.nullish(whole(0, 0), null),
    // Tokens a day, likewise.
    tokens_per_day: v.nullish(whole(0, 0), null),
    // Money a month, likewise.
    money_per_month: v.nullish(number(0, 0, MONEY_MAX), null),
    // Bytes, likewise.
    bytes: v.nullish(whole(0, 0), null),
    // Runs at once, likewise.
    runs_at_once: v.nullish(whole(0, 0), null),
    // Requests a second, likewise.
    requests_per_second: v.nullish(whole(0, 0), null)
  },
  'is missing'
)

// What each user may use, on all processes together; an account may have a quota of its own (colloquy user quota). Days and months are those
// of UTC. Above it no run begins (429); one that has begun is never cut.
export const quotas = section({
  // Runs that a user may start a day.
  runs_per_day: whole(0, 0),
  // Tokens of a user's runs a day, in and out, as providers report them.
  tokens_per_day: whole(0, 0),
  // Money of a user's runs a month, by models[].price. Without it one script spends the budget of all.
  money_per_month: number(0, 0, MONEY_MAX),
  // Bytes that runs of a user's threads have stored, about, as threads.user_bytes.
  bytes: whole(0, 0),
  // Runs of a user that are pending or running, counted on all processes; runs.active_per_user counts on each.
  runs_at_once: whole(0, 0),
  // Requests of a user a second, on each process; of a token that acts for somebody also those of its account. Without it one script keeps the others waiting.
  requests_per_second: whole(0, 0),
  // Groups of sign-in providers: what a group says counts for each of its people in place of the above; of several groups the most.
  groups: v.nullish(v.array(quotaOfGroup, 'must be a list'), [])
})
