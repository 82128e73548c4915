// The page's words in the language of its reader. Its templates are English; another language is a file of words, which is loaded on need.

type Words = Readonly<Record<string, string>>

/** Languages of which there is a file, as they call themselves. */
export const LANGUAGES = { en: 'English', de: 'Deutsch', zh: '中文' } as const
type Language = keyof typeof LANGUAGES

const KEY = 'colloquy.language'
const isLanguage = (text: string | null | undefined): text is Language => !!text && Object.hasOwn(LANGUAGES, text)

/** Words of the page, and sentences that its server says. */
const FILES: Readonly<
  Record<Exclude<Language, 'en'>, () => Promise<[{ readonly WORDS: Words }, { readonly SENTENCES: Words }]>>
> = {
  de: () => Promise.all([import('./words-de.ts'), import('./sentences-de.ts')]),
  zh: () => Promise.all([import('./words-zh.ts'), import('./sentences-zh.ts')])
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
let sentences: Words = {}

/** Loads the words of the reader's language; without them the page is English. */
export async function loadWords(): Promise<void> {
  if (language === 'en') return
  const files = await FILES[language]().catch(() => null)
  if (!files) return
  words = files[0].WORDS
  sentences = files[1].SENTENCES
  document.documentElement.lang = language
}

/** Has the service worker keep the words, which the page has loaded before there was one. */
export async function keepWords(): Promise<void> {
  if (language === 'en') return
  await navigator.serviceWorker.ready
  for (const name of ['words', 'sentences'])
    await fetch(new URL(`${name}-${language}.js`, import.meta.url)).catch(() => {})
}

/** Shows the page in another language from now on. */
export function setLanguage(next: string): void {
  localStorage.setItem(KEY, next)
  // What is being written stays.
  location.reload()
}

/** English words in the reader's language, with what stands at each `{}`. */
export const t = (english: string, ...given: readonly unknown[]): string => filled(words?.[english] ?? english, given)

function filled(text: string, given: readonly unknown[]): string {
  let at = 0
  return text.replaceAll('{}', () => String(given[at++]))
}

/** A sentence of the server in the reader's language, with what it names; one that is not known there stays as it is. */
export function serverWords(english: string): string {
  for (const [known, text] of Object.entries(sentences)) {
    const parts = known.split('{}').map((part) => part.replace(/[.*+?^$()|[\]\\]/g, '\\$&'))
    const [whole, ...given] = new RegExp(`^${parts.join('(.+)')}$`).exec(english) ?? []
    if (whole !== undefined) return filled(text, given)
  }
  return t(english)
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
