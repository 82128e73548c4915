// The dialog in which one picks the skills that the agent has from the next message on.
import { isPicking, pickedSkills, pickSkill, skills } from './choice.ts'
import { Dialog } from './dialog.ts'
import { html } from './html.ts'

export function View() {
  const onClose = () => {
    isPicking.value = false
  }
  const isChosen = (name: string) => pickedSkills.value.includes(name)
  const onChange = (name: string) => (event: Event) =>
    pickSkill(name, (event.currentTarget as HTMLInputElement).checked)
  return html`<${Dialog} title="Skills" onClose=${onClose}>
    <p class="hint">Without a choice the agent has all of them.</p>
    <ul class="tokens">
      ${skills.value.map(
        ({ name, description }) => html`<li key=${name}>
          <div>
            <label class="check"><input type="checkbox" aria-describedby=${`skill-${name}`} checked=${isChosen(name)} onChange=${onChange(name)} /> <b>${name}</b></label>
            <small id=${`skill-${name}`}>${description}</small>
          </div>
        </li>`
      )}
    </ul>
  <//>`
}
