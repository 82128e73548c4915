// The composer: text, files, what to ask, and a stop button while a run is active.
import { useEffect, useRef, useState } from 'preact/hooks'
import { Choices, choice, isPicking, loadChoices } from './choice.ts'
import type { Conversation } from './conversation.ts'
import { html, Icon, Thumb } from './html.ts'
import { Later } from './later.ts'
import type { Extra } from './records.ts'
import { isAway } from './session.ts'
import { keepDraft, keptDraft } from './tab-storage.ts'
import { bytes } from './time.ts'
import { notifyFailure } from './toast.ts'
import type { Uploads } from './uploads.ts'
import { t } from './words.ts'

const skills = () => import('./skills.ts')
const draftKey = (threadId: string) => `colloquy.draft.${threadId}`

interface ComposerProps {
  readonly conversation: Conversation
  readonly uploads: Uploads
  /** Called when the first message of a new thread is on its way. */
  readonly onSent: () => void
}

export function Composer({ conversation, uploads, onSent }: ComposerProps) {
  const { threadId, state } = conversation
  const key = draftKey(threadId)
  const [text, setText] = useState(() => keptDraft(key) ?? '')
  const area = useRef<HTMLTextAreaElement>(null)
  const picker = useRef<HTMLInputElement>(null)
  const isRunning = conversation.active.value !== null
  const isWaiting = conversation.isWaiting.value
  const isEmpty = text.trim() === '' && uploads.list.value.length === 0

  // Again, when a server that was away is back.
  useEffect(loadChoices, [isAway.value])
  useEffect(() => {
    if (matchMedia('(pointer: fine)').matches) area.current?.focus()
  }, [])
  useEffect(() => {
    const box = area.current
    if (!box) return
    box.style.height = 'auto'
    box.style.height = `${Math.min(box.scrollHeight, innerHeight * 0.4)}px`
    keepDraft(key, text)
  }, [text])

  const recalled = conversation.queue.recalled.value
  useEffect(() => {
    if (!recalled) return
    conversation.queue.recalled.value = null
    setText((before) => [recalled.text, before].filter(Boolean).join('\n\n'))
    uploads.restore(recalled.extras)
    uploads.add(recalled.unloaded)
    area.current?.focus()
  }, [recalled])

  /** While a run is active: behind it, or to the agent at work. */
  const sendBeside = async (isForNow: boolean) => {
    if (isEmpty || uploads.isBusy) return
    const { done, unloaded } = uploads
    setText('')
    uploads.clear()
    await conversation.outbox.sendBeside(text.trim(), done, choice.value, isForNow, unloaded).catch((error) => {
      setText((later) => [text, later].filter(Boolean).join('\n\n'))
      uploads.restore(done)
      uploads.add(unloaded)
      notifyFailure(error)
    })
  }

  const send = async (isForNow = false) => {
    if (isRunning) return sendBeside(isForNow)
    if (isEmpty || isWaiting || uploads.isBusy) return
    let done: readonly Extra[] = []
    let unloaded: readonly File[] = []
    try {
      // Until then the text stays, and stays a draft.
      if (!(await conversation.isLoaded()) || uploads.isBusy) return
      // One is at work that this page did not know of.
      if (conversation.active.value !== null) return await sendBeside(isForNow)
      done = uploads.done
      unloaded = uploads.unloaded
      setText('')
      uploads.clear()
      const isNew = state.value === 'new'
      const sending = conversation.outbox.send(text.trim(), done, choice.value, unloaded)
      if (isNew) onSent()
      await sending
    } catch (error) {
      // Keep the text if the message was refused.
      setText(text)
      uploads.restore(done)
      uploads.add(unloaded)
      notifyFailure(error)
    }
  }

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
    event.preventDefault()
    void send(event.ctrlKey || event.metaKey)
  }

  const onPaste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])]
    if (files.length === 0) return
    event.preventDefault()
    uploads.add(files)
  }

  return html`<form class="composer" onSubmit=${(event: SubmitEvent) => {
    event.preventDefault()
    void send()
  }}>
    ${
      uploads.list.value.length > 0 &&
      html`<ul class="files">
        ${uploads.list.value.map(
          ({ id, name, size, progress, done, picture, isWaiting }) => html`<li key=${id}>
            <span><${Thumb} picture=${picture} /> ${name} ${size !== null && html`<small>${bytes(size)}</small>`}</span>
            ${isWaiting && html`<small>waits for the server</small>`}
            ${done === null && !isWaiting && html`<progress value=${progress} max="1" aria-label=${t('Uploading {}', name)}></progress>`}
            <button type="button" class="quiet" aria-label=${t('Remove {}', name)} onClick=${() => uploads.remove(id)}><${Icon} name="close" /></button>
          </li>`
        )}
      </ul>`
    }
    <textarea
      ref=${area}
      id="composer"
      dir="auto"
      rows="1"
      value=${text}
      readOnly=${isWaiting}
      placeholder=${isRunning ? t('Write what comes next') : t('Write a message')}
      aria-label="Message"
      onInput=${(event: InputEvent) => setText((event.currentTarget as HTMLTextAreaElement).value)}
      onKeyDown=${onKeyDown}
      onPaste=${onPaste}
    ></textarea>
    <div class="bar">
      <input ref=${picker} type="file" multiple hidden aria-label="Files" onChange=${() => {
        uploads.add(picker.current?.files ?? [])
        if (picker.current) picker.current.value = ''
      }} />
      <button type="button" class="quiet" title="Attach files" aria-label="Attach files" onClick=${() => picker.current?.click()}><${Icon} name="clip" /></button>
      <${Choices} />
      <span class="space"></span>
      ${
        isRunning
          ? html`${!isEmpty && html`<button class="round quietly" aria-label="Queue" title="Send after this answer (Enter); to the agent at work (Ctrl Enter)" disabled=${uploads.isBusy}><${Icon} name="send" /></button>`}
            <button type="button" class="round stop" aria-label="Stop" title="Stop (Esc)" onClick=${() => void conversation.stop()}><${Icon} name="stop" /></button>`
          : html`<button class="round" aria-label="Send" title="Send (Enter)" disabled=${isEmpty || isWaiting || uploads.isBusy}><${Icon} name="send" /></button>`
      }
    </div>
  </form>
  ${isPicking.value && html`<${Later} load=${skills} props=${{}} />`}`
}
