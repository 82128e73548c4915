// Every line of the list on which LangGraph's clients fell short once has a test that proves it, made with every version of the client, or
// with those that know of it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

/** The sources lie beside the build this file was compiled into. */
const TESTS = fileURLToPath(new URL('../../../test/', import.meta.url))

/** `client/runs: list: select`: a suite of test/, and a test of it. '' : a test of the section's own suite that is named as the line. */
type Proofs = Readonly<Record<string, string>>

const TAKEN = 'client/threads: create: an id that is taken is 409, unless ifExists is do_nothing'
const UPDATED = 'client/threads: update: metadata is merged; returnMinimal (Prefer) is 204'
const SEARCHED = 'client/threads: search: ids, metadata also nested, values, status, order, pages'
const BY_VALUES = 'client/threads: search: values, and order by state_updated_at'
const LISTED = 'client/threads: search: a list has values and interrupts; select and extract say which parts'
const COUNTED = 'client/threads: count and prune'
const COPIED =
  'client/graphs: a thread without a run of a graph is with the first one; copies and histories are of the graph'
const OF_METADATA = 'client/gaps: history: metadata as a filter; metadata of a run stands in its checkpoints'
const PIECES =
  "client/gaps: stream modes: messages-tuple: each piece once, and the tool's message; langgraph_node is the node that speaks"
const FAILING = 'client/gaps: runs: wait: a failing graph throws its name and text; raiseError false gives __error__'
const AS_MESSAGES =
  'client/gaps: runs: messages as LangChain writes its own objects (new HumanMessage), as pairs, as a text'
const OF_SYSTEM = 'client/graphs: every graph has an assistant of the system'
const DRAWN = 'client/graphs: an assistant is drawn, and its schemas are told, also those of graphs inside of it'
const KEPT = 'client/store-items: items are put, got, searched, listed and deleted'
const THERE = 'client/store-items: a server says that it is there, and what it is, wherever its clients look'
const STARTED = 'client/protocol: run.start: values to the end, messages as they come'
const AGAIN = 'client/protocol: a second reader of the thread gets all of it from the start'

