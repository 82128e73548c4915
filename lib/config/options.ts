// Every option, with its default, its unit, and what goes wrong without it. A limit of 0 is no limit.
import * as v from 'valibot'
import {
  choice,
  filled,
  flag,
  host,
  networks,
  nullable,
  number,
  oneOfOrModule,
  origins,
  section,
  text,
  texts,
  url,
  whole
} from './kinds.ts'
import { agent } from './agent.ts'
import { model } from './model.ts'
import { quotas } from './quotas.ts'
import { oidc } from './sign-in.ts'

const DAY_MS = 86_400_000
const MIB = 1024 * 1024
/** Minimum: less would not hold the URL of what was cut. */
export const EVENT_BYTES_MIN = 4096

const server = section({
  // Interface to listen on. 0.0.0.0 exposes the gateway to the network: put TLS in front of it.
  host: host('127.0.0.1'),
  // 0: any free port; the start line shows it.
  port: whole(8001, 0, 65_535),
  // Public URL, when proxies rewrite Host: without it sign-ins look like cross-site requests. With the path, where the page lies below one:
  // without that its files, cookies and links are looked for at the root. X-Forwarded-Prefix of a trusted proxy says so too.
  public_url: url(),
  // Origins of other sites that may call with the user's cookies. Without an entry they cannot read responses.
  cors_origins: origins(),
  // IPs and CIDR ranges whose X-Real-IP, X-Forwarded-Proto and X-Forwarded-Prefix are trusted [Auth 9]. Without your proxy in it, all users
  // share one lockout, and behind TLS cookies are not Secure and end with the browser session.
  trusted_proxies: texts(),
  // Proxies of yours in a row that add to X-Forwarded-For, which is then counted from the right; 0: X-Real-IP counts, which the
  // proxy must overwrite. Too many: clients choose their own address.
  trusted_hops: whole(0, 0, 16),
  // Body limit in bytes for runs, state updates and imports; others have 64 KiB, or 8 KiB without a session. While
  // processed, a body takes several times its size.
  body_bytes: whole(2 * MIB, 4096, 256 * MIB),
  // Connections per address, except trusted proxies. Without it one client takes every file descriptor. An unlisted
  // proxy counts as one address.
  connections_per_address: whole(2_000, 0),
  // Milliseconds on SIGTERM in which everything is still served while /readyz is 503. A proxy that asks for it needs twice its interval to
  // pass this process over; one that sends refused requests on to the next needs none.
  drain_ms: whole(0, 0, DAY_MS),
  // Milliseconds requests and runs may take to finish on SIGTERM, after that. Too short: answers are cut; too long: the supervisor kills us.
  shutdown_grace_ms: whole(10_000, 0, DAY_MS)
})

const tracing = section({
  // Spans of runs, model calls, tools and commits, by the package @opentelemetry/api; which SDK records them is the operator's. Off: what comes
  // in as traceparent is passed on, and nothing of ours is in the trace.
  spans: flag(false)
})

const metrics = section({
  // Port for GET /metrics without an account; 0: none, so only administrators can read them. Anyone who reaches the port can.
  port: whole(0, 0, 65_535),
  // Interface of that port. 0.0.0.0 shows the figures to the network.
  host: host('127.0.0.1')
})

const database = section({
  // memory keeps nothing over a restart and has no feedback. { module: ./store.js, options: {} } is a custom store, relative
  // to this file; lib/store/README.md says what it exports.
  backend: v.nullish(oneOfOrModule(['memory', 'sqlite', 'postgres']), 'sqlite'),
  // null: <home>/data/colloquy.db. Relative to the working directory.
  sqlite_path: nullable(),
  // postgres://user:password@host:port/name; the database is created if missing. ?max=20: pool size, default 10.
  postgres_url: nullable(),
  // Before a newer version migrates a SQLite database, it copies it to <sqlite_path>.schema-<n>.<time>.bak.
  migration_backup: flag(true)
})

