// What a browser may show of a file, for every kind of file and every way to name it: only what is inert, everything else is saved.
import t from 'tap'
import { type FilePart, upload } from '../fixtures/form.ts'
import { asked, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { zipOf } from '../fixtures/zip.ts'

const PAGE =
  '<html xmlns="http://www.w3.org/1999/xhtml"><body onload="alert(1)"><script>alert(1)</script></body></html>'
const BINARY = Buffer.from([0x7f, 0x45, 0x00, 0x01, 0xfe, 0xff])

/** The allow-list as it is written down once more here: what is not in it is no business of a browser. */
const SHOWN: Readonly<Record<string, string>> = {
  txt: 'text/plain; charset=utf-8',
  log: 'text/plain; charset=utf-8',
  md: 'text/markdown; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  json: 'application/json',
  png: 'image/png',
  apng: 'image/apng',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  avif: 'image/avif',
  bmp: 'image/bmp',
  ico: 'image/x-icon',
  pdf: 'application/pdf',
  mp3: 'audio/mpeg',
  m4a: 'audio/mp4',
  wav: 'audio/wav',
  flac: 'audio/flac',
  ogg: 'audio/ogg',
  opus: 'audio/ogg',
  mp4: 'video/mp4',
  webm: 'video/webm'
}
/** What browsers run, under its own name for programs that fetch it. */
const ACTIVE: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  htm: 'text/html; charset=utf-8',
  xhtml: 'application/xhtml+xml',
  xht: 'application/xhtml+xml',
  svg: 'image/svg+xml',
  svgz: 'image/svg+xml',
  xml: 'application/xml',
  xsl: 'application/xml',
  xslt: 'application/xml'
}
/** Of no kind that a browser is told: text is shown as its source, the rest is saved. */
const TEXTS =
  'js mjs css ts py rb php jsp sh bat ps1 vbs hta mht mhtml shtml rss atom rdf mathml xul htc url ics vcf eml rtf yaml toml ini tex'.split(
    ' '
  )
const BINARIES =
  'exe dll so swf wasm class doc docx xls xlsx ppt pptx tiff heic mov mkv avi ttf woff2 psd iso sqlite'.split(' ')
/** Also saved, and never inside another archive. */
const ARCHIVES = 'zip jar gz tar 7z rar'.split(' ')

const TYPES: readonly FilePart[] = [
  // Whatever the name says, the content is a page: a browser that looked would run it.
  ...[...Object.keys(SHOWN), ...Object.keys(ACTIVE), ...TEXTS].map((name): FilePart => [name, PAGE]),
  ...[...BINARIES, ...ARCHIVES].map((name): FilePart => [name, BINARY])
]

interface Expected {
  readonly type: string
  readonly shown: boolean
}
const AS_SOURCE: Expected = { type: 'text/plain; charset=utf-8', shown: true }
const SAVED: Expected = { type: 'application/octet-stream', shown: false }

const bySniffing = (content: FilePart[1]) => (content === PAGE ? AS_SOURCE : SAVED)
function byName(extension: string, content: FilePart[1]): Expected {
  const [inert, active] = [SHOWN[extension], ACTIVE[extension]]
  if (inert !== undefined) return { type: inert, shown: true }
  return active === undefined ? bySniffing(content) : { type: active, shown: false }
}

/** How a file can be named, and what its name then says. */
const WAYS: Readonly<Record<string, (extension: string, content: FilePart[1]) => [name: string, Expected]>> = {
  'by its extension': (ext, content) => [`plain.${ext}`, byName(ext, content)],
  'by its content': (ext, content) => [`${ext}.unknown`, bySniffing(content)],
  'in capitals': (ext, content) => [`upper.${ext.toUpperCase()}`, byName(ext, content)],
  'with two extensions': (ext, content) => [`picture.png.${ext}`, byName(ext, content)],
  'behind a harmless extension': (ext) => [`${ext}.${ext}.png`, byName('png', '')],
  'without an extension': (ext, content) => [ext, bySniffing(content)],
  'as a hidden file': (ext, content) => [`.${ext}`, bySniffing(content)],
  'with a dot at the end': (ext, content) => [`dot.${ext}.`, bySniffing(content)]
}

