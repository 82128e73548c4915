// Tool servers: configuration and status. Only administrators may change them, because a stdio server is a command that runs
// with our rights [needs N20, contract 6.5].
import { actorOf } from '../auth/audit.ts'
import * as v from 'valibot'
import type { JsonObject } from '../base/types.ts'
import { type CommandPolicy, isWebAddress, type McpServerConfigs, problemOf } from '../agent/mcp/command-policy.ts'
import { masked, problemOfMasks, unmasked } from '../agent/mcp/secrets.ts'
import { fail } from '../base/errors.ts'
import type { ExtensionsFile } from '../files/extensions.ts'
import { type Call, type Reply, type Route, route } from '../http/route.ts'
import { fewKeys, integer, listOf, objectOf } from '../http/schema.ts'
import { one, ref } from './answers.ts'
import type { Services } from './services.ts'

const text = v.nullish(v.string(), null)
const ARGS_MAX = 256
const texts = v.nullish(v.pipe(fewKeys(ARGS_MAX), v.record(v.string(), v.string())), {})

const OAuth = objectOf({
  enabled: v.nullish(v.boolean(), true),
  token_url: v.pipe(v.string(), v.check(isWebAddress, 'must be an address that begins with http:// or https://')),
  grant_type: v.nullish(v.picklist(['client_credentials', 'refresh_token']), 'client_credentials'),
  client_id: text,
  client_secret: text,
  refresh_token: text,
  scope: text,
  audience: text,
  token_field: v.nullish(v.string(), 'access_token'),
  token_type_field: v.nullish(v.string(), 'token_type'),
  expires_in_field: v.nullish(v.string(), 'expires_in'),
  default_token_type: v.nullish(v.string(), 'Bearer'),
  refresh_skew_seconds: v.nullish(integer({ min: 0, max: 86_400 }), 60),
  extra_token_params: texts
})

const Server = objectOf({
  enabled: v.nullish(v.boolean(), true),
  type: v.nullish(v.picklist(['stdio', 'sse', 'http']), 'stdio'),
  command: text,
  args: v.nullish(listOf(v.string(), ARGS_MAX), []),
  env: texts,
  url: text,
  headers: texts,
  oauth: v.nullish(OAuth, null),
  description: v.nullish(v.string(), '')
})

const SERVERS_MAX = 100
/** Enough for a hundred servers with headers and environments. */
const BODY_BYTES = 512 * 1024
const NAME = /^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$/

const Body = objectOf({
  mcp_servers: v.pipe(
    fewKeys(SERVERS_MAX),
    v.transform((servers): Record<string, unknown> => servers),
    v.record(v.pipe(v.string(), v.regex(NAME)), Server)
  )
})
const Switch = objectOf({ server_name: v.string(), enabled: v.boolean() })

type McpServices = Pick<Services, 'config' | 'extensions' | 'toolServers' | 'log' | 'audit'>

export function mcpRoutes({ config, extensions, toolServers, log, audit }: McpServices): Route[] {
  const policy = commandPolicy(config)

  const view = (file: ExtensionsFile): Reply => {
    const servers = Object.entries(serversIn(file.mcpServers)).map(
      ([name, server]) => [name, { ...masked(server), status: toolServers.status(name) }] as const
    )
    return { json: { mcp_servers: Object.fromEntries(servers) } }
  }

  /** For everybody else: names and states only, because commands and addresses may contain secrets. */
  const outline = (file: ExtensionsFile): Reply => {
    const servers = Object.entries(serversIn(file.mcpServers)).map(
      ([name, { enabled, type, description }]) =>
        [name, { enabled, type, description, status: { state: toolServers.status(name).state } }] as const
    )
    return { json: { mcp_servers: Object.fromEntries(servers) } }
  }

  const changed = async (call: Call, change: (before: McpServerConfigs) => McpServerConfigs): Promise<Reply> => {
    const file = await extensions.change((before) => ({
      ...before,
      mcpServers: toJson(change(serversIn(before.mcpServers)))
    }))
    toolServers.configure(storedServers(file, policy, log))
    await audit.record('tool_servers', actorOf(call), null, { servers: Object.keys(file.mcpServers) })
    return view(file)
  }

  const replace = async (call: Call<v.InferOutput<typeof Body>>): Promise<Reply> => {
    return changed(call, (before) => {
      const after = Object.entries(call.body.mcp_servers).map(([name, given]) => {
        const known = Object.hasOwn(before, name) ? before[name] : undefined
        const server = unmasked(given, known)
        const reason = problemOfMasks(given, known) ?? problemOf(server, policy)
        if (reason !== null) throw fail('tool_server_invalid', { name, reason })
        return [name, server] as const
      })
      return Object.fromEntries(after)
    })
  }

  const toggle = async (call: Call<v.InferOutput<typeof Switch>>): Promise<Reply> => {
    const { server_name: name, enabled } = call.body
    return changed(call, (before) => {
      const server = Object.hasOwn(before, name) ? before[name] : undefined
      if (!server) throw fail('tool_server_not_found', { name })
      return { ...before, [name]: { ...server, enabled } }
    })
  }

  const path = '/api/mcp/config'
  const servers = { rule: null, answers: one(ref('ToolServers')) } as const
  const changing = { ...servers, admin: true } as const
  return [
    route({
      ...servers,
      method: 'GET',
      path,
      summary: 'Tool servers with their states; for administrators also their configuration, with secrets masked',
      handler: async ({ user }) => {
        await toolServers.refresh()
        const file = await extensions.read()
        return user?.system_role === 'admin' ? view(file) : outline(file)
      }
    }),
    route({
      ...changing,
      method: 'PUT',
      path,
      body: Body,
      bodyLimit: BODY_BYTES,
      summary: 'Replace the tool servers; administrators only',
      handler: replace
    }),
    route({
      ...changing,
      method: 'PATCH',
      path,
      body: Switch,
      summary: 'Enable or disable a tool server; administrators only',
      refusals: [404],
      handler: toggle
    }),
    route({
      ...changing,
      method: 'POST',
      path: '/api/mcp/cache/reset',
      summary: 'Reconnect all tool servers; administrators only',
      handler: async () => {
        const file = await extensions.read()
        toolServers.configure({})
        toolServers.configure(storedServers(file, policy, log))
        return view(file)
      }
    })
  ]
}

export function commandPolicy({ mcp }: Services['config']): CommandPolicy {
  return { launchers: mcp.stdio_commands, variables: mcp.env_allowed }
}

/**
 * The servers of the file that may be started. The file may have been edited by hand: invalid entries are skipped, entries
 * that the policy does not allow are logged.
 */
export function storedServers(file: ExtensionsFile, policy: CommandPolicy, log: Services['log']): McpServerConfigs {
  const allowed = Object.entries(serversIn(file.mcpServers)).filter(([name, server]) => {
    const reason = problemOf(server, policy)
    if (reason !== null && server.enabled) log.warn({ server: name, reason }, 'a tool server is not started')
    return reason === null
  })
  return Object.fromEntries(allowed)
}

/** Servers as they are kept; what is none is left out. */
export function serversIn(mcpServers: JsonObject): McpServerConfigs {
  const servers = Object.entries(mcpServers).flatMap(([name, server]) => {
    const result = v.safeParse(Server, server)
    return result.success ? [[name, result.output] as const] : []
  })
  return Object.fromEntries(servers)
}

function toJson(servers: McpServerConfigs): ExtensionsFile['mcpServers'] {
  // Texts, numbers and booleans alone: it is JSON.
  return servers as unknown as ExtensionsFile['mcpServers']
}