const run_events = section({
  // null: db, or memory with a memory database, so that events live as long as everything else. { module: ./events.js }
  // is your own store. jsonl: a file a run beside the thread's other files in the home, for other tools. Events in another backend are not migrated.
  backend: v.nullish(oneOfOrModule(['memory', 'db', 'jsonl']), null),
  // Bytes of a trace event's content; longer ones are truncated and marked. Without it prompts fill the disk with every model call.
  max_trace_content: whole(10_240, 0),
  // Off: token totals of runs stay 0, and so do the sums of usage and what quotas count of tokens and money.
  track_token_usage: flag(true)
})

const streams = section({
  // Milliseconds between heartbeats on open streams. Too long: proxies cut quiet streams, and dead ones are found late.
  heartbeat_ms: whole(5_000, 10, DAY_MS),
  // Stored bytes of a run kept in memory for joiners slightly behind, including states of `values` frames; older frames
  // are read from the store.
  window_bytes: whole(262_144, 0),
  // Unstored bytes of a run above which its agent pauses. Without it a stuck disk fills the memory.
  pending_bytes: whole(4_194_304, 0),
  // The same for all runs together. Without it many runs with a stuck disk fill the memory.
  pending_total_bytes: whole(64 * MIB, 0),
  // Bytes of one frame on the wire; a larger one is cut, marked, and can be fetched whole from the URL it names. At least 4096. Without it
  // one giant delta or tool result goes to every joiner, and fills the memory for those that read slowly.
  event_bytes: whole(MIB, 0),
  // Milliseconds frames are collected before they are stored together, with the first that comes later, or after twice as long: a timer
  // a commit would wake the process as often as its model does. A crash loses at most that.
  flush_ms: whole(20, 0, 10_000),
  // Milliseconds records may wait for the store; above it agents pause until it has caught up. 0: no limit. A kill
  // loses about this much, plus one commit.
  unstored_ms: whole(2_000, 0, DAY_MS),
  // Timeout in ms for storing the end of a run; then joiners are reset and readiness is 503. Without it they hang.
  settle_timeout_ms: whole(30_000, 0, DAY_MS),
  // Minimum milliseconds frames of a busy run are coalesced. 0: frames are sent as they come, until writing takes more
  // than 4% of the time; then up to 50. Higher: fewer writes, later deltas.
  coalesce_ms: whole(0, 0, 50),
  // The older name of coalesce_ms; wins where it is given.
  gather_ms: v.nullish(whole(0, 0, 50), null),
  // Milliseconds without progress on a joiner's full socket before it is reset; its client resumes by position. Without it a client that
  // never reads holds its socket for ever.
  stall_ms: whole(30_000, 0, DAY_MS),
  // Hours a run can be replayed frame by frame after its end; its messages and state stay, and a late reader gets a `gap` and the final
  // values. 0: for ever, and frames fill the disk.
  retention_hours: number(24, 0),
  // Open streams per user. Without it one leaky client takes every file descriptor.
  per_user: whole(256, 0),
  // Open streams in total. Without it all users together take every file descriptor.
  total: whole(20_000, 0)
})

// Days things are kept; 0: for ever, and the database grows for ever.
const retention = section({
  // Traces of runs in the database; messages stay. Those in files (run_events.backend jsonl) go with their threads.
  events_days: number(0, 0),
  // Ended runs, with their frames, traces and feedback; messages and states stay. Their tokens are in no sum of their thread any more,
  // but still in those of usage.
  runs_days: number(0, 0),
  // Threads that nothing has changed for so long, with everything of theirs; those with a TTL of their own go by that.
  threads_days: number(0, 0),
  // Lines of the audit.
  audit_days: number(0, 0)
})