async function isSafe(person: Person, url: string, { type, shown }: Expected): Promise<string | null> {
  const { status, headers } = await person.get(url)
  const told = {
    status,
    type: headers.get('content-type'),
    sniffing: headers.get('x-content-type-options'),
    policy: headers.get('content-security-policy'),
    shown: !headers.get('content-disposition')?.startsWith('attachment;')
  }
  const wanted = { status: 200, type, sniffing: 'nosniff', policy: "sandbox; default-src 'none'", shown }
  const [is, ought] = [JSON.stringify(told), JSON.stringify(wanted)]
  return is === ought ? null : `${url}: ${is}, not ${ought}`
}

t.test(
  `[needs N18] of ${TYPES.length} kinds of file only those of the allow-list are shown, however they are named`,
  async (t) => {
    t.ok(TYPES.length >= 60)
    const site = await openSite(t, { config: { uploads: { max_files: 0 } } })
    const person = await signIn(site)
    const thread = await person.thread()
    for (const [way, named] of Object.entries(WAYS)) {
      const files = TYPES.map(([extension, content]) => ({ content, named: named(extension, content) }))
      const { body } = await upload(
        person,
        thread,
        files.map(({ content, named: [name] }): FilePart => [name, content])
      )
      const urls = listIn(body, 'files').map((file) => textIn(file, 'artifact_url'))
      t.equal(urls.length, TYPES.length)
      const wrong = await Promise.all(urls.map((url, n) => isSafe(person, url, files[n]!.named[1])))
      t.strictSame(
        wrong.filter((one) => one !== null),
        [],
        way
      )
    }
  }
)

t.test(
  '[needs N18] a member of an archive is shown like a file of its name; an archive with archives is not looked into',
  async (t) => {
    const site = await openSite(t)
    const person = await signIn(site)
    const thread = await person.thread()
    const members = TYPES.filter(([extension]) => !ARCHIVES.includes(extension))
    const skill = zipOf(members.map(([extension, data]) => ({ name: `folder/a.${extension}`, data })))
    const nested = ARCHIVES.map(
      (extension): FilePart => [`with-${extension}.skill`, zipOf([{ name: `a.${extension}` }])]
    )
    const { body } = await upload(person, thread, [['all.skill', skill], ...nested])
    const url = textIn(body, 'files', 0, 'artifact_url')
    const wrong = await Promise.all(
      members.map(([extension, content]) => isSafe(person, `${url}/folder/a.${extension}`, byName(extension, content)))
    )
    t.strictSame(
      wrong.filter((one) => one !== null),
      []
    )
    for (const [at, extension] of ARCHIVES.entries()) {
      const answer = await person.get(`${textIn(body, 'files', at + 1, 'artifact_url')}/a.${extension}`)
      t.match(answer, { status: 404, body: { detail: `File 'a.${extension}' not found in skill archive` } })
      t.equal(answer.headers.get('x-content-type-options'), 'nosniff')
    }
  }
)

t.test('a folder may be called like an archive', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const thread = await person.thread()
  const args = JSON.stringify({ path: 'x.skill/a.txt', content: 'hello' })
  await person.post(`/api/threads/${thread}/runs/wait`, asked(`/demo tool=write_file args=${args}`))
  const artifacts = `/api/threads/${thread}/artifacts/mnt/user-data/outputs/x.skill`
  t.match(await person.get(`${artifacts}/a.txt`), { status: 200, text: 'hello' })
  t.match(await person.get(`${artifacts}/none`), { status: 404 })
  t.match(await person.get(artifacts), { status: 400 })
})
