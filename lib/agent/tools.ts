// The tools that come with the agent: the time, the thread's files, asking the user, whose question is a tool message, and setup_agent,
// which saves a persona.
import { randomUUID } from 'node:crypto'
import { DEFAULT_USER_ID } from '../base/scope.ts'
import { isObject, type Json, type JsonObject, type ToolCall, type ToolMessage } from '../base/types.ts'
import { BY_CLIENT, isClientCall } from './client-context.ts'
import { type Tool, type ToolContext, UserInterrupt, type ToolSource } from './tool.ts'

/** Virtual folders, as in files/paths.ts. */
export const VIRTUAL_ROOT = '/mnt/user-data'
export const VIRTUAL_OUTPUTS = `${VIRTUAL_ROOT}/outputs`
const PRESENTED_MAX = 100
export const VIEW_IMAGE = 'view_image'

/** File access for tools. Errors have a text for the model. */
interface ThreadFiles {
  /** Writes below the outputs or the workspace of a thread, never outside. @returns The virtual path. */
  write(threadId: string, userId: string, path: string, content: string): Promise<string>
  list(threadId: string, userId: string, path?: string): Promise<{ files: readonly FileEntry[]; isCut: boolean }>
  read(
    threadId: string,
    userId: string,
    path: string,
    fromLine?: number
  ): Promise<{ text: string; nextLine: number | null }>
  search(threadId: string, userId: string, query: string, path?: string): Promise<readonly Match[]>
  /** An image of a type and size that models accept. */
  image(threadId: string, userId: string, path: string): Promise<{ mimeType: string; bytes: Uint8Array }>
  /** Rejects when the file cannot be shown. */
  check(threadId: string, userId: string, path: string): Promise<void>
}
interface FileEntry {
  readonly path: string
  readonly size: number
}
interface Match {
  readonly path: string
  readonly line: number
  readonly text: string
}

/** The built-in tools. `clock` returns Unix milliseconds. */
export function builtInTools({
  files,
  clock = Date.now
}: {
  readonly files: ThreadFiles
  readonly clock?: () => number
}): Tool[] {
  return [
    currentTime(clock),
    listFiles(files),
    readFile(files),
    viewImage(files),
    searchFiles(files),
    writeFile(files),
    presentFiles(files),
    askUser()
  ]
}

function currentTime(clock: () => number): Tool {
  return {
    name: 'current_time',
    isRepeatable: true,
    description: 'Tells the current date and time in UTC, as ISO 8601.',
    parameters: parametersOf({}),
    async run() {
      return new Date(clock()).toISOString()
    }
  }
}

function listFiles(files: ThreadFiles): Tool {
  return {
    name: 'list_files',
    isRepeatable: true,
    description: `Lists the files of this conversation: uploads, workspace and outputs below ${VIRTUAL_ROOT}.`,
    parameters: parametersOf({ path: { type: 'string', description: `Folder; default ${VIRTUAL_ROOT}` } }),
    async run(args, context) {
      const listing = await files.list(...whose(context), optionalText(args, 'path'))
      if (listing.files.length === 0) return 'There are no files.'
      const lines = listing.files.map(({ path, size }) => `${path} (${size} bytes)`)
      return listing.isCut ? [...lines, 'There are more. List a folder of them.'].join('\n') : lines.join('\n')
    }
  }
}

function readFile(files: ThreadFiles): Tool {
  return {
    name: 'read_file',
    isRepeatable: true,
    description: 'Reads a text file of this conversation, a piece at a time when it is long.',
    parameters: parametersOf(
      {
        path: { type: 'string', description: `Path below ${VIRTUAL_ROOT}, as list_files shows it` },
        line: { type: 'integer', description: 'The line to begin with; default 1' }
      },
      ['path']
    ),
    async run(args, context) {
      const line = Number(args.line ?? 1)
      if (!Number.isSafeInteger(line) || line < 1) throw new Error('The argument "line" must be a whole number from 1')
      const { text, nextLine } = await files.read(...whose(context), textArgument(args, 'path'), line)
      return nextLine === null ? text : `${text}\n[The file goes on. Read it with line ${nextLine}.]`
    }
  }
}

