// Artifacts beside the conversation: source and preview, and the versions that were written. Documents run in a sandboxed origin.
import { useEffect, useState } from 'preact/hooks'
import { colloquy, textOf } from './api.ts'
import { artifactPath, artifactUrl, type Kind, kindOf, nameOf } from './files.ts'
import { html, Icon } from './html.ts'
import { copyText } from './clipboard.ts'
import { Markdown } from './markdown.ts'
import { Sandbox } from './sandbox.ts'
import { notify } from './toast.ts'
import { t } from './words.ts'

interface ArtifactProps {
  readonly threadId: string
  readonly path: string
  /** What was written to it before, oldest first; the last is what it is now. */
  readonly versions: readonly string[]
  readonly onClose: () => void
}

const SHOWN_MAX = 1_000_000
const HAS_PREVIEW: ReadonlySet<Kind> = new Set(['document', 'drawing', 'markdown', 'table'])

export function View({ threadId, path, versions, onClose }: ArtifactProps) {
  const [isSource, setSource] = useState(false)
  /** null: as the file is. */
  const [version, setVersion] = useState<number | null>(null)
  const [stored, setStored] = useState<string | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const kind = kindOf(path)
  const newest = versions.at(-1)
  useEffect(() => {
    if (kind === 'image') return
    colloquy.request('GET', artifactPath(threadId, path)).then(
      ({ text: content }) => setStored(content),
      (error) => setProblem(textOf(error))
    )
  }, [path, newest])
  const text = version === null ? stored : versions[version]!
  const at = version ?? versions.length - 1
  return html`<aside class="panel artifact" aria-label=${t('File {}', nameOf(path))}>
    <header>
      <h2><${Icon} name="file" /> ${nameOf(path)}</h2>
      ${
        text !== null &&
        html`<button class="quiet" title="Copy" aria-label="Copy the file" onClick=${() => void copyText(text).then((isCopied) => isCopied && notify('Copied'))}><${Icon} name="copy" /></button>`
      }
      <a class="quiet button" href=${artifactUrl(threadId, path, true)} download=${nameOf(path)} title="Download" aria-label="Download"><${Icon} name="save" /></a>
      <button class="quiet" aria-label="Close the file" onClick=${onClose}><${Icon} name="close" /></button>
    </header>
    ${
      (HAS_PREVIEW.has(kind) || versions.length > 1) &&
      html`<div class="panel-bar">
        ${
          HAS_PREVIEW.has(kind) &&
          html`<div class="tabs" role="group" aria-label="View">
            <button aria-pressed=${!isSource} onClick=${() => setSource(false)}>Preview</button>
            <button aria-pressed=${isSource} onClick=${() => setSource(true)}>Source</button>
          </div>`
        }
        <span class="space"></span>
        ${
          versions.length > 1 &&
          html`<div class="switch" role="group" aria-label="Versions">
            <button class="quiet" aria-label="Older version" disabled=${at <= 0} onClick=${() => setVersion(at - 1)}><${Icon} name="left" /></button>
            <span>Version ${at + 1} of ${versions.length}</span>
            <button class="quiet" aria-label="Newer version" disabled=${at >= versions.length - 1} onClick=${() => setVersion(at + 1 === versions.length - 1 ? null : at + 1)}><${Icon} name="right" /></button>
          </div>`
        }
      </div>`
    }
    <div class="panel-body"><${Content} key=${`${path} ${version}`} ...${{ threadId, path, text, problem, isSource, kind }} /></div>
  </aside>`
}

interface ContentProps {
  readonly threadId: string
  readonly path: string
  readonly kind: Kind
  readonly text: string | null
  readonly problem: string | null
  readonly isSource: boolean
}

function Content({ threadId, path, kind, text, problem, isSource }: ContentProps) {
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`
  if (kind === 'image') return html`<img class="picture" src=${artifactUrl(threadId, path)} alt=${nameOf(path)} />`
  if (text === null) return html`<p class="hint">Loading…</p>`
  if (text.includes('\0')) return html`<p class="hint">This file is not text. Download it to open it.</p>`
  const lang = path.split('.').at(-1) ?? ''
  if (isSource || kind === 'text') return html`<${Source} text=${text.slice(0, SHOWN_MAX)} lang=${lang} />`
  if (kind === 'document' || kind === 'drawing') return html`<${Sandbox} text=${text} name=${nameOf(path)} />`
  if (kind === 'markdown') return html`<${Markdown} text=${text} threadId=${threadId} />`
  return html`<${Table} text=${text.slice(0, SHOWN_MAX)} />`
}

/** As a block of code, whatever stands in it. */
function Source({ text, lang }: { readonly text: string; readonly lang: string }) {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length))
  const fence = '`'.repeat(longest + 1)
  return html`<${Markdown} text=${`${fence}${lang}\n${text.replace(/\n$/, '')}\n${fence}\n`} />`
}

function Table({ text }: { readonly text: string }) {
  const [head = [], ...rows] = readCsv(text)
  return html`<div class="table" tabindex="0"><table>
    <thead><tr>${head.map((cell) => html`<th>${cell}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, 1000).map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`
}

function readCsv(text: string): string[][] {
  return text
    .split(/\r?\n/)
    .filter(Boolean)
    .map((line) =>
      [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
        ([, quoted, bare]) => quoted?.replaceAll('""', '"') ?? bare ?? ''
      )
    )
}
