// The dialogs of a conversation in the list: its new title, and whether it is to be deleted.
import { Dialog } from './dialog.ts'
import { html } from './html.ts'
import { go, place } from './router.ts'
import { remove, rename, type Thread, titleOf } from './threads.ts'
import { notifyFailure } from './toast.ts'

export function Rename({ thread, onClose }: { readonly thread: Thread; readonly onClose: () => void }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const title = String(new FormData(event.currentTarget as HTMLFormElement).get('title')).trim()
    if (title) rename(thread.thread_id, title).catch(notifyFailure)
    onClose()
  }
  return html`<${Dialog} title="Rename" onClose=${onClose}>
    <form class="stack" onSubmit=${submit}>
      <label>Title<input name="title" maxlength="256" defaultValue=${titleOf(thread)} autofocus /></label>
      <footer><button class="primary">Rename</button></footer>
    </form>
  <//>`
}

export function Delete({ thread, onClose }: { readonly thread: Thread; readonly onClose: () => void }) {
  const confirm = () => {
    const isHere = place.value.view === 'thread' && place.value.threadId === thread.thread_id
    remove(thread.thread_id)
    onClose()
    if (isHere) go('#/')
  }
  return html`<${Dialog} title="Delete this conversation?" onClose=${onClose}>
    <p>“${titleOf(thread)}”, its messages and its files will be gone, for good in a few seconds.</p>
    <footer>
      <button class="plain" onClick=${onClose}>Keep it</button>
      <button class="danger" onClick=${confirm}>Delete</button>
    </footer>
  <//>`
}
