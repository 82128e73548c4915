// The tools that are built in: the time, and writing a file.
import { DEFAULT_USER_ID } from '../scope.ts'
import type { Json, JsonObject } from '../types.ts'
import type { Tool } from './tool.ts'

/** The folder for what an agent makes, as the agent sees it: the same place that files/paths.ts calls so. */
export const VIRTUAL_OUTPUTS = '/mnt/user-data/outputs'

/** The little that write_file needs of files/paths.ts: this room does not know that one. */
export interface OutputFiles {
  /** Writes below the outputs of a thread, never outside. @returns The virtual path. */
  writeOutput(threadId: string, userId: string, path: string, content: string): Promise<string>
}

/** The built-in tools. `clock` answers unix milliseconds. */
export function builtInTools(parts: { readonly files: OutputFiles; readonly clock?: () => number }): Tool[] {
  return [currentTime(parts.clock ?? Date.now), writeFile(parts.files)]
}

function currentTime(clock: () => number): Tool {
  return {
    name: 'current_time',
    description: 'Tells the current date and time in UTC, as ISO 8601.',
    parameters: { type: 'object', properties: {}, additionalProperties: false },
    async run() {
      return new Date(clock()).toISOString()
    }
  }
}

function writeFile(files: OutputFiles): Tool {
  return {
    name: 'write_file',
    description: `Writes a text file below ${VIRTUAL_OUTPUTS}, where the user can open it. An existing file is replaced.`,
    parameters: {
      type: 'object',
      properties: {
        path: {
          type: 'string',
          description: `Path of the file below ${VIRTUAL_OUTPUTS}, for example report.md or data/a.csv`
        },
        content: { type: 'string', description: 'The whole text of the file' }
      },
      required: ['path', 'content'],
      additionalProperties: false
    },
    async run(args, context) {
      const path = textArgument(args, 'path')
      const content = textArgument(args, 'content')
      const virtualPath = await files.writeOutput(context.threadId, context.userId ?? DEFAULT_USER_ID, path, content)
      return {
        content: `Wrote ${virtualPath}`,
        channels: { artifacts: withArtifact(context.channels.artifacts, virtualPath) }
      }
    }
  }
}

function textArgument(args: JsonObject, name: string): string {
  const value = args[name]
  if (typeof value !== 'string') throw new Error(`The argument "${name}" must be a text`)
  return value
}

function withArtifact(artifacts: Json | undefined, virtualPath: string): Json[] {
  const known = Array.isArray(artifacts) ? artifacts : []
  return known.includes(virtualPath) ? known : [...known, virtualPath]
}