const SDK: Proofs = {
  'threads: create: ifExists raise is 409': TAKEN,
  'threads: create: an id that is taken, without ifExists, is 409': TAKEN,
  'threads: create: ttl is kept': 'client/threads: create: ttl is kept, and updated',
  'threads: create: supersteps make a history': 'client/graphs: supersteps on create make a history of the graph',
  'threads: update: returnMinimal (Prefer) is 204': UPDATED,
  'threads: copy: state and history': COPIED,
  'threads: search: metadata, also nested': SEARCHED,
  'threads: search: values': BY_VALUES,
  'threads: search: sortBy state_updated_at': BY_VALUES,
  'threads: search: select values gives the state': LISTED,
  'threads: search: values of a list (agent-chat-ui shows the first message)': LISTED,
  'threads: search: extract': LISTED,
  'threads: search: status busy, and the thread says so':
    'client/threads: a thread with a run in flight is busy, and found as such',
  'threads: search: without a limit and order: ten at most':
    'client/threads: search: without a limit ten at most, and the headers say what there is',
  'threads: the first run puts graph_id and assistant_id into the metadata (agent-chat-ui lists by them)':
    "client/graphs: a run of an assistant is its graph's, with its configuration; one that is not there is 404",
  'threads: count': COUNTED,
  'threads: prune': COUNTED,
  'state: subgraphs: the state inside of a task': '',
  'state: update: a message is added to those that are there': '',
  'state: update: a message with a known id takes the place of it': '',
  'state: update: {type: remove} takes a message out': '',
  'state: update: a run goes on from what asNode leads to': '',
  'state: update: values null as __end__ ends an interrupted thread (agent-inbox: ignore)': '',
  'state: patch: metadata': UPDATED,
  'history: newest first, one checkpoint a superstep (5 for agent, tool, agent)': '',
  'history: next names the nodes of the graph': '',
  'history: of a thread without runs is empty': '',
  'history: every entry has its messages': '',
  'history: metadata as a filter': OF_METADATA,
  'stream modes: events': '',
  'stream modes: tools': '',
  'stream modes: updates: channels other than messages': '',
  'stream modes: updates: a node that waits at a breakpoint has written nothing': '',
  "stream modes: messages-tuple: each piece once, and the tool's message": PIECES,
  'stream modes: messages-tuple: langgraph_node is the node that speaks': PIECES,
  'stream modes: streamSubgraphs: names of events bear the subgraph': '',
  'stream modes: feedbackKeys': '',
  'stream: joinStream with cancelOnDisconnect ends the run when the reader goes': '',
  'stream: threads.joinStream: all runs of a thread': '',
  'runs: list: select': 'client/runs: list: select and status; join gives the final values',
  'runs: wait: a failing graph throws its name and text': FAILING,
  'runs: wait: raiseError false gives __error__': FAILING,
  'runs: createBatch': 'client/runs: createBatch: several runs, each on a thread of its own',
  'runs: cancel: rollback removes the run':
    'client/gaps: runs: cancel: rollback removes the run, and what it has written',
  'runs: cancel: of a run that has ended succeeds':
    'client/runs: cancel: a run that has ended is content with it, one that was rolled back is gone',
  'runs: cancelMany': '',
  'runs: delete': 'client/runs: delete: a run that has ended, and one that works; another time 404',
  'runs: stateless: the thread is gone afterwards':
    'client/runs: stateless: the thread is gone with the end of the run, unless it is to be kept',
  'runs: afterSeconds: pending until then': '',
  'runs: webhook is called when the run is over': '',
  'runs: ifNotExists create makes the thread':
    'client/runs: ifNotExists: create makes the thread, else it must be there',
  'runs: an assistant that is not there: 404 No assistant found for':
    'client/assistants: an assistant that is not there: 404',
  'runs: config.recursion_limit counts supersteps': '',
  'runs: metadata of a run stands in its checkpoints': OF_METADATA,
  'runs: messages as LangChain writes its own objects (new HumanMessage)': AS_MESSAGES,
  'runs: messages as pairs of a role and a text': AS_MESSAGES,
  'runs: messages that are plain texts in the state (a list of strings)': '',
  'commands: resume': '',
  'commands: update': '',
  'commands: goto': '',
  'commands: goto __end__ ends an interrupted thread (agent-chat-ui: mark as resolved)': '',
  'commands: interruptBefore, then input null goes on': '',
  'commands: interruptAfter, also "*"': '',
  'multitask: rollback removes the first run': '',
  'assistants: search lists the graphs': OF_SYSTEM,
  "assistants: get by the name of a graph's assistant": OF_SYSTEM,
  'assistants: create, get, update, delete': 'client/assistants: create, get, update, delete',
  'assistants: a run of one has its config': '',
  'assistants: count': 'client/assistants: count, search by name and pages',
  'assistants: getGraph': DRAWN,
  'assistants: getSchemas':
    "client/gaps: assistants: getSchemas: the types of a graph's state, input, output and context",
  'assistants: getSubgraphs': DRAWN,
  'assistants: getVersions, setLatest': 'client/assistants: getVersions, setLatest',
  'store: put, get, delete': KEPT,
  'store: searchItems by prefix and filter, listNamespaces': KEPT,
  'store: what a graph put into its store is there': '',
  'crons: create, search, delete': 'client/crons: a cron is created, found, counted, changed and deleted',
  'around: /ok and /info below the apiUrl': THERE,
  'protocol v2: sse: run.start, values to the end': STARTED,
  'protocol v2: sse: messages of a subscription made before the run': STARTED,
  'protocol v2: websocket: run.start, values to the end': STARTED,
  'protocol v2: websocket: messages of a subscription made before the run': STARTED,
  'protocol v2: sse: a second reader gets everything from the start': AGAIN
}

const BRANCHED = 'client/hooks: branching: edit the first question, and setBranch goes back'

