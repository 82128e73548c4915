// What the next message is for: the model, the assistant and the skills that its writer has chosen.
import { computed, signal } from '@preact/signals'
import { call } from './api.ts'
import { html } from './html.ts'
import { t } from './words.ts'

export interface Choice {
  readonly model: string | null
  readonly assistant: string | null
  /** How much the model is to think; null: as it does. */
  readonly effort: string | null
  /** Names of those that the agent is to have; none: as it does. */
  readonly skills?: readonly string[]
}

interface Option {
  readonly id: string
  readonly name: string
  readonly description: string | null
  readonly thinks?: boolean
}

interface Model {
  readonly name: string
  readonly display_name: string | null
  readonly description?: string | null
  readonly supports_reasoning_effort?: boolean
}

interface Assistant {
  readonly assistant_id: string
  readonly name: string
  readonly description?: string | null
}

interface Skill {
  readonly name: string
  readonly description: string
  readonly enabled: boolean
}

const MODEL_KEY = 'colloquy.model'
const ASSISTANT_KEY = 'colloquy.assistant'
const EFFORT_KEY = 'colloquy.effort'
const SKILLS_KEY = 'colloquy.skills'
/** Assistants to choose from. */
const LISTED = 100

const models = signal<readonly Option[]>([])
const assistants = signal<readonly Option[]>([])
const model = signal(localStorage.getItem(MODEL_KEY))
const assistant = signal(localStorage.getItem(ASSISTANT_KEY))
const effort = signal(localStorage.getItem(EFFORT_KEY))
export const skills = signal<readonly Skill[]>([])
/** Their names have no spaces. */
const picked = signal(localStorage.getItem(SKILLS_KEY)?.split(' ') ?? [])
export const pickedSkills = computed(() =>
  skills.value.map(({ name }) => name).filter((name) => picked.value.includes(name))
)
/** Whether they are being chosen. */
export const isPicking = signal(false)
let isAsked = false

/** Chosen, and still there: without a choice the installation decides. */
const chosenOf = (options: readonly Option[], id: string | null) =>
  options.length > 1 && options.some((one) => one.id === id) ? id : null
const canThink = computed(() => (models.value.find(({ id }) => id === model.value) ?? models.value[0])?.thinks === true)
const efforts = (): readonly Option[] =>
  [
    ['', t('Thinks as ever')],
    ['low', t('Thinks little')],
    ['medium', t('Thinks more')],
    ['high', t('Thinks most')]
  ].map(([id = '', name = '']) => ({ id, name, description: null }))
export const choice = computed<Choice>(() => ({
  model: chosenOf(models.value, model.value),
  assistant: chosenOf(assistants.value, assistant.value),
  effort: (canThink.value && effort.value) || null,
  skills: pickedSkills.value
}))

/** The choice as members of a new run. */
export function membersOf({ model, assistant, effort, skills = [] }: Choice): object {
  const isNarrow = skills.length > 0
  const context = {
    ...(model && { model_name: model }),
    ...(effort && { reasoning_effort: effort }),
    ...(isNarrow && { skills })
  }
  return { ...((model || effort || isNarrow) && { context }), ...(assistant && { assistant_id: assistant }) }
}

/** Has the agent have a skill from the next message on, or no longer; the first one takes away those that are not chosen. */
export function pickSkill(name: string, isPicked: boolean): void {
  const others = picked.value.filter((one) => one !== name)
  picked.value = isPicked ? [...others, name] : others
  localStorage.setItem(SKILLS_KEY, picked.value.join(' '))
}

/** Asks once what there is to choose from. */
export function loadChoices(): void {
  if (isAsked) return
  isAsked = true
  const missing = () => {
    isAsked = false
  }
  call<{ models: Model[] }>('GET', '/api/models').then(({ models: all }) => {
    models.value = all.map(({ name, display_name, description, supports_reasoning_effort: thinks = false }) => ({
      id: name,
      name: display_name ?? name,
      description: description ?? null,
      thinks
    }))
  }, missing)
  call<{ skills: Skill[] }>('GET', '/api/skills').then(({ skills: all }) => {
    skills.value = all.filter(({ enabled }) => enabled)
  }, missing)
  call<Assistant[]>('POST', '/api/assistants/search', { limit: LISTED }).then((all) => {
    assistants.value = all.map(({ assistant_id, name, description }) => ({
      id: assistant_id,
      name,
      description: description ?? null
    }))
  }, missing)
}

interface PickProps {
  readonly label: string
  readonly options: readonly Option[]
  readonly chosen: string | null
  readonly onChoose: (id: string) => void
}

function Pick({ label, options, chosen, onChoose }: PickProps) {
  if (options.length < 2) return null
  const current = options.find(({ id }) => id === chosen) ?? options[0]!
  return html`<select aria-label=${label} title=${current.description ?? label} value=${current.id} onChange=${(
    event: Event
  ) => onChoose((event.currentTarget as HTMLSelectElement).value)}>
    ${options.map(({ id, name, description }) => html`<option key=${id} value=${id} title=${description ?? ''}>${name}</option>`)}
  </select>`
}

/** What there is to choose, if there is more than one of it. */
export function Choices() {
  const [only] = models.value
  return html`<${Pick} label="Assistant" options=${assistants.value} chosen=${assistant.value} onChoose=${(
    id: string
  ) => {
    localStorage.setItem(ASSISTANT_KEY, id)
    assistant.value = id
  }} />
  <${Pick} label="Model" options=${models.value} chosen=${model.value} onChoose=${(id: string) => {
    localStorage.setItem(MODEL_KEY, id)
    model.value = id
  }} />
  ${
    canThink.value &&
    html`<${Pick} label="Thinking" options=${efforts()} chosen=${effort.value} onChoose=${(id: string) => {
      localStorage.setItem(EFFORT_KEY, id)
      effort.value = id
    }} />`
  }
  ${
    skills.value.length > 0 &&
    html`<button type="button" class="pick" title="Which skills the agent has" onClick=${() => {
      isPicking.value = true
    }}>Skills ${pickedSkills.value.length || ''}</button>`
  }
  ${models.value.length === 1 && html`<small class="model">${only!.name}</small>`}`
}
