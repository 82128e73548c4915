// HTML templates, and helpers every view needs.
import { type ComponentChildren, h } from 'preact'
import htm from 'htm'
import { localized } from './words.ts'

const made = htm.bind(h) as (strings: TemplateStringsArray, ...values: unknown[]) => ComponentChildren

/** A template of the page; its own words are shown in the reader's language. */
export function html(strings: TemplateStringsArray, ...values: unknown[]): ComponentChildren {
  return made(localized(strings), ...values)
}

/** Brings the focus to the composer, from controls that go away. */
export function focusComposer(): void {
  document.getElementById('composer')?.focus()
}

/** Joins the class names that apply. */
export function classes(...names: (string | false | null | undefined)[]): string {
  return names.filter(Boolean).join(' ')
}

/** SVG paths of 24 by 24, drawn as lines. */
const ICONS = {
  plus: 'M12 5v14M5 12h14',
  search: 'M11 19a8 8 0 1 1 0-16 8 8 0 0 1 0 16zm10 2-4.3-4.3',
  send: 'M12 19V5m-6 6 6-6 6 6',
  stop: 'M7 7h10v10H7z',
  play: 'M8 5v14l11-7z',
  pin: 'M12 17v5M9 3h6l-1 6 3 3v2H7v-2l3-3z',
  pen: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  bin: 'M4 7h16M9 7V4h6v3m-8 0 1 13h8l1-13M10 11v6m4-6v6',
  menu: 'M4 7h16M4 12h16M4 17h16',
  close: 'M6 6l12 12M18 6 6 18',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'm5 12 5 5 9-10',
  retry: 'M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6',
  up: 'M7 11v9H4v-9zm0 0 4-8a2.5 2.5 0 0 1 2.4 3L13 9h5.5a2 2 0 0 1 2 2.4l-1.3 7A2 2 0 0 1 17.200 20H7',
  down: 'M17 13V4h3v9zm0 0-4 8a2.500 2.500 0 0 1-2.400-3L11 15H5.500a2 2 0 0 1-2-2.400l1.300-7A2 2 0 0 1 6.800 4H17',
  left: 'm14 6-6 6 6 6',
  right: 'm10 6 6 6-6 6',
  fold: 'm8 10 4 4 4-4',
  clip: 'm20 11-8.500 8.500a5 5 0 0 1-7-7L13 4a3.500 3.500 0 0 1 5 5l-8.500 8.500a1.800 1.800 0 0 1-2.500-2.500L15 7',
  file: 'M6 3h8l5 5v13H6zM14 3v5h5',
  user: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21a8 8 0 0 1 16 0',
  key: 'M8 19a4 4 0 1 1 3.500-6H21v3h-2v3h-3v-3h-4.500A4 4 0 0 1 8 19z',
  out: 'M14 4h5v16h-5M10 8l-4 4 4 4m-4-4h10',
  gauge: 'M4 18a9 9 0 1 1 16 0M12 14l4-5',
  pulse: 'M3 12h4l3-8 4 16 3-8h4',
  tool: 'M14 6a4 4 0 0 1 5-1l-3 3 1 2 2 1 3-3a4 4 0 0 1-6 5l-7 7a2 2 0 0 1-3-3l7-7a4 4 0 0 1 1-4z',
  bulb: 'M9 18h6m-5 3h4M8 14a6 6 0 1 1 8 0c-1 1-1 2-1 2H9s0-1-1-2z',
  more: 'M6 12h.01M12 12h.01M18 12h.01',
  open: 'M14 4h6v6m0-6-9 9M18 14v6H4V6h6',
  save: 'M12 4v11m-5-5 5 5 5-5M5 20h14',
  queue: 'M4 6h16M4 12h10M4 18h6M17 14v7m-3.5-3.500h7',
  ask: 'M4 5h16v11h-9l-5 4v-4H4zM9.500 9.200a2.500 2.500 0 1 1 2.500 2.800m0 2h.01',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2m0 16v2M2 12h2m16 0h2M5 5l1.400 1.400M17.600 17.600 19 19M5 19l1.400-1.400M17.600 6.400 19 5',
  box: 'M4 4h16v5H4zM6 9v11h12V9m-8 4h4',
  dot: 'M12 11h.01',
  moon: 'M20 14A8.500 8.500 0 1 1 10 4a7 7 0 0 0 10 10z'
} as const
type IconName = keyof typeof ICONS

export function Icon({ name }: { readonly name: IconName }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`
}

/** A file as it looks; `picture`: its address, null where there is none. */
export function Thumb({ picture }: { readonly picture: string | null }) {
  return picture === null
    ? html`<${Icon} name="file" />`
    : html`<img class="thumb" src=${picture} alt="" loading="lazy" />`
}