/** The state records the path; middleware/uploads.ts reads the bytes for each model call. */
function viewImage(files: ThreadFiles): Tool {
  return {
    name: VIEW_IMAGE,
    isRepeatable: true,
    description: 'Shows you an image of this conversation: PNG, JPEG, GIF or WebP, at most 5 MB.',
    parameters: parametersOf(
      { path: { type: 'string', description: `Path below ${VIRTUAL_ROOT}, as list_files shows it` } },
      ['path']
    ),
    needsImages: true,
    async run(args, context) {
      const path = textArgument(args, 'path')
      const { mimeType } = await files.image(...whose(context), path)
      const viewed = isObject(context.channels.viewed_images) ? context.channels.viewed_images : {}
      return {
        content: `${path} is shown to you below, until the user speaks again.`,
        channels: { viewed_images: { ...viewed, [path]: { mime_type: mimeType } } }
      }
    }
  }
}

function searchFiles(files: ThreadFiles): Tool {
  return {
    name: 'search_files',
    isRepeatable: true,
    description: 'Finds the lines of text files of this conversation that contain a text, case aside.',
    parameters: parametersOf(
      {
        query: { type: 'string', description: 'The text to look for' },
        path: { type: 'string', description: `Folder or file; default ${VIRTUAL_ROOT}` }
      },
      ['query']
    ),
    async run(args, context) {
      const query = textArgument(args, 'query')
      if (query === '') throw new Error('The argument "query" must not be empty')
      const found = await files.search(...whose(context), query, optionalText(args, 'path'))
      return found.length === 0
        ? 'Nothing was found.'
        : found.map(({ path, line, text }) => `${path}:${line}: ${text}`).join('\n')
    }
  }
}

function writeFile(files: ThreadFiles): Tool {
  return {
    name: 'write_file',
    isRepeatable: true,
    description: `Writes a text file: below ${VIRTUAL_OUTPUTS} for the user, below ${VIRTUAL_ROOT}/workspace for yourself. An existing file is replaced.`,
    parameters: parametersOf(
      {
        path: {
          type: 'string',
          description: `Path of the file; one that is not absolute lies below ${VIRTUAL_OUTPUTS}, for example report.md or data/a.csv`
        },
        content: { type: 'string', description: 'The whole text of the file' }
      },
      ['path', 'content']
    ),
    async run(args, context) {
      const path = await files.write(...whose(context), textArgument(args, 'path'), textArgument(args, 'content'))
      const content = `Wrote ${path}`
      // Files in the workspace are the agent's own and not shown.
      return path.startsWith(`${VIRTUAL_OUTPUTS}/`) ? { content, channels: presented(context, path) } : content
    }
  }
}

/** Front ends know this name and its arguments, and draw a card from the call. */
function presentFiles(files: ThreadFiles): Tool {
  return {
    name: 'present_files',
    isRepeatable: true,
    description: 'Shows files of this conversation to the user, who can open them then.',
    parameters: parametersOf(
      { filepaths: { type: 'array', items: { type: 'string' }, description: `Paths below ${VIRTUAL_ROOT}` } },
      ['filepaths']
    ),
    async run(args, context) {
      const paths = Array.isArray(args.filepaths) ? args.filepaths.filter((path) => typeof path === 'string') : []
      if (paths.length === 0 || paths.length > PRESENTED_MAX)
        throw new Error(`The argument "filepaths" must be a list of 1 to ${PRESENTED_MAX} paths`)
      for (const path of paths) await files.check(...whose(context), path)
      return { content: `Shown to the user: ${paths.join(', ')}`, channels: presented(context, ...paths) }
    }
  }
}

function askUser(): Tool {
  return {
    name: 'ask_user',
    isRepeatable: true,
    description: 'Asks the user a question and waits for the answer. Use it only when the work cannot go on without.',
    parameters: parametersOf(
      {
        question: { type: 'string', description: 'The question' },
        options: { type: 'array', items: { type: 'string' }, description: 'Answers to choose from, if there are such' }
      },
      ['question']
    ),
    async run(args) {
      const { options } = args
      const choices = Array.isArray(options) ? options.filter((one) => typeof one === 'string') : []
      throw new UserInterrupt({ question: textArgument(args, 'question'), options: choices })
    }
  }
}

function whose({ threadId, userId }: ToolContext): [threadId: string, userId: string] {
  return [threadId, userId ?? DEFAULT_USER_ID]
}

function presented({ channels: { artifacts } }: ToolContext, ...paths: string[]): { artifacts: Json[] } {
  return { artifacts: [...new Set([...(Array.isArray(artifacts) ? artifacts : []), ...paths])] }
}

