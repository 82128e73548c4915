// A view whose module is loaded when it is opened.
import type { FunctionComponent } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { html } from './html.ts'
import { notifyFailure } from './toast.ts'

type Loaded = FunctionComponent<never>
/** Always the same function for the same view. */
type Load = () => Promise<{ readonly View: unknown }>

/** How long until a view that could not be loaded is tried again, in ms. */
const AGAIN_MS = 3000

/** Views that are here are drawn at once. */
const here = new Map<Load, Loaded>()

/** A view, once its module is here; it is loaded when it is wanted. */
export function useLater(load: Load, isWanted: boolean): Loaded | null {
  const [, redraw] = useState(0)
  useEffect(() => {
    if (!isWanted || here.has(load)) return
    let isGone = false
    const come = (): Promise<void> =>
      load().then(({ View }) => {
        // Of a module that is named by who uses it.
        here.set(load, View as Loaded)
        redraw((count) => count + 1)
      })
    const again = () => {
      if (!isGone) setTimeout(() => void come().catch(again), AGAIN_MS)
    }
    come().catch((error) => {
      // The network is away; or after a deploy the file has another name.
      notifyFailure(error)
      again()
    })
    return () => {
      isGone = true
    }
  }, [load, isWanted])
  return here.get(load) ?? null
}

interface LaterProps {
  readonly load: Load
  readonly props: object
  /** What stands there until then. */
  readonly meanwhile?: unknown
}

export function Later({ load, props, meanwhile = null }: LaterProps) {
  const View = useLater(load, true)
  return View ? html`<${View} ...${props} />` : meanwhile
}
