// Every option, with its default, its unit, and what goes wrong without it. A limit of 0 is no limit.
import * as v from 'valibot'
import {
  choice,
  filled,
  flag,
  nullable,
  number,
  oneOfOrModule,
  origins,
  requestOptions,
  section,
  text,
  texts,
  url,
  webAddress,
  whole
} from './kinds.ts'

const DAY_MS = 86_400_000
const MIB = 1024 * 1024
/** Bytes: less would not hold the address of what was cut. */
export const EVENT_BYTES_MIN = 4096

const server = section({
  // Interface to listen on. 0.0.0.0 opens the gateway to the network: then put TLS in front of it.
  host: text('127.0.0.1'),
  // 0 takes a free one, which the start line tells.
  port: whole(8001, 0, 65_535),
  // Address under which browsers reach us, when proxies rewrite Host: without it their sign-ins look like another site's.
  public_url: url(),
  // Origins of pages on other hosts that may call with the user's cookies. None: such pages cannot read an answer.
  cors_origins: origins(),
  // IPs and CIDR ranges whose X-Real-IP and X-Forwarded-Proto are believed [Auth 9]. Without the proxy in it all users share one
  // lockout, and behind TLS cookies are not Secure and end with the browser.
  trusted_proxies: texts(),
  // Bytes of the body of a run, a state update or an import; all others are 64 KiB, or 8 KiB without a session. Each holds several
  // times as much while it is worked on.
  body_bytes: whole(2 * MIB, 4096, 256 * MIB),
  // Connections of one address, but for trusted proxies. Without it one client takes every file descriptor. A proxy that is not
  // listed above is one address.
  connections_per_address: whole(2_000, 0),
  // Milliseconds that requests and runs have to end on SIGTERM. Too short: answers are cut; too long: the supervisor kills us.
  shutdown_grace_ms: whole(10_000, 0, DAY_MS)
})

const metrics = section({
  // Port on which GET /metrics answers without an account; 0: none, and only administrators can ask. Whoever reaches it can read it.
  port: whole(0, 0, 65_535),
  host: text('127.0.0.1')
})

const database = section({
  // memory keeps nothing over a restart and has no feedback. { module: ./store.js, options: {} } is a store of yours, relative
  // to this file; lib/store/ports/module.ts says what it exports.
  backend: v.nullish(oneOfOrModule(['memory', 'sqlite', 'postgres']), 'sqlite'),
  // null: <home>/data/colloquy.db. Relative to the working directory.
  sqlite_path: nullable(),
  // postgres://user:password@host:port/name; the database is made when it is missing. ?max=20: so many connections, else 10.
  postgres_url: nullable(),
  // A newer program changes the schema at its first start: before that it copies a SQLite file to <sqlite_path>.schema-<n>.<time>.bak.
  migration_backup: flag(true)
})

const run_events = section({
  // null: db, or memory beside a memory database, so that events live as long as everything else. { module: ./events.js } is a
  // place of yours. What another backend wrote before is not moved.
  backend: v.nullish(oneOfOrModule(['memory', 'db', 'jsonl']), null),
  // Bytes of a trace event's content; longer ones are cut and marked. Without it prompts fill the disk at every model call.
  max_trace_content: whole(10_240, 0),
  // Off: token totals of runs stay 0.
  track_token_usage: flag(true)
})

const streams = section({
  // Milliseconds between heartbeats on every open stream. Too long: proxies cut quiet streams, dead ones are found late.
  heartbeat_ms: whole(5_000, 10, DAY_MS),
  // Committed bytes of a run kept in memory for joiners that are a little behind, states behind `values` frames included; older
  // frames are read from the store.
  window_bytes: whole(262_144, 0),
  // Bytes of a run that are not stored yet; above it the agent pauses. Without it a stuck disk fills the memory.
  pending_bytes: whole(4_194_304, 0),
  // The same of all runs together; above it every agent pauses. Without it many runs beside a stuck disk fill the memory.
  pending_total_bytes: whole(64 * MIB, 0),
  // Bytes of one frame on the wire; a larger one is cut there, says so, and is fetched whole from the address it names. At least
  // 4096. Without it one giant delta or tool result goes to every joiner, and fills the memory of those that read slowly.
  event_bytes: whole(MIB, 0),
  // Milliseconds that frames wait for others before they are stored together. A crash takes back at most this much.
  flush_ms: whole(20, 0, 10_000),
  // Milliseconds that what a run has said may wait for the store; above it agents pause until the store has caught up. 0: no bound.
  // What a kill takes back: about this much, and one commit more.
  unstored_ms: whole(2_000, 0, DAY_MS),
  // Milliseconds for the store to take the end of a run; then joiners are reset and readiness is 503. Without it they hang.
  settle_timeout_ms: whole(30_000, 0, DAY_MS),
  // Milliseconds for which the frames of a busy run wait for others, at least, before they go out together. 0: frames go out as they
  // come, until writing takes more than 4% of the time; then more, up to 50. Longer: fewer writes, and readers see pieces later.
  coalesce_ms: whole(0, 0, 50),
  // The older name of coalesce_ms; counts where it is given.
  gather_ms: v.nullish(whole(0, 0, 50), null),
  // Milliseconds without any progress on a joiner's full socket before it is reset; it comes back by its position.
  stall_ms: whole(30_000, 0, DAY_MS),
  // Hours after its end that a run can be watched again frame by frame; afterwards its messages and state remain.
  retention_hours: number(24, 0),
  // Open streams of one user, and of all. Without them one client that leaks streams takes every file descriptor.
  per_user: whole(256, 0),
  total: whole(20_000, 0)
})

