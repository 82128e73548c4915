// The logger that graphs get from `getLogger` of LangGraph's SDK: it writes to our log.

const GLOBAL = Symbol.for('langgraph.api.sdk-logger')
/** Levels of winston, whose interface it has. */
const QUIET = ['verbose', 'debug', 'silly']
const TOLD = ['help', 'data', 'info', 'prompt', 'http', 'input']

type Told = (fields: object, message: string) => void
type Say = (message: unknown, ...more: unknown[]) => object

/** One per process, as in LangGraph; the last registration wins. */
export function registerSdkLogger(log: { readonly info: Told; readonly warn: Told; readonly error: Told }): void {
  const logger: Record<string, Say> = {}
  const level =
    (tell: Told): Say =>
    (message, ...more) => {
      const fields = [message, ...more].filter((one) => typeof one === 'object' && one !== null)
      tell(Object.assign({}, ...fields), typeof message === 'string' ? message : 'a graph')
      return logger
    }
  for (const name of QUIET) logger[name] = () => logger
  for (const name of TOLD) logger[name] = level((fields, message) => log.info(fields, message))
  logger.warn = level((fields, message) => log.warn(fields, message))
  logger.error = level((fields, message) => log.error(fields, message))
  Object.assign(globalThis, { [GLOBAL]: logger })
}
