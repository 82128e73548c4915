// A POST to a model server, by node:http and not by fetch: its answer comes as `data` events, in which everything up to the log is
// done in the turn the bytes came, while fetch hands each chunk through a web stream and half a dozen promises.
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'

/**
 * Sends it; answers when the head of the answer is there. No redirect is followed: the key would go along.
 * @throws Error of the connection, or after an abort
 */
export async function post(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal
): Promise<IncomingMessage> {
  try {
    return await send(url, headers, body, signal)
  } catch (error) {
    // A kept connection that the server was just closing: it has not seen the request.
    if (!(error instanceof Stale)) throw error
    return send(url, headers, body, signal)
  }
}

/** The connection had been used before and broke before anything came. */
class Stale extends Error {}

function send(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal
): Promise<IncomingMessage> {
  const request = url.startsWith('https:') ? httpsRequest : httpRequest
  const length = Buffer.byteLength(body)
  return new Promise((resolve, reject) => {
    const asked: ClientRequest = request(
      url,
      { method: 'POST', headers: { ...headers, 'user-agent': 'colloquy', 'content-length': length }, signal },
      resolve
    )
    asked.setNoDelay(true)
    // After the head is there this is heard by nobody; the answer tells it as well.
    asked.on('error', (error) => {
      const wasClosed = 'code' in error && error.code === 'ECONNRESET'
      reject(asked.reusedSocket && wasClosed && !signal.aborted ? new Stale() : error)
    })
    asked.end(body)
  })
}
