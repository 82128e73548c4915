// Light or dark: as the system is, or as its user has chosen in this browser.
import { computed, signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'colloquy.theme'
const isTheme = (text: string | null): text is 'light' | 'dark' => text === 'light' || text === 'dark'

const kept = localStorage.getItem(KEY)
export const theme = signal<Theme>(isTheme(kept) ? kept : 'system')

export function setTheme(next: Theme): void {
  theme.value = next
  if (next === 'system') localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, next)
  show()
}

const system = matchMedia('(prefers-color-scheme: dark)')
const isSystemDark = signal(system.matches)
system.addEventListener('change', ({ matches }) => {
  isSystemDark.value = matches
})

/** Whether the page is dark now: what is drawn by colors of its own, and not by styles, is drawn again when it changes. */
export const isDark = computed(() => (theme.value === 'system' ? isSystemDark.value : theme.value === 'dark'))

function show(): void {
  document.documentElement.dataset.theme = theme.value
}

show()
// Another tab has changed it.
addEventListener('storage', ({ key, newValue }) => {
  if (key !== KEY) return
  theme.value = isTheme(newValue) ? newValue : 'system'
  show()
})