const runs = section({
  // What becomes of a run whose creating request goes away, where the request does not say.
  on_disconnect: choice(['continue', 'cancel'], 'continue'),
  // Milliseconds that such a request has to come back before `cancel` acts: a blip must not kill its run.
  disconnect_grace_ms: whole(3_000, 0, DAY_MS),
  // Model calls of one run, and the most that a caller may ask for. Without it an agent that goes in circles never ends and is paid for.
  recursion_limit: whole(100, 1, 10_000),
  // A message that is sent while a question of ask_user waits is its answer. Off: only `command.resume` answers, and the question of
  // who says something else is closed as interrupted.
  reply_answers: flag(true),
  // What becomes of a run that a crash has cut. error: it ends as one, with what it had said. resume: a run of a graph goes on from its
  // last stored superstep, three attempts at most; agents that are no graph have none to go on from, and end.
  on_restart: choice(['error', 'resume'], 'error'),
  // Seconds of one run.
  timeout_s: whole(3_600, 0, 2_000_000),
  // Pending and running runs of one user. Without it one user's runs take the model, the memory and the disk of all.
  active_per_user: whole(100, 0),
  // Milliseconds after which another process may take over the runs of one that died.
  lease_ms: whole(15_000, 1_000, DAY_MS)
})

const auth = section({
  // Who may register: open, everybody who reaches the server; invite, whoever has an administrator's invitation; closed, nobody:
  // then accounts are made by initialize alone.
  registration: choice(['open', 'invite', 'closed'], 'open'),
  // The older word for it: false is `closed`.
  allow_registration: flag(true),
  // Days until a session ends by itself.
  token_expiry_days: whole(7, 1, 30),
  // Key of the session tokens, of at least 32 bytes. null: one is made and kept in <home>; several processes behind one address
  // need the same.
  jwt_secret: nullable()
})

const model = v.object(
  {
    // What runs ask for, and /api/models shows. The first model is the default.
    name: filled(),
    // The chat-completions protocol, which nearly every model server speaks.
    provider: choice(['openai'], 'openai'),
    base_url: v.nullish(webAddress(), 'https://api.openai.com/v1'),
    // Never shown, never logged. null: a server that asks for none.
    api_key: nullable(),
    // The name that the model server knows.
    model: filled(),
    display_name: nullable(),
    description: nullable(),
    supports_thinking: flag(false),
    supports_reasoning_effort: flag(false),
    // The tool view_image is offered to it.
    supports_vision: flag(false),
    // Sent along with every request as it is: temperature, max_tokens...
    request: v.nullish(requestOptions(), {}),
    // Milliseconds without a byte from the model. Without it a dead connection holds its run until runs.timeout_s.
    idle_timeout_ms: whole(120_000, 0, DAY_MS),
    // Further tries of a request that failed before its first token.
    max_retries: whole(3, 0, 20)
  },
  'is missing'
)

