// Times, durations and amounts (bytes, counts) as people read them.
import { locale, t } from './words.ts'

export function ago(iso: string, now = Date.now()): string {
  const minutes = Math.round((now - Date.parse(iso)) / 60_000)
  if (minutes < 1) return t('now')
  if (minutes < 60) return t('{} min', minutes)
  const hours = Math.round(minutes / 60)
  if (hours < 24) return t('{} h', hours)
  const date = new Date(iso)
  const isThisYear = date.getFullYear() === new Date(now).getFullYear()
  return date.toLocaleDateString(locale(), { day: 'numeric', month: 'short', ...(!isThisYear && { year: 'numeric' }) })
}

/** Rounded before its unit is chosen: otherwise there would be 60 seconds beside a minute. */
const tenths = (value: number): number => Math.round(value * 10) / 10
/** With the reader's decimal sign. */
const decimal = (value: number, digits: number): string =>
  value.toLocaleString(locale(), { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false })

export function duration(ms: number): string {
  if (Math.round(ms) < 1000) return t('{} ms', Math.round(ms))
  if (tenths(ms / 1000) < 60) return t('{} s', decimal(ms / 1000, 1))
  const seconds = Math.round(ms / 1000)
  if (seconds % 60 === 0) return t('{} min', seconds / 60)
  return t('{} min {} s', Math.floor(seconds / 60), seconds % 60)
}

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`
  if (tenths(count / 1024) < 1024) return `${decimal(count / 1024, 1)} KB`
  if (tenths(count / 1024 ** 2) < 1024) return `${decimal(count / 1024 ** 2, 1)} MB`
  return `${decimal(count / 1024 ** 3, 2)} GB`
}

export const count = (n: number): string => n.toLocaleString(locale())

/** The number of a day in the reader's calendar: of one with 25 hours too, it is one more than that of the day before. */
const dayNumber = (date: Date): number => Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) / 86_400_000

/** The day of a list's heading: today, yesterday, this week, or a month. */
export function dayOf(iso: string, now = new Date()): string {
  const date = new Date(iso)
  const days = dayNumber(now) - dayNumber(date)
  if (days <= 0) return t('Today')
  if (days === 1) return t('Yesterday')
  if (days <= 7) return t('Previous 7 days')
  if (days <= 30) return t('Previous 30 days')
  return date.toLocaleDateString(locale(), { month: 'long', year: 'numeric' })
}

/** The time of a day. */
export const clock = (iso: string): string =>
  new Date(iso).toLocaleTimeString(locale(), { hour: '2-digit', minute: '2-digit' })
