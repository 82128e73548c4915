// What the imports have in common: exports are read, one branch of each conversation is followed, and files are written that the page takes.
import { readFileSync, writeFileSync } from 'node:fs'

/** The page refuses files with more. */
const CONVERSATIONS_MAX = 1000

/**
 * Reads the exports that the command line names, and writes `colloquy-1.json` and so on into the working directory.
 * @param conversationsOf what an export has: a list of { title, created_at, messages }
 */
export function convert(conversationsOf) {
  const files = process.argv.slice(2)
  if (files.length === 0) {
    console.error('Name the files that were exported.')
    process.exit(2)
  }
  const found = files.flatMap((file) => conversationsOf(JSON.parse(readFileSync(file, 'utf8')))).filter(isSomething)
  for (let i = 0; i < found.length; i += CONVERSATIONS_MAX) {
    const name = `colloquy-${i / CONVERSATIONS_MAX + 1}.json`
    const part = found.slice(i, i + CONVERSATIONS_MAX)
    writeFileSync(name, JSON.stringify(part.map(saved)))
    console.log(`${name}: ${part.length} conversations`)
  }
}

function isSomething({ messages }) {
  return messages.length > 0
}

function saved({ title, created_at, messages }) {
  return { kind: 'colloquy/conversation', version: 1, title: title || 'Imported', created_at, messages }
}

/**
 * From the first message to the last one: others are answers that were tried again, and messages that were edited.
 * @param byId messages by their id
 * @param last id of the newest message
 */
export function branchTo(last, byId, parentOf) {
  const branch = []
  const seen = new Set()
  for (let id = last; byId.has(id) && !seen.has(id); id = parentOf(byId.get(id))) {
    seen.add(id)
    branch.unshift(byId.get(id))
  }
  return branch
}

/** A message of a person or a model; none where nothing is said. */
export function said(isHuman, text) {
  return text.trim() === '' ? [] : [{ type: isHuman ? 'human' : 'ai', content: text }]
}
