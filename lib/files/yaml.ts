// YAML of strangers: its length and depth are known before it is parsed.
import { parse } from 'yaml'

/** Where it is nested deeper the parser recurses until the stack is full, and a regular expression compiled there aborts the process. */
const NESTING_MAX = 32

/** Why it is not read; the text follows what it is of. */
export class YamlError extends Error {
  override readonly name = 'YamlError'
}

/**
 * @param longest characters: the parser takes 0.2 ms a key, more for each before it
 * @throws YamlError
 */
export function readYaml(yaml: string, longest: number): unknown {
  if (yaml.length > longest) throw new YamlError(`is longer than ${longest} characters`)
  if (isNestedBelow(yaml, NESTING_MAX)) throw new YamlError(`has more than ${NESTING_MAX} levels`)
  try {
    // Aliases could expand a few lines to gigabytes; warnings would stand in the log, in words of whoever wrote it.
    return parse(yaml, { maxAliasCount: 0, prettyErrors: false, logLevel: 'error' })
  } catch {
    throw new YamlError('is not valid YAML')
  }
}

/** Whether brackets, or the indicators at the start of a line, may nest deeper than this. Text counts too: a head has little of it. */
function isNestedBelow(yaml: string, most: number): boolean {
  let depth = 0
  for (const char of yaml) {
    if (char === '[' || char === '{') depth++
    else if ((char === ']' || char === '}') && depth > 0) depth--
    if (depth > most) return true
  }
  return yaml.split('\n').some((line) => indicatorsOf(line) > most)
}

function indicatorsOf(line: string): number {
  const [indicators = ''] = /^(?:[-?:]?\s)*/.exec(line) ?? []
  return indicators.replace(/\s/g, '').length
}
