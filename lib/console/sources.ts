// What an answer refers to: citations of models and of LangChain's messages, as cards below it.
import type { TranscriptMessage } from '../client/colloquy.ts'
import { html } from './html.ts'

interface Source {
  readonly url: string
  readonly title: string
  /** What is quoted of it; '': nothing. */
  readonly quote: string
}

/** Its sources, each once, in the order in which they are cited. */
export function sourcesOf({ content, raw }: TranscriptMessage): readonly Source[] {
  const { annotations, citations } = (raw.additional_kwargs ?? {}) as Record<string, unknown>
  const parts = (Array.isArray(content) ? content : []) as { annotations?: unknown; citations?: unknown }[]
  const given = [...parts.flatMap((part) => [part?.annotations, part?.citations]), annotations, citations]
  const found = new Map<string, Source>()
  for (const one of given.flatMap((list) => (Array.isArray(list) ? list : []))) {
    const source = sourceIn(one)
    if (source && !found.get(source.url)?.quote) found.set(source.url, source)
  }
  return [...found.values()]
}

/** A URL, or an object in the words of OpenAI, Anthropic or LangChain; null: nothing that can be opened. */
function sourceIn(given: unknown): Source | null {
  const outer = (typeof given === 'string' ? { url: given } : (given ?? {})) as Record<string, unknown>
  const one = (outer.url_citation ?? outer) as Record<string, unknown>
  const url = URL.parse(String(one.url ?? ''))
  if (!url || !/^https?:$/.test(url.protocol)) return null
  const title = one.title ?? one.document_title
  const quote = one.cited_text ?? one.citedText ?? one.content
  return {
    url: url.href,
    title: typeof title === 'string' && title ? title : url.host,
    quote: typeof quote === 'string' ? quote.slice(0, 300) : ''
  }
}

export function Sources({ sources }: { readonly sources: readonly Source[] }) {
  return html`<ol class="sources" aria-label="Sources">
    ${sources.map(
      ({ url, title, quote }, i) => html`<li key=${url}>
        <a href=${url} target="_blank" rel="noopener noreferrer"><b>${i + 1}</b> <span>${title}</span> <small>${new URL(url).host}</small></a>
        ${quote && html`<blockquote dir="auto">${quote}</blockquote>`}
      </li>`
    )}
  </ol>`
}
