// UI components of the operator's graphs, requested by LangGraph's clients (`LoadExternalComponent`).
import { extname } from 'node:path'
import * as v from 'valibot'
import { fail } from '../../base/errors.ts'
import { basePathOf } from '../../http/base-path.ts'
import { type Call, type Reply, type Route, route, type UserCall } from '../../http/route.ts'
import { objectOf } from '../../http/schema.ts'
import { text } from '../../routes/answers.ts'
import type { Services } from '../../routes/services.ts'

const TYPES: Readonly<Record<string, string>> = { '.js': 'text/javascript', '.css': 'text/css' }

const componentBody = objectOf({ name: v.pipe(v.string(), v.maxLength(255)) })

export function uiRoutes({ ui }: Pick<Services, 'ui'>): Route[] {
  if (!ui) return []
  const filesOf = async ({ params }: Call): Promise<ReadonlyMap<string, string>> => {
    const files = (await ui()).get(params.graph!)
    if (!files?.size) throw fail('not_found')
    return files
  }

  /** The HTML that loads a component into the page. */
  const component = async (call: UserCall<v.InferOutput<typeof componentBody>>): Promise<Reply> => {
    const graph = encodeURIComponent(call.params.graph!)
    const names = [...(await filesOf(call)).keys()]
    const at = `${baseOf(call)}/ui/${graph}`
    // Goes into an attribute with single quotes.
    const name = JSON.stringify(call.body.name).replace(/['&<>]/g, (one) => `&#${one.charCodeAt(0)};`)
    const shown = `__LGUI_${call.params.graph!.replace(/[^a-zA-Z0-9]/g, '_')}.render(${name}, "{{shadowRootId}}")`
    const styles = names.filter((one) => extname(one) === '.css')
    const script = names.find((one) => extname(one) === '.js')
    const lines = [
      ...styles.map((one) => `<link rel="stylesheet" href="${at}/${one}" />`),
      ...(script ? [`<script src="${at}/${script}" onload='${shown}'></script>`] : [])
    ]
    return { text: { type: 'text/html; charset=utf-8', body: lines.join('\n') } }
  }

  const file = async (call: Call): Promise<Reply> => {
    const name = call.params.file!
    const body = (await filesOf(call)).get(name)
    if (body === undefined) throw fail('not_found')
    const type = `${TYPES[extname(name)] ?? 'text/plain'}; charset=utf-8`
    return { text: { type, body }, headers: { 'Cache-Control': 'no-cache', 'X-Content-Type-Options': 'nosniff' } }
  }

  const path = '/api/ui/{graph}'
  return [
    route({
      method: 'POST',
      path,
      permission: 'any',
      body: componentBody,
      rule: null,
      summary: 'The HTML that loads a component of a graph into the page',
      answers: { 200: { type: 'text/html', schema: text } },
      handler: component
    }),
    // Script elements send no credential.
    route({
      method: 'GET',
      path: `${path}/{file}`,
      access: 'public',
      rule: null,
      summary: 'A file of the components of a graph',
      answers: { 200: { type: '*/*', schema: text } },
      handler: file
    })
  ]
}

/** As LangGraph's server does: protocol-relative except on localhost, with our prefix if the request had it. */
function baseOf({ req }: Call): string {
  const { host = '' } = req.headers
  if (!/^[\w.:[\]-]+$/.test(host)) return ''
  const scheme = /^(localhost|127\.0\.0\.1)(:|$)/.test(host) ? 'http:' : ''
  return `${scheme}//${host}${basePathOf(req)}${req.url?.startsWith('/api/') ? '/api' : ''}`
}