export const Options = v.object({
  // All that we write lies below it. Relative to the working directory.
  home: text('.colloquy'),
  // From which level on lines are logged; debug and trace show contents of conversations.
  log_level: choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], 'info'),
  server,
  metrics,
  database,
  run_events,
  streams,
  runs,
  auth,
  // None: the demo model answers.
  models: v.nullish(v.array(model, 'must be a list'), []),
  agent: section({
    // lead is the built-in agent. module: the file `path`, relative to this file, which exports start(input, sink, signal) or a
    // compiled LangGraph.js graph. graphs: those of the langgraph.json at `config`. langgraph: the LangGraph server at `url`.
    runtime: choice(['lead', 'langgraph', 'module', 'graphs'], 'lead'),
    path: nullable(),
    // langgraph.json or its folder, relative to this file.
    config: nullable(),
    // Graphs are loaded anew when their files change; one that cannot be loaded leaves the last good ones at work.
    watch: flag(false),
    // Up to and without /threads.
    url: url(),
    // For the server's X-Api-Key. Never shown, never logged. null: a server that asks for none.
    api_key: nullable(),
    // Sent with every request to the server.
    headers: v.nullish(v.record(v.string(), filled(), 'must hold headers by name'), {}),
    // The graph or assistant that works on every run. null: the one that the run names, which is the caller's choice.
    assistant_id: nullable(),
    // Milliseconds without a byte of a run's stream until the server is asked whether it is still there. Too long: a server that
    // hangs is noticed late, by runs.timeout_s at the latest.
    idle_timeout_ms: whole(30_000, 0, DAY_MS)
  }),
  // A title for a thread after its first answer. model_name null: the run's own model.
  title: section({
    enabled: flag(true),
    max_words: whole(6, 1, 50),
    max_chars: whole(60, 1, 256),
    model_name: nullable()
  }),
  // Old messages become a summary, the newest `keep_messages` stay. Off: a conversation ends at the model's context window.
  summarization: section({
    enabled: flag(false),
    keep_messages: whole(20, 1, 1_000),
    // It is made above this many messages, or about this many tokens.
    trigger_messages: whole(60, 0, 100_000),
    trigger_tokens: whole(60_000, 0),
    model_name: nullable()
  }),
  // What is remembered of a user over threads.
  memory: section({
    enabled: flag(true),
    // '': one file a user, below <home>. An absolute path is one file for all users.
    storage_path: v.nullish(v.string('must be a text'), ''),
    // Seconds of quiet before a conversation is read for facts.
    debounce_seconds: whole(30, 1, 300),
    model_name: nullable(),
    max_facts: whole(100, 10, 500),
    // Facts that the model is less sure of are dropped; 0 to 1.
    fact_confidence_threshold: number(0.7, 0, 1),
    injection_enabled: flag(true),
    // Tokens of memory in a prompt.
    max_injection_tokens: whole(2_000, 100, 8_000)
  }),
  // Items that LangGraph's clients and graphs keep for a user over all threads. Without limits one user fills the disk.
  items: section({
    per_user: whole(10_000, 0),
    // Of their values as JSON.
    user_bytes: whole(64 * MIB, 0),
    // Of one value; server.body_bytes bounds what a request can bring.
    item_bytes: whole(MIB, 0)
  }),
  // Runs that users have started again and again.
  crons: section({
    // Off: none of them runs in this process.
    enabled: flag(true),
    // Without it one user fills every minute.
    per_user: whole(100, 0)
  }),
  // Who is told of the end of a run, where its creator has named an address.
  webhooks: section({
    // Of the signature that a receiver checks (Standard Webhooks; whsec_... is base64). Never shown, never logged. null: none is made.
    secret: nullable(),
    // Private networks that receivers may be in. Whoever may start runs names the address: without a reason none.
    allowed_networks: v.nullish(v.array(filled(), 'must be a list'), []),
    // Milliseconds until a receiver must have answered.
    timeout_ms: whole(10_000, 100, DAY_MS),
    // Milliseconds from the first try to the second; four times as long for each further one.
    retry_ms: whole(5_000, 10, DAY_MS),
    attempts: whole(8, 1, 100)
  }),
  // Follow-up questions that a page may offer.
  suggestions: section({ enabled: flag(true), max_suggestions: whole(3, 1, 5), model_name: nullable() }),
  uploads: section({
    // A Markdown file beside every uploaded PDF, DOCX, XLSX and PPTX, made before the upload is answered.
    auto_convert_documents: flag(false),
    // Of one request; bytes.
    max_files: whole(10, 0),
    max_file_size: whole(50 * MIB, 0),
    max_total_size: whole(100 * MIB, 0),
    // Of all uploads of one user. Without it one user fills the disk.
    user_bytes: whole(5 * 1024 * MIB, 0)
  }),
  // The page at `/`. Off: browsers find nothing there, and the API is all there is.
  console: section({ enabled: flag(true) }),
  // Whether pages are told to show token counts.
  token_usage: section({ enabled: flag(true) }),
  // Tool servers that speak MCP; they are set at run time by PUT /api/mcp/config.
  mcp: section({
    // Commands that a stdio server may be started with. Whoever is named here runs as we do.
    stdio_commands: v.nullish(v.array(filled(), 'must be a list'), ['npx', 'uvx']),
    // Variables that a stdio server may be given beside those whose names say that they are harmless (API_KEY, BASE_URL, LOG_LEVEL...).
    env_allowed: v.nullish(v.array(filled(), 'must be a list'), []),
    // Private networks that servers may be in; without 127.0.0.0/8 none on this machine. Metadata services stay closed.
    allowed_networks: v.nullish(v.array(filled(), 'must be a list'), ['127.0.0.0/8', '::1/128']),
    // Milliseconds to connect, and for one call.
    connect_timeout_ms: whole(10_000, 100, DAY_MS),
    call_timeout_ms: whole(60_000, 100, DAY_MS)
  }),
  // Folder of skills that come with the installation; null: none.
  skills: section({ enabled: flag(true), path: nullable() })
})

/** The options as they come out of the schema: defaults are filled in, nothing else. */
export type Parsed = v.InferOutput<typeof Options>
