// Options of the agent: which one answers, how it is reached, and how much memory, time and output it may use.
import { choice, flag, headers, nullable, section, url, whole } from './kinds.ts'

const DAY_MS = 86_400_000

export const agent = section({
  // lead is the built-in agent. module: the file `path`, relative to this file, which exports start(input, sink, signal) or a
  // compiled LangGraph.js graph. graphs: those of the langgraph.json at `config`. langgraph: the LangGraph server at `url`.
  runtime: choice(['lead', 'langgraph', 'module', 'graphs'], 'lead'),
  // The file of `module`, relative to this file.
  path: nullable(),
  // langgraph.json or its folder, relative to this file.
  config: nullable(),
  // Reload graphs when their files change; if that fails, the last good ones stay in use.
  watch: flag(false),
  // The interpreter of Python graphs: a command, or a path relative to langgraph.json. null: VIRTUAL_ENV, else .venv beside
  // langgraph.json, else uv's where there is a uv.lock, else python3.
  python: nullable(),
  // Longest time in ms that a Python graph may block its process (the first call of a factory has three minutes); then the process is ended,
  // with the runs in it. 0: for ever. Without it one blocked node holds up all runs of its project.
  python_blocked_ms: whole(30_000, 0, DAY_MS),
  // Memory of the process of Python graphs in MB: from 90 % on it takes no new runs, above it is ended. 0: any.
  // Without it one graph takes all memory of the machine.
  python_memory_mb: whole(4096, 0),
  // Without /threads.
  url: url(),
  // Sent as X-Api-Key. Never shown or logged. null: none.
  api_key: nullable(),
  // Headers of every request to the server.
  headers: headers(),
  // The graph or assistant for every run. null: the caller's choice.
  assistant_id: nullable(),
  // Idle time of a run's stream in ms before the server is asked whether it is alive. Too long: a hung server is
  // noticed late, by runs.timeout_s at the latest.
  idle_timeout_ms: whole(30_000, 0, DAY_MS),
  // How long a LangGraph server that cannot be reached is tried again, in ms. Too short: its restart ends all its runs.
  reconnect_ms: whole(30_000, 0, DAY_MS),
  // A run on a LangGraph server goes on there when this process is gone, and the next one follows it from where it was. Off: it is
  // cancelled there, and what it does after that is lost.
  rejoin: flag(true),
  // Characters of one event that a model or graph server sends, counted while it arrives. Without it an event without an end
  // takes all memory. At most a 64th of the heap.
  event_characters: whole(33_554_432, 65_536),
  // Characters of one answer: its text, its reasoning and its tool calls. Without it an endless answer takes all memory.
  // At most a 48th of the heap.
  answer_characters: whole(67_108_864, 65_536),
  // Tool calls of one answer.
  answer_calls: whole(256, 1, 100_000)
})
