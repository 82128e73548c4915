// Documents of agents in a frame with an opaque origin, which reaches nothing; diagrams are such documents too.
import { useEffect, useRef, useState } from 'preact/hooks'
import { BASE } from './base.ts'
import { html } from './html.ts'
import { diagramLibrary } from './rich.ts'
import { isDark } from './theme.ts'

interface SandboxProps {
  readonly text: string
  readonly name: string
  /** It is as high as its document says, up to a limit. */
  readonly fits?: boolean
}

const HEIGHT_MAX = 1200

export function Sandbox({ text, name, fits }: SandboxProps) {
  const frame = useRef<HTMLIFrameElement>(null)
  useEffect(() => {
    const onMessage = ({ source, data }: MessageEvent) => {
      const { current } = frame
      if (!current || source !== current.contentWindow) return
      if (data === 'sandbox-ready') current.contentWindow?.postMessage(text, '*')
      const height = Number(data?.height)
      if (fits && height > 0) current.style.height = `${Math.min(height, HEIGHT_MAX)}px`
    }
    addEventListener('message', onMessage)
    return () => removeEventListener('message', onMessage)
  }, [text])
  return html`<iframe key=${text.length} ref=${frame} class=${fits ? 'diagram' : 'document'} title=${name} sandbox="allow-scripts" src=${`${BASE}/console/sandbox`} referrerpolicy="no-referrer" />`
}

/** A diagram drawn by the optional library; its source where there is none, or where it has a mistake. */
export function Diagram({ source, children }: { readonly source: string; readonly children: unknown }) {
  const [library, setLibrary] = useState<string | null>(null)
  useEffect(() => void diagramLibrary().then(setLibrary), [])
  if (library === null) return children
  return html`<figure class="drawn"><${Sandbox} text=${diagramDocument(library, source)} name="Diagram" fits /><details><summary>Source</summary>${children}</details></figure>`
}

function diagramDocument(library: string, source: string): string {
  const scheme = isDark.value ? 'dark' : 'light'
  // Inside a script nothing may end it.
  const safe = (text: string) => text.replaceAll('</script', '<\\/script')
  return `<!doctype html><meta name="color-scheme" content="${scheme}"><style>body{margin:0;font:14px system-ui}svg{max-width:100%;height:auto}</style><div id="d"></div><script>${safe(library)}</script><script>
mermaid.initialize({ startOnLoad: false, securityLevel: 'strict', theme: '${scheme === 'dark' ? 'dark' : 'neutral'}' })
const size = () => parent.postMessage({ height: document.documentElement.scrollHeight }, '*')
mermaid.render('m', ${safe(JSON.stringify(source))}).then(({ svg }) => { d.innerHTML = svg; size(); new ResizeObserver(size).observe(d) }, (error) => { d.textContent = error.message; size() })
</script>`
}
