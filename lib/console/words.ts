// The page's words in the language of its reader. Its templates are English; another language is a file of words, which is loaded on need.

type Words = Readonly<Record<string, string>>

/** Languages of which there is a file, as they call themselves. */
export const LANGUAGES = { en: 'English', de: 'Deutsch', zh: '中文' } as const
type Language = keyof typeof LANGUAGES

const KEY = 'colloquy.language'
const isLanguage = (text: string | null | undefined): text is Language => !!text && Object.hasOwn(LANGUAGES, text)

const FILES: Readonly<Record<Exclude<Language, 'en'>, () => Promise<{ readonly WORDS: Words }>>> = {
  de: () => import('./words-de.ts'),
  zh: () => import('./words-zh.ts')
}

function preferred(): Language {
  const chosen = localStorage.getItem(KEY)
  if (isLanguage(chosen)) return chosen
  return navigator.languages.map((one) => one.split('-')[0]).find(isLanguage) ?? 'en'
}

export const language = preferred()
/** How dates and numbers are written: as this browser does, where its language is shown. */
export const locale = (): string | undefined => (navigator.language.startsWith(language) ? undefined : language)
let words: Words | null = null

/** Loads the words of the reader's language; without them the page is English. */
export async function loadWords(): Promise<void> {
  if (language === 'en') return
  words = await FILES[language]().then(
    ({ WORDS }) => WORDS,
    () => null
  )
  if (words) document.documentElement.lang = language
}

/** Has the service worker keep the words, which the page has loaded before there was one. */
export async function keepWords(): Promise<void> {
  if (language === 'en') return
  await navigator.serviceWorker.ready
  await fetch(new URL(`words-${language}.js`, import.meta.url)).catch(() => {})
}

/** Shows the page in another language from now on. */
export function setLanguage(next: string): void {
  localStorage.setItem(KEY, next)
  // What is being written stays.
  location.reload()
}

/** English words in the reader's language, with what stands at each `{}`. */
export function t(english: string, ...given: readonly unknown[]): string {
  let at = 0
  return (words?.[english] ?? english).replaceAll('{}', () => String(given[at++]))
}

/** Stands where a value stands; no text of ours has it. */
const HOLE = '\uE000'
const TEXT = /(^|>)([^<]+)(?=<|$)/g
const ATTRIBUTE = /(\s(?:aria-label|title|placeholder|label|alt)=")([^"\uE000]+)(?=")/g
const translated = new Map<TemplateStringsArray, TemplateStringsArray>()

/** A template whose own words are in the reader's language. */
export function localized(strings: TemplateStringsArray): TemplateStringsArray {
  if (!words) return strings
  const known = translated.get(strings)
  if (known) return known
  const inWords = (text: string) => text.replace(/[^\uE000]+/g, (part) => part.replace(/\S[\s\S]*\S|\S/, phrase))
  const parts = strings
    .join(HOLE)
    .replace(TEXT, (_, before: string, text: string) => before + inWords(text))
    .replace(ATTRIBUTE, (_, before: string, text: string) => before + t(text))
    .split(HOLE)
  // Templates are told apart by their parts alone.
  const made = parts as unknown as TemplateStringsArray
  translated.set(strings, made)
  return made
}

const phrase = (text: string): string => t(text.replace(/\s+/g, ' '))