const runs = section({
  // What happens to a run whose creating request disconnects, unless the request says. cancel: closing the tab ends it.
  on_disconnect: choice(['continue', 'cancel'], 'continue'),
  // Milliseconds it has to reconnect before `cancel` acts: a network blip must not kill its run.
  disconnect_grace_ms: whole(3_000, 0, DAY_MS),
  // Model calls per run, and the maximum a caller may ask for. Without it an agent that loops never ends and keeps costing money.
  recursion_limit: whole(100, 1, 10_000),
  // A message sent while a question of ask_user is open answers it. Off: only `command.resume` does, and a message
  // closes the question as interrupted.
  reply_answers: flag(true),
  // What happens to a run cut by a crash. error: it ends with what it had said. resume: it goes on, three attempts at most: a graph's
  // from its last stored superstep, the built-in agent's from its last stored word or result, and that of an agent of your own where it
  // says `canResume`; others end. Runs on a LangGraph server: `agent.rejoin`.
  on_restart: choice(['error', 'resume'], 'error'),
  // Milliseconds the thread of a stateless run is kept after its run and its last reader, for a client that was cut off.
  temporary_grace_ms: whole(60_000, 1, DAY_MS),
  // Timeout of one run in seconds. Without it a run that hangs holds its thread.
  timeout_s: whole(3_600, 0, 2_000_000),
  // Pending and running runs per user. Without it one user's runs take the model, the memory and the disk from all.
  active_per_user: whole(100, 0),
  // Milliseconds after which another process may take over the runs of a dead one. Too short: a pause of the machine loses its runs; too
  // long: those of a dead process hang for as long.
  lease_ms: whole(15_000, 1_000, DAY_MS)
})

const auth = section({
  // Who may register. open: everybody who can reach the server; invite: people with an administrator's invitation;
  // closed: nobody, so that only initialize creates an account.
  registration: choice(['open', 'invite', 'closed'], 'open'),
  // auto: where the server listens beyond loopback, the first administrator is made by the link in <home>/setup_link.txt, or whoever
  // comes first is it. never: by whoever comes first, also there; for pages whose form has no field for it.
  setup_link: choice(['auto', 'never'], 'auto'),
  // The older name: false means `closed`.
  allow_registration: flag(true),
  // Sign-in by password. Off: only providers sign people in, and accounts are made by them, or by administrators.
  local: flag(true),
  // Providers of sign-ins that speak OpenID Connect.
  oidc,
  // Days until a session expires.
  token_expiry_days: whole(7, 1, 30),
  // Secret that signs session tokens, at least 32 bytes. null: one is generated in <home>; several processes behind one
  // address need the same.
  jwt_secret: nullable()
})

const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

