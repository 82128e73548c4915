// Options of one entry of `models`: its server, its key, what it can do, its price, its timeouts and retries.
import * as v from 'valibot'
import { choice, filled, flag, nullable, number, requestOptions, webAddress, whole } from './kinds.ts'

const DAY_MS = 86_400_000
const PRICE_MAX = 1_000_000

export const model = v.object(
  {
    // Models runs can use, shown by /api/models. The first is the default.
    name: filled(),
    // The chat-completions protocol, which nearly every model server supports.
    provider: choice(['openai'], 'openai'),
    // Address of the model server, with its /v1.
    base_url: v.nullish(webAddress(), 'https://api.openai.com/v1'),
    // Never shown or logged. null: the server needs none.
    api_key: nullable(),
    // The model server's name for it.
    model: filled(),
    // What pages show. null: the name.
    display_name: nullable(),
    // A sentence for whoever chooses one.
    description: nullable(),
    // It shows its reasoning: pages offer a switch for it.
    supports_thinking: flag(false),
    // It takes reasoning_effort: pages offer its levels.
    supports_reasoning_effort: flag(false),
    // How a broken answer is continued. prefix: the server continues a trailing assistant message; ask: it is asked to, with an
    // instruction nobody sees; none: not at all. Without it a cut answer can only be asked for anew.
    continuation: choice(['prefix', 'ask', 'none'], 'ask'),
    // It accepts images: the tool view_image is offered to it.
    supports_vision: flag(false),
    // Tokens that it reads at most, for showing how full a conversation is. 0: not known.
    context_window: whole(0, 0),
    // Money for a million tokens, in the currency of `usage`. null: its calls cost nothing.
    price: v.nullish(
      v.object({
        // For input tokens.
        input: number(0, 0, PRICE_MAX),
        // For output tokens.
        output: number(0, 0, PRICE_MAX),
        // Of input tokens that the provider has in its cache; null: as others.
        cached_input: v.nullish(number(0, 0, PRICE_MAX), null)
      }),
      null
    ),
    // Merged into every request: temperature, max_tokens...
    request: v.nullish(requestOptions(), {}),
    // Idle timeout of the model in ms. Without it a dead connection holds its run until runs.timeout_s.
    idle_timeout_ms: whole(120_000, 0, DAY_MS),
    // Retries of a request that failed before its first token.
    max_retries: whole(3, 0, 20)
  },
  'is missing'
)
