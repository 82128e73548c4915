// Links to a conversation: made, copied and taken back by whoever the conversation belongs to.
import { useEffect, useState } from 'preact/hooks'
import { call, textOf } from './api.ts'
import { Dialog } from './dialog.ts'
import { html, Icon } from './html.ts'
import { copyText } from './clipboard.ts'
import { Sure } from './own-account.ts'
import type { Thread } from './threads.ts'
import { ago } from './time.ts'
import { notify } from './toast.ts'
import { locale, t } from './words.ts'

interface Link {
  readonly link_id: string
  readonly files: boolean
  readonly created_at: string
  readonly expires_at: string
}

const DAYS = [1, 7, 30, 365]

export function View({ thread, onClose }: { readonly thread: Thread; readonly onClose: () => void }) {
  const path = `/api/threads/${encodeURIComponent(thread.thread_id)}/links`
  const [links, setLinks] = useState<readonly Link[]>([])
  const [made, setMade] = useState<string | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const failed = (error: unknown) => setProblem(textOf(error))
  const load = () => call<{ links: Link[] }>('GET', path).then((found) => setLinks(found.links), failed)
  useEffect(() => void load(), [])
  const create = async (event: SubmitEvent) => {
    event.preventDefault()
    const data = new FormData(event.currentTarget as HTMLFormElement)
    const body = { expires_in_days: Number(data.get('days')), files: data.has('files') }
    setProblem(null)
    await call<{ link: string }>('POST', path, body).then(({ link }) => setMade(addressOf(thread, link)), failed)
    await load()
  }
  const revoke = (id: string) => call('DELETE', `${path}/${id}`).then(load, failed)
  return html`<${Dialog} title="Share" onClose=${onClose}>
    <p>Whoever has a link reads this conversation as it is and as it goes on, and changes nothing.</p>
    <form class="stack" onSubmit=${create}>
      <label>Good for<select name="days">${DAYS.map((days) => html`<option value=${days} selected=${days === 7}>${days === 1 ? t('a day') : days === 365 ? t('a year') : t('{} days', days)}</option>`)}</select></label>
      <label class="check"><input type="checkbox" name="files" /> With its files</label>
      <footer><button class="primary">Make a link</button></footer>
    </form>
    ${made && html`<div class="secret" role="status"><p>Copy it now: it is shown only once.</p><div class="row"><input readonly aria-label="The link" value=${made} onFocus=${(event: FocusEvent) => (event.currentTarget as HTMLInputElement).select()} /><button class="plain" onClick=${() => void copyText(made).then((isCopied) => isCopied && notify('Copied'))}><${Icon} name="copy" /> Copy</button></div></div>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${
      links.length > 0 &&
      html`<h3>Links there are</h3>
        <ul class="tokens">
          ${links.map(
            ({ link_id, files, created_at, expires_at }) => html`<li key=${link_id}>
              <div><b>${files ? t('With files') : t('Without files')}</b><small>made ${ago(created_at)} · ${endOf(expires_at)}</small></div>
              <${Sure} name=${t('Take back the link made {}', ago(created_at))} label="Take it back" onSure=${() => void revoke(link_id)} />
            </li>`
          )}
        </ul>`
    }
  <//>`
}

/** As this page was reached: behind a proxy the server may have another name. */
function addressOf({ thread_id }: Thread, link: string): string {
  return `${location.origin}${location.pathname}#/shared/${encodeURIComponent(thread_id)}/${link}`
}

function endOf(expires: string): string {
  const at = new Date(expires)
  return at.getTime() < Date.now() ? t('has ended') : t('good until {}', at.toLocaleDateString(locale()))
}