export const Options = v.object({
  // Everything we write is below it. Relative to the working directory.
  home: text('.colloquy'),
  // Log level; debug and trace show contents of conversations.
  log_level: choice(LEVELS, 'info'),
  log: section({
    // json: a JSON object a line. text: a line for people.
    format: choice(['json', 'text'], 'json'),
    // Takes the place of log_level, its older name, where it is given.
    level: v.nullish(v.picklist(LEVELS, `must be one of ${LEVELS.join(', ')}`), null),
    // A line for every request that was answered. Off: only what goes wrong has one.
    access: flag(false),
    // Milliseconds from which a statement of the database has a line, without its values; 0: none has.
    slow_statement_ms: whole(1_000, 0, DAY_MS)
  }),
  server,
  tracing,
  metrics,
  database,
  run_events,
  streams,
  retention,
  runs,
  quotas,
  auth,
  // None: the demo model answers.
  models: v.nullish(v.array(model, 'must be a list'), []),
  agent,
  graphs: section({
    // worker: each file of graphs runs in a thread of its own. Without it a graph that computes for a second blocks everybody for
    // as long, and one that never yields blocks for ever.
    isolation: choice(['none', 'worker'], 'none')
  }),
  // A title for a thread after its first answer. model_name null: the run's own model.
  title: section({
    enabled: flag(true),
    // Words of a title.
    max_words: whole(6, 1, 50),
    // Characters of a title; longer ones are cut.
    max_chars: whole(60, 1, 256),
    // Name of the model that writes it. null: the run's own.
    model_name: nullable()
  }),
  // Replaces old messages by a summary and keeps the newest `keep_messages`. Off: a conversation ends at the model's context window.
  summarization: section({
    enabled: flag(false),
    // The newest messages, which stay as they are.
    keep_messages: whole(20, 1, 1_000),
    // Happens above this many messages; 0: not by their number.
    trigger_messages: whole(60, 0, 100_000),
    // Happens above about this many tokens; 0: not by them.
    trigger_tokens: whole(60_000, 0),
    // Name of the model that writes the summary. null: the run's own.
    model_name: nullable()
  }),
  // What is remembered about a user across threads.
  memory: section({
    enabled: flag(true),
    // '': one file per user, below <home>. An absolute path: one file for all users.
    storage_path: v.nullish(v.string('must be a text'), ''),
    // Seconds without messages before a conversation is searched for facts.
    debounce_seconds: whole(30, 1, 300),
    // Name of the model that searches. null: the first one.
    model_name: nullable(),
    // Facts per user; the least certain go first.
    max_facts: whole(100, 10, 500),
    // Confidence, 0 to 1, below which facts are dropped.
    fact_confidence_threshold: number(0.7, 0, 1),
    // The memory is part of the prompt. Off: it is kept, and no model sees it.
    injection_enabled: flag(true),
    // Tokens of memory in a prompt.
    max_injection_tokens: whole(2_000, 100, 8_000)
  }),
  // What each user may store. Above a limit requests are refused, and nothing is deleted.
  threads: section({
    // Threads per user, but those of stateless runs. Without it one user fills the disk, and everybody's searches wait.
    per_user: whole(50_000, 0),
    // Bytes that runs of a user's threads have stored, about, without frames: a user above it starts no run. What versions before
    // 0.2 have stored is not counted.
    user_bytes: whole(10 * 1024 * MIB, 0),
    // Characters of a thread's state with which a run begins: it is sent to a model whole. A longer one ends its runs with an error.
    // Without it one long thread takes all memory. At most a 16th of the heap, of graphs a 32nd.
    state_characters: whole(64 * MIB, 65_536)
  }),
  // Items LangGraph's clients and graphs keep for a user across threads. Without limits one user fills the disk.
  items: section({
    // Items per user.
    per_user: whole(10_000, 0),
    // Total bytes of their values as JSON.
    user_bytes: whole(64 * MIB, 0),
    // Bytes of one value; server.body_bytes limits a request.
    item_bytes: whole(MIB, 0)
  }),
  // Recurring runs.
  crons: section({
    // Off: this process starts none.
    enabled: flag(true),
    // Crons per user. Without it one user fills every minute.
    per_user: whole(100, 0)
  }),
  // Webhooks for ends of runs.
  webhooks: section({
    // Secret of the signature receivers verify (Standard Webhooks; whsec_... is base64). Never shown or logged. null: unsigned.
    secret: nullable(),
    // Private networks receivers may be in. Users who start runs choose the URL: leave empty unless needed.
    allowed_networks: networks([]),
    // Webhooks of one user that are not sent yet. Without it one user's dead receivers fill the disk.
    per_user: whole(10_000, 0),
    // Timeout of a receiver in ms.
    timeout_ms: whole(10_000, 100, DAY_MS),
    // Delay from the first try to the second in ms; quadruples each time.
    retry_ms: whole(5_000, 10, DAY_MS),
    // Tries in all; after them the job is dead.
    attempts: whole(8, 1, 100)
  }),
  // Mail, by which people who have forgotten their password get a link to set another.
  mail: section({
    // smtp://user:password@mail.example.com:587, or smtps:// for TLS from the first byte; ?requireTLS=true refuses a server without TLS. null: no
    // mail is sent, and administrators make links.
    url: nullable(),
    // Who sends it: an address, also with a name before it in angle brackets. null: colloquy@ and the host of server.public_url, which many
    // servers refuse.
    from: nullable(),
    // Minutes a link is good. Too long: whoever gets into the mailbox later sets a password.
    link_minutes: whole(30, 5, 1_440)
  }),
  // Rewriting drafts by a model. It costs a model call each.
  input_polish: section({
    enabled: flag(true),
    // Characters of a draft; longer ones are refused.
    max_chars: whole(4000, 1, 100_000),
    // Name of the model. null: the first one.
    model_name: nullable()
  }),
  // Follow-up questions that a page may offer. They cost a model call after each answer.
  suggestions: section({
    enabled: flag(true),
    // Questions offered at most.
    max_suggestions: whole(3, 1, 5),
    // Name of the model. null: the first one.
    model_name: nullable()
  }),
  files: section({
    // All processes on one PostgreSQL database have one home, and one with another home is refused at its start. false: they may
    // have homes of their own; then uploads, artifacts, memories and skills of one are missing in the others.
    shared: flag(true)
  }),
  uploads: section({
    // A Markdown file beside every uploaded PDF, DOCX, XLSX and PPTX, made before the upload is answered.
    auto_convert_documents: flag(false),
    // Files of one request.
    max_files: whole(10, 0),
    // Bytes of one file.
    max_file_size: whole(50 * MIB, 0),
    // Bytes of all files of one request.
    max_total_size: whole(100 * MIB, 0),
    // Total bytes of a user's uploads. Without it one user fills the disk.
    user_bytes: whole(5 * 1024 * MIB, 0)
  }),
  // Who may open a link that a user has made to a thread: nobody (links cannot be made, and those that were made do not open), users who
  // are signed in, or everybody who has the link.
  sharing: choice(['off', 'users', 'public'], 'off'),
  console: section({
    // The page at `/`. Off: there is only the API.
    enabled: flag(true),
    // First questions that an empty conversation offers. None by default; the demo model has its own, for only it answers them.
    starters: texts()
  }),
  usage: section({
    // What money is called; nothing is converted. Wrong: it is shown under another name than it is paid in.
    currency: text('USD')
  }),
  // Whether pages show token counts.
  token_usage: section({ enabled: flag(true) }),
  a2a: section({
    // Cards of the assistants for other agents, which anybody may read: their names, descriptions and addresses. Off: they are a 404.
    public_card: flag(true)
  }),
  // Tool servers that speak MCP; they are set at run time by PUT /api/mcp/config.
  mcp: section({
    // Commands a stdio server may be started with. They run with our rights.
    stdio_commands: v.nullish(v.array(filled(), 'must be a list'), ['npx', 'uvx']),
    // Environment variables a stdio server may get, besides those with obviously harmless names (API_KEY, BASE_URL, LOG_LEVEL...).
    env_allowed: v.nullish(v.array(filled(), 'must be a list'), []),
    // Private networks servers may be in; without 127.0.0.0/8 none on this machine. Cloud metadata services stay blocked.
    allowed_networks: networks(['127.0.0.0/8', '::1/128']),
    // Encrypts the tool servers in <home>/extensions_config.json, whose environment and headers have secrets; at least 32 bytes, and the same
    // for all processes. null: they are plain there, for the owner of the home alone.
    secrets_key: nullable(),
    // Timeout of connecting to a server.
    connect_timeout_ms: whole(10_000, 100, DAY_MS),
    // Timeout of one call. Without it a tool that hangs holds its run.
    call_timeout_ms: whole(60_000, 100, DAY_MS)
  }),
  // Skills, bundled and installed ones.
  skills: section({
    enabled: flag(true),
    // Folder of bundled skills, relative to this file; null: none.
    path: nullable()
  })
})

/** The options as they come out of the schema: defaults are filled in, nothing else. */
export type Parsed = v.InferOutput<typeof Options>
