// Entry point of the page.
import { render } from 'preact'
import { spoken } from './announce.ts'
import { html } from './html.ts'
import { Shell } from './shell.ts'
import { SignIn } from './sign-in.ts'
import { begin, stage } from './session.ts'
import { Toasts } from './toast.ts'

function Page() {
  return html`<${View} />
    <${Toasts} />
    <div class="spoken" aria-live="polite" role="log">${spoken.value}</div>`
}

function View() {
  switch (stage.value) {
    case 'loading':
      // What the page says by itself until its modules are here.
      return html`<p class="first">Colloquy</p>`
    case 'unreachable':
      return html`<main class="door"><div class="card"><h1>The server does not answer</h1><p class="lead">It may be starting, or you are offline.</p><button class="primary wide" onClick=${() => void begin()}>Try again</button></div></main>`
    case 'setup':
    case 'out':
      return html`<${SignIn} />`
    case 'in':
      return html`<${Shell} />`
  }
}

render(html`<${Page} />`, document.getElementById('app')!)
void begin()
