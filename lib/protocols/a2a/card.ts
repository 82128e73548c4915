// The card of an agent (A2A): who it is, where it is reached, and with what credential.
import { VERSION } from '../../base/version.ts'
import { baseUrlOf } from '../../http/base-path.ts'
import type { Call } from '../../http/route.ts'
import type { Assistant } from '../../base/types.ts'

export const PROTOCOL_VERSION = '1.0'
const INPUTS = ['text/plain', 'application/json', 'image/png', 'image/jpeg', 'image/webp', 'image/gif']

export function cardOf(call: Call, { graph_id, name, description }: Assistant, publicUrl: string | null): object {
  const url = `${baseUrlOf(call, publicUrl)}/a2a/${encodeURIComponent(graph_id)}`
  const about = description || `Talks to the assistant ${name}`
  return {
    name,
    description: about,
    version: VERSION,
    supportedInterfaces: ['JSONRPC', 'HTTP+JSON'].map((protocolBinding) => ({
      url,
      protocolBinding,
      protocolVersion: PROTOCOL_VERSION
    })),
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: false },
    securitySchemes: { token: { httpAuthSecurityScheme: { scheme: 'Bearer', description: 'An API token' } } },
    securityRequirements: [{ schemes: { token: { list: [] } } }],
    defaultInputModes: INPUTS,
    defaultOutputModes: ['text/plain', 'application/json'],
    skills: [{ id: graph_id, name, description: about, tags: ['chat'] }]
  }
}
