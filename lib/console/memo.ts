// A view that is drawn again only when something that it is given is another.
import { Component, type ComponentChildren, h } from 'preact'

export function memo<Props extends object>(view: (props: Props) => ComponentChildren) {
  return class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      const names = new Set([...Object.keys(next), ...Object.keys(this.props)]) as Set<keyof Props>
      return [...names].some((name) => !isSame(next[name], this.props[name]))
    }
    override render(props: Props): ComponentChildren {
      return h(view as never, props as never)
    }
  }
}

/** Lists are compared by item, because they are created for every render. */
function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, i) => one === b[i])
  return a === b
}
