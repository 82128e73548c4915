// Times and amounts as people read them.
import { locale, t } from './words.ts'

export function ago(iso: string, now = Date.now()): string {
  const minutes = Math.round((now - Date.parse(iso)) / 60_000)
  if (minutes < 1) return t('now')
  if (minutes < 60) return `${minutes} min`
  if (minutes < 24 * 60) return `${Math.round(minutes / 60)} h`
  const date = new Date(iso)
  const isThisYear = date.getFullYear() === new Date(now).getFullYear()
  return date.toLocaleDateString(locale(), { day: 'numeric', month: 'short', ...(!isThisYear && { year: 'numeric' }) })
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`
}

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`
  if (count < 1024 ** 2) return `${(count / 1024).toFixed(1)} KB`
  if (count < 1024 ** 3) return `${(count / 1024 ** 2).toFixed(1)} MB`
  return `${(count / 1024 ** 3).toFixed(2)} GB`
}

export const count = (n: number): string => n.toLocaleString(locale())

/** The day of a list's heading: today, yesterday, this week, or a month. */
export function dayOf(iso: string, now = new Date()): string {
  const date = new Date(iso)
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime()
  const days = Math.ceil((midnight - date.getTime()) / 86_400_000)
  if (days <= 0) return t('Today')
  if (days === 1) return t('Yesterday')
  if (days <= 7) return t('Previous 7 days')
  if (days <= 30) return t('Previous 30 days')
  return date.toLocaleDateString(locale(), { month: 'long', year: 'numeric' })
}

/** The time of a day. */
export const clock = (iso: string): string =>
  new Date(iso).toLocaleTimeString(locale(), { hour: '2-digit', minute: '2-digit' })
