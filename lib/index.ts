// The public API for embedders: starting a gateway, and the interfaces of custom stores and agents.
export { type AgentDefinition, type AgentWork, defineAgent, type Yielded } from './agent/define.ts'
export {
  type Agent,
  AgentError,
  type AgentInput,
  type AgentRecord,
  type Sink,
  type StreamPart
} from './agent/runtime.ts'
export { type Config, ConfigError, loadConfig } from './config/config.ts'
export { type Gateway, type GatewayParts, startGateway } from './gateway.ts'
export { markedMetadata } from './store/event-query.ts'
export { checkpointOfUpdate } from './store/sql/checkpoints.ts'
export { LeaseLost, StoreUnavailable } from './store/store.ts'
export type * from './store/store.ts'
export type * from './base/accounts.ts'
export type * from './base/types.ts'