const USE_STREAM: Proofs = {
  'streamMode of submit: values, updates, custom, debug, tasks, checkpoints, events': '',
  'interrupt, then resume': '',
  'interruptBefore of submit, then submit(null) goes on': '',
  'command.goto END resolves an interrupt (agent-chat-ui)': '',
  'submit with multitaskStrategy rollback while a run works': '',
  'history: an entry a step, with messages': '',
  'getMessagesMetadata: first seen state and its parent checkpoint': '',
  'branching: edit the first question': BRANCHED,
  'branching: branches of the edited message, setBranch goes back': BRANCHED,
  'branching: regenerate an answer (agent-chat-ui)': ''
}

const COPILOT =
  'client/others: CopilotKit: finds its assistant by the graph, has its drawing and schemas, a second turn goes on'
const ANSWERED =
  'client/others: CopilotKit, assistant-ui: an interrupt is in the stream and the state; resume by command'
const CHAT = 'client/others: agent-chat-ui: asks /info, lists chats by metadata.graph_id, titles from values.messages'
const DEEP = "client/others: deep-agents-ui: finds its assistant by the graph's name (created_by system), lists chats"
const INBOX =
  'client/others: agent-inbox: lists interrupted threads with their interrupts; answers with resume and streams events'
const STUDIO = 'client/others: Studio and langgraph-cli: every address that they ask is there'

const OTHERS: Proofs = {
  'RemoteGraph: getState, getStateHistory': '',
  'RemoteGraph: updateState, then the state has both': '',
  'RemoteGraph: interruptBefore, then null goes on': '',
  'RemoteGraph: a Command resumes': '',
  'RemoteGraph: getGraphAsync (drawing)': '',
  '@ag-ui/langgraph (CopilotKit): a run: text in pieces, RUN_FINISHED': COPILOT,
  '@ag-ui/langgraph (CopilotKit): a second turn on the thread': COPILOT,
  '@ag-ui/langgraph (CopilotKit): interrupt and resume': ANSWERED,
  '@assistant-ui/react-langgraph: interrupt and resume by command': ANSWERED,
  '@assistant-ui/react-langgraph: editing a message finds its checkpoint in the history and branches there':
    'client/others: assistant-ui: editing a message finds its checkpoint in the history and branches there',
  'agent-chat-ui: asks /info whether the server is there': CHAT,
  'agent-chat-ui: lists chats by metadata.graph_id, titles from values.messages': CHAT,
  "deep-agents-ui: finds its assistant by the graph's name (created_by system)": DEEP,
  'deep-agents-ui: lists chats: sortBy updated_at, titles from values.messages': DEEP,
  'deep-agents-ui: step by step: interruptBefore, then on with input undefined': '',
  'agent-inbox: lists interrupted threads with their interrupts': INBOX,
  'agent-inbox: answers with resume and streams events': INBOX,
  'Studio and langgraph-cli: GET /info': STUDIO,
  'Studio and langgraph-cli: GET /ok': STUDIO,
  'Studio and langgraph-cli: POST /assistants/search': STUDIO,
  'Studio and langgraph-cli: GET /assistants/{id}/schemas': STUDIO,
  'Studio and langgraph-cli: GET /assistants/{id}/graph?xray=true': STUDIO,
  'Studio and langgraph-cli: GET /assistants/{id}/subgraphs': STUDIO,
  'Studio and langgraph-cli: POST /store/namespaces': STUDIO,
  'Studio and langgraph-cli: POST /store/items/search': STUDIO,
  'Studio and langgraph-cli: POST /runs/crons/search': STUDIO,
  'Studio and langgraph-cli: GET /openapi.json': STUDIO,
  'Studio and langgraph-cli: a run streamed as Studio does: debug, messages, subgraphs': ''
}

const NO_MESSAGES = 'client/gaps: stream modes: a graph without messages is given none; the last chunk has its values'
const MODES = 'client/gaps: stream modes: tasks, checkpoints, debug, custom'
const TASKS = 'client/gaps: state: tasks have an id, a path, interrupts, a checkpoint, a state and a result'

