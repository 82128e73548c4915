// A dialog above the page: the browser's own, which keeps the focus inside and closes on Escape.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { html, Icon } from './html.ts'
import { Toasts } from './toast.ts'

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly isWide?: boolean
  /** Without a head: its content says what it is. */
  readonly isBare?: boolean
  readonly children: ComponentChildren
}

export function Dialog({ title, onClose, isWide, isBare, children }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const opener = document.activeElement as HTMLElement | null
    const dialog = box.current
    dialog?.showModal()
    return () => {
      const { activeElement } = document
      // Who writes elsewhere already keeps the focus.
      if (activeElement === document.body || dialog?.contains(activeElement)) opener?.focus()
    }
  }, [])
  return html`<dialog
    ref=${box}
    class=${isWide ? 'wide' : ''}
    aria-label=${title}
    onClose=${onClose}
    onMouseDown=${(event: MouseEvent) => event.target === box.current && onClose()}
  >
    <div class="dialog">
      ${
        !isBare &&
        html`<header>
        <h2>${title}</h2>
        <button class="quiet" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
      </header>`
      }
      ${children}
    </div>
    <${Toasts} />
  </dialog>`
}
