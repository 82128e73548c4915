// Listening on a configured address, and what to do when that fails.
import type { HttpServer } from './server.ts'

const PROBLEMS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process listens there, take another port or end it',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'there is no such name',
  EAI_AGAIN: 'the name cannot be looked up',
  EACCES: 'ports below 1024 need more rights'
}

/**
 * Starts a server; returns its URL. `section`: where the configuration has the address.
 * @throws Error that names the address and its options
 */
export async function listen(
  server: HttpServer,
  section: string,
  { host, port }: { readonly host: string; readonly port: number }
): Promise<string> {
  try {
    return (await server.listen(port, host)).url
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    const problem = PROBLEMS[code] ?? 'it cannot be listened on'
    const options = `${section}.host, ${section}.port`
    throw new Error(`The address ${host}:${port} (${options}) cannot be used: ${problem} (${code})`, { cause: error })
  }
}