/** First failures of the API's own suite, and what was seen besides. */
const SUITE: Proofs = {
  '404: assistants': 'client/assistants: create, get, update, delete',
  '404: schemas': DRAWN,
  '404: copy': COPIED,
  '404: store': KEPT,
  '422 breakpoints': 'client/gaps: commands: interruptBefore, then input null goes on',
  'messages: the human message is messages/complete too, a partial for each piece, order, no empty extra chunk':
    'client/gaps: stream modes: messages: the input is complete too, a partial a piece, in order, none empty',
  'messages-tuple: each piece, and no empty extra chunk': PIECES,
  'protocol v2': STARTED,
  'a graph without a messages channel is given one': NO_MESSAGES,
  'shape of tasks: path, checkpoint, state, result': TASKS,
  'shape of tasks: the state of a graph in the graph': 'client/gaps: state: subgraphs: the state inside of a task',
  'command.update': 'client/gaps: commands: update',
  'command.goto': 'client/gaps: commands: goto',
  events: 'client/gaps: stream modes: events',
  'debug, tasks/checkpoints': MODES,
  after_seconds: 'client/gaps: runs: afterSeconds: pending until then',
  history: 'client/gaps: history: every entry has its messages',
  'name of the recursion error': 'client/gaps: runs: config.recursion_limit counts supersteps',
  'unknown graph': OF_SYSTEM,
  rollback: 'client/gaps: runs: cancel: rollback removes the run, and what it has written',
  supersteps: 'client/graphs: supersteps on create make a history of the graph',
  'dynamic graph':
    "client/graph-projects: the state of a thread is read and changed by the graph that its run's configuration made",
  tools: 'client/gaps: stream modes: tools',
  'resume on LangGraph.js >= 1.5': 'client/gaps: commands: resume',
  'the end frame is optional': NO_MESSAGES,
  if_not_exists: 'client/runs: ifNotExists: create makes the thread, else it must be there',
  'graphs that call getLogger of the SDK cannot load':
    'client/gaps: graphs that call getLogger of the SDK can be loaded, and what they say stands in the log',
  'a node that waits at an interrupt emits an update behind __interrupt__': ANSWERED,
  'titles are a further superstep in a graph’s history':
    'client/gaps: history: newest first, one checkpoint a superstep (5 for agent, tool, agent)',
  Python: "client/python-rules: [Python] every rule of LangGraph's own server holds, with each of its clients"
}

const SECTIONS: readonly (readonly [title: string, suite: string, lines: Proofs])[] = [
  ["the SDK's client", 'client/gaps', SDK],
  ['the classic useStream', 'client/hooks', USE_STREAM],
  ['clients of others', 'client/others', OTHERS],
  ["LangGraph's API suite", 'client/gaps', SUITE]
]

/** What makes a test for every version of the SDK: each of these runs its tests with 1.5.3, 1.12.4, 1.15.0 and 2.0.0. */
const EVERY = 'probe'
/** Tests that are made otherwise, and why. */
const FEWER: Readonly<Record<string, string>> = {
  [STARTED]: '1.5.3 and 2.0.0 have no threads.stream',
  [AGAIN]: '1.5.3 and 2.0.0 have no threads.stream',
  [THERE]: 'asked without a client, below each address that one is given',
  'client/gaps: graphs that call getLogger of the SDK can be loaded, and what they say stands in the log':
    'no client asks',
  "client/python-rules: [Python] every rule of LangGraph's own server holds, with each of its clients":
    "Python's versions"
}

/** The tests that a suite declares, and what makes each. */
function declared(suite: string): Map<string, string> {
  const source = readFileSync(join(TESTS, `${suite}.ts`), 'utf8')
  const made = source.matchAll(/\b(probe|inEach|t\.test)\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")/g)
  return new Map([...made].map(([, by = '', one, other]) => [one ?? other ?? '', by]))
}

const suites = new Map<string, Map<string, string>>()

for (const [title, own, lines] of SECTIONS)
  t.test(`${title}: every line has its test, with every version`, async (t) => {
    for (const [line, named] of Object.entries(lines)) {
      const proof = named || `${own}: ${line}`
      const [, suite = '', name = ''] = /^([^:]+): (.*)$/.exec(proof) ?? []
      if (!suites.has(suite)) suites.set(suite, declared(suite))
      const by = suites.get(suite)!.get(name)
      t.ok(by, `${line}: there is ${proof}`)
      t.ok(by === EVERY || proof in FEWER, `${line}: with every version`)
    }
  })
