// Sends mails through the server at `mail.url`, and checks it, by the optional package nodemailer: one connection a mail, each step with
// a timeout.
import { optionalPeer } from '../base/optional-peer.ts'
import { unlessAborted } from '../base/waiting.ts'
import type { Mail } from './password-mails.ts'

/** Of each step: connecting, the greeting, an answer. */
const TIMEOUT_MS = 10_000

/** @throws Error in one sentence when the optional package is missing */
export const loadMailer = () => optionalPeer(() => import('nodemailer'), 'mail.url', 'nodemailer@10')

interface MailServerOptions {
  readonly url: string
  readonly from: string
}

/** Who sends mails: as configured, or a name at the address of the service. */
export function senderOf({
  mail,
  server
}: {
  readonly mail: { readonly from: string | null }
  readonly server: { readonly public_url: string | null }
}): string {
  return (
    mail.from ?? `Colloquy <colloquy@${server.public_url === null ? 'localhost' : new URL(server.public_url).hostname}>`
  )
}

async function openTransport({ url, from }: MailServerOptions) {
  const { createTransport } = await loadMailer()
  const timeouts = { connectionTimeout: TIMEOUT_MS, greetingTimeout: TIMEOUT_MS, socketTimeout: TIMEOUT_MS }
  return createTransport({ url, ...timeouts, disableFileAccess: true, disableUrlAccess: true }, { from })
}

/** @throws Error when the server has not taken it; without words of the server, which may repeat what it was sent */
export async function sendMail(options: MailServerOptions, mail: Mail, signal: AbortSignal): Promise<void> {
  const transport = await openTransport(options)
  const { to: address, subject, text } = mail
  // The address as it is: read as a list, one could name several people.
  const to = { name: '', address }
  const headers = { 'Auto-Submitted': 'auto-generated' }
  await unlessAborted(transport.sendMail({ to, subject, text, headers }), signal).catch(refused)
}

/** Connects, and signs in. @throws Error as sendMail */
export async function checkMailServer(options: MailServerOptions): Promise<void> {
  const transport = await openTransport(options)
  await transport.verify().catch(refused)
}

function refused(error: unknown): never {
  const { code, responseCode } = (error ?? {}) as { readonly code?: unknown; readonly responseCode?: unknown }
  const known = [code, responseCode].filter((part) => typeof part === 'string' || typeof part === 'number')
  throw new Error(`the mail server has not taken it (${known.join(' ') || 'no answer'})`)
}
