// The dialog that lists the page's keys.
import { Dialog } from './dialog.ts'
import { html } from './html.ts'
import { t } from './words.ts'

const keys = (): readonly (readonly [string, string])[] => [
  ['Enter', t('send; during an answer: queue')],
  ['Ctrl Enter', t('tell the agent at work')],
  ['Shift Enter', t('new line')],
  ['Esc', t('stop the answer')],
  ['Ctrl K', t('search, and commands')],
  ['Ctrl Shift O', t('new conversation')],
  ['Alt ↑ ↓', t('previous and next conversation')],
  ['/', t('write')],
  ['?', t('this list')]
]

export function View({ onClose }: { readonly onClose: () => void }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <dl class="keys">${keys().map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
  <//>`
}
