// A streaming parser for the XML of office programs. It knows only XML's five entities and reads no DTD, so that nothing can
// expand or refer to other files.

type XmlPiece =
  | {
      readonly kind: 'open'
      /** Without its prefix: `p` for `<w:p>`. */
      readonly name: string
      /** The content of the tag, for `attributeOf`. */
      readonly tag: string
    }
  | { readonly kind: 'close'; readonly name: string }
  | { readonly kind: 'text'; readonly text: string }

/** The pieces in order; an empty element opens and closes. Truncated markup at the end is left out. */
export function* readXml(xml: string): Generator<XmlPiece> {
  for (let at = 0; at < xml.length; ) {
    const begin = xml.indexOf('<', at)
    if (begin < 0) return
    if (begin > at) yield { kind: 'text', text: decoded(xml.slice(at, begin)) }
    const [end, next] = extentOf(xml, begin)
    if (end < 0) return
    at = next
    if (xml.startsWith('<![CDATA[', begin)) yield { kind: 'text', text: xml.slice(begin + 9, end) }
    else if (!/[!?]/.test(xml[begin + 1] ?? '')) yield* elementOf(xml.slice(begin + 1, end))
  }
}

/** The value of an attribute, by its name with its prefix; null: there is none. */
export function attributeOf(tag: string, name: string): string | null {
  const found = patternOf(name).exec(tag)
  return found ? decoded(found[1] ?? found[2] ?? '') : null
}

/** Compiled patterns by attribute name. */
const ATTRIBUTES = new Map<string, RegExp>()

function patternOf(name: string): RegExp {
  const known = ATTRIBUTES.get(name)
  if (known) return known
  const pattern = new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`)
  ATTRIBUTES.set(name, pattern)
  return pattern
}

function* elementOf(tag: string): Generator<XmlPiece> {
  if (tag.startsWith('/')) return yield { kind: 'close', name: localName(tag.slice(1)) }
  const name = localName(tag)
  yield { kind: 'open', name, tag }
  if (tag.endsWith('/')) yield { kind: 'close', name }
}

function localName(tag: string): string {
  const end = tag.search(/[\s/]/)
  const name = end < 0 ? tag : tag.slice(0, end)
  return name.slice(name.indexOf(':') + 1)
}

/** Where the markup at `begin` ends, without and with its delimiter; -1: nowhere. */
function extentOf(xml: string, begin: number): [end: number, next: number] {
  for (const [head, tail] of SECTIONS) {
    if (!xml.startsWith(head, begin)) continue
    const end = xml.indexOf(tail, begin + head.length)
    return [end, end + tail.length]
  }
  const end = tagEnd(xml, begin)
  return [end, end + 1]
}

const SECTIONS = [
  ['<![CDATA[', ']]>'],
  ['<!--', '-->'],
  ['<?', '?>']
] as const

/** The `>` that ends a tag, skipping those in attribute values. */
function tagEnd(xml: string, begin: number): number {
  let quote = ''
  for (let at = begin; at < xml.length; at++) {
    const char = xml[at]!
    if (quote !== '') {
      if (char === quote) quote = ''
    } else if (char === '"' || char === "'") quote = char
    else if (char === '>') return at
  }
  return -1
}

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

function decoded(text: string): string {
  if (!text.includes('&')) return text
  return text.replace(/&(?:#x([\da-f]{1,6})|#(\d{1,7})|(\w{1,8}));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return NAMED[name] ?? whole
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)
    return code <= 0x10ffff ? String.fromCodePoint(code) : ''
  })
}
