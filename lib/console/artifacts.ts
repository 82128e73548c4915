// Artifacts beside the conversation. Documents run in a sandboxed origin that reaches nothing.
import { useEffect, useRef, useState } from 'preact/hooks'
import { colloquy, textOf } from './api.ts'
import { html, Icon } from './html.ts'
import { Markdown } from './markdown.ts'

export function artifactUrl(threadId: string, path: string, isDownload = false): string {
  const encoded = path.replace(/^\//, '').split('/').map(encodeURIComponent).join('/')
  return `/api/threads/${encodeURIComponent(threadId)}/artifacts/${encoded}${isDownload ? '?download=true' : ''}`
}

export const nameOf = (path: string): string => path.split('/').at(-1) ?? path

type Kind = 'document' | 'image' | 'markdown' | 'table' | 'text'
const KINDS: readonly [RegExp, Kind][] = [
  [/\.x?html?$/i, 'document'],
  [/\.(png|jpe?g|gif|webp|avif)$/i, 'image'],
  [/\.(md|markdown)$/i, 'markdown'],
  [/\.csv$/i, 'table']
]
const kindOf = (path: string): Kind => KINDS.find(([pattern]) => pattern.test(path))?.[1] ?? 'text'

interface ArtifactProps {
  readonly threadId: string
  readonly path: string
  readonly onClose: () => void
}

export function ArtifactPanel({ threadId, path, onClose }: ArtifactProps) {
  return html`<aside class="panel artifact" aria-label=${`File ${nameOf(path)}`}>
    <header>
      <h2><${Icon} name="file" /> ${nameOf(path)}</h2>
      <a class="quiet button" href=${artifactUrl(threadId, path, true)} download=${nameOf(path)} title="Download" aria-label="Download"><${Icon} name="open" /></a>
      <button class="quiet" aria-label="Close the file" onClick=${onClose}><${Icon} name="close" /></button>
    </header>
    <div class="panel-body"><${Content} key=${path} threadId=${threadId} path=${path} /></div>
  </aside>`
}

const SHOWN_MAX = 1_000_000

function Content({ threadId, path }: Omit<ArtifactProps, 'onClose'>) {
  const kind = kindOf(path)
  const [text, setText] = useState<string | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  useEffect(() => {
    if (kind === 'image') return
    colloquy
      .send('GET', artifactUrl(threadId, path))
      .then((response) => response.text())
      .then(setText, (error) => setProblem(textOf(error)))
  }, [])
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`
  if (kind === 'image') return html`<img class="picture" src=${artifactUrl(threadId, path)} alt=${nameOf(path)} />`
  if (text === null) return html`<p class="hint">Loading…</p>`
  if (kind === 'document') return html`<${Sandbox} text=${text} name=${nameOf(path)} />`
  if (kind === 'markdown') return html`<${Markdown} text=${text} />`
  if (kind === 'table') return html`<${Table} text=${text.slice(0, SHOWN_MAX)} />`
  if (text.includes('\0')) return html`<p class="hint">This file is not text. Download it to open it.</p>`
  return html`<pre tabindex="0">${text.slice(0, SHOWN_MAX)}</pre>`
}

function Sandbox({ text, name }: { readonly text: string; readonly name: string }) {
  const frame = useRef<HTMLIFrameElement>(null)
  useEffect(() => {
    const onMessage = ({ source, data }: MessageEvent) => {
      if (source === frame.current?.contentWindow && data === 'sandbox-ready')
        frame.current?.contentWindow?.postMessage(text, '*')
    }
    addEventListener('message', onMessage)
    return () => removeEventListener('message', onMessage)
  }, [text])
  return html`<iframe ref=${frame} class="document" title=${name} sandbox="allow-scripts" src="/console/sandbox" referrerpolicy="no-referrer" />`
}

function Table({ text }: { readonly text: string }) {
  const [head = [], ...rows] = readCsv(text)
  return html`<div class="table"><table>
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