function parametersOf(properties: JsonObject, required: string[] = []): JsonObject {
  return { type: 'object', properties, required, additionalProperties: false }
}

function textArgument(args: JsonObject, name: string): string {
  const value = args[name]
  if (typeof value !== 'string') throw new Error(`The argument "${name}" must be a text`)
  return value
}

function optionalText(args: JsonObject, name: string): string | undefined {
  return args[name] === undefined || args[name] === null ? undefined : textArgument(args, name)
}

// ----------------------------------------------------------------------------------------------------
// A question to the user as a tool message, for front ends that do not know interrupts: they recognise the tool name and show the text,
// or a form made of `artifact.human_input`.

const NAME = 'ask_clarification'

/** `value`: the interrupt's value, `{question, options}` or anything else. The answer replaces this message. */
export function clarificationOf(call: ToolCall, value: Json): ToolMessage {
  const { question, options } = asked(value)
  const id = randomUUID()
  return {
    type: 'tool',
    id,
    content: [question, ...(options.length ? [''] : []), ...options.map((one, at) => `  ${at + 1}. ${one}`)].join('\n'),
    additional_kwargs: {},
    response_metadata: {},
    name: NAME,
    tool_call_id: call.id,
    artifact: {
      ...(isClientCall(value) && BY_CLIENT),
      human_input: {
        version: 1,
        kind: 'human_input_request',
        source: NAME,
        request_id: id,
        tool_call_id: call.id,
        clarification_type: 'missing_info',
        question,
        input_mode: options.length ? 'choice_with_other' : 'free_text',
        ...(options.length && {
          options: options.map((one, at) => ({ id: `option-${at + 1}`, label: one, value: one }))
        })
      }
    },
    status: 'success'
  }
}

function asked(value: Json): { question: string; options: string[] } {
  if (!isObject(value)) return { question: typeof value === 'string' ? value : JSON.stringify(value), options: [] }
  const { question, options } = value
  // Clients refuse a form with an empty option.
  const said = Array.isArray(options) ? options.filter((one) => typeof one === 'string' && one.trim() !== '') : []
  return { question: typeof question === 'string' ? question : JSON.stringify(value), options: said as string[] }
}

// ------------------------------------------------------- setup_agent: makes a persona of the conversation about it

/** Where personas are kept. */
interface PersonaPort {
  /** Creates it, or changes what is given of the one with this name. Errors have a text for the model. */
  save(name: string, user: string, content: PersonaContent): Promise<void>
}

interface PersonaContent {
  readonly description: string
  readonly instructions: string
  /** null: as before; of a new one all skills. */
  readonly skills: readonly string[] | null
}

/** Offered only in a run whose context has `is_bootstrap` and names the agent to be made. */
export function setupAgentTool(personas: PersonaPort): ToolSource {
  return {
    open: async ({ is_bootstrap, agent_name: name }) => ({
      tools: is_bootstrap === true && typeof name === 'string' && name !== '' ? [setupAgent(name, personas)] : [],
      close: () => {}
    })
  }
}

function setupAgent(name: string, personas: PersonaPort): Tool {
  return {
    name: 'setup_agent',
    isRepeatable: true,
    description: [
      `Saves the agent "${name}", which this conversation is about.`,
      'First ask its user what it is for and how it should answer. Call it when that is clear, or when you are asked to save.'
    ].join(' '),
    parameters: parameters(),
    async run({ soul, description, skills = null }, { userId }) {
      if (userId === null) throw new Error('Only a signed-in user has agents')
      if (typeof soul !== 'string' || typeof description !== 'string')
        throw new Error('soul and description must be texts')
      if (skills !== null && !(Array.isArray(skills) && skills.every((one) => typeof one === 'string')))
        throw new Error('skills must be a list of names')
      await personas.save(name, userId, { description, instructions: soul, skills: skills as string[] | null })
      return { content: `The agent ${name} is saved.`, channels: { created_agent_name: name.toLowerCase() } }
    }
  }
}

function parameters(): JsonObject {
  return {
    type: 'object',
    properties: {
      soul: { type: 'string', description: 'All its instructions: who it is, what it does, how it answers' },
      description: { type: 'string', description: 'What it does, in one line' },
      skills: {
        type: 'array',
        items: { type: 'string' },
        description: 'Names of the only skills that it has; default as before, of a new agent all'
      }
    },
    required: ['soul', 'description']
  }
}
