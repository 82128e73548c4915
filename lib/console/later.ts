// A view whose module is loaded when it is opened.
import type { FunctionComponent } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { html } from './html.ts'
import { notifyFailure } from './toast.ts'

interface LaterProps {
  /** Always the same function for the same view. */
  readonly load: () => Promise<{ readonly View: unknown }>
  readonly props: object
  /** What stands there until then. */
  readonly meanwhile?: unknown
}

export function Later({ load, props, meanwhile = null }: LaterProps) {
  const [view, setView] = useState<{ View: FunctionComponent<never> } | null>(null)
  useEffect(() => {
    load().then(
      ({ View }) => setView({ View: View as FunctionComponent<never> }),
      // After a deploy the file has another name.
      notifyFailure
    )
  }, [load])
  return view ? html`<${view.View} ...${props} />` : meanwhile
}
