// The public door for embedders: start a gateway, and the interfaces a store or an agent of their own must meet.
export { type Agent, AgentError, type AgentInput, type Fact, type Piece, type Sink } from './agent/runtime.ts'
export { type Config, ConfigError, loadConfig } from './config.ts'
export { type Gateway, type GatewayParts, startGateway } from './gateway.ts'
export { LeaseLost, StoreUnavailable } from './store/store.ts'
export type * from './store/store.ts'
export type * from './types.ts'
