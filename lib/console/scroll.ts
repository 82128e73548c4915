// Where a long conversation is scrolled, of which only what is near is drawn.
import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { html } from './html.ts'

const MARGIN_PX = 1200
/** Estimated height per message of a group not rendered yet. */
const GUESS_PX = 140
const NEAR_END_PX = 80

interface GroupProps {
  readonly size: number
  readonly isDrawn: boolean
  readonly render: () => ComponentChildren
}

/** `isDrawn`: render at once, because it is at the end of the conversation. */
export function Group({ size, isDrawn, render }: GroupProps) {
  const box = useRef<HTMLDivElement>(null)
  const [isNear, setNear] = useState(isDrawn)
  const height = useRef(size * GUESS_PX)
  useEffect(() => {
    const root = box.current!.closest('.scroller')
    const watcher = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return
        if (!entry.isIntersecting && entry.boundingClientRect.height > 0)
          height.current = entry.boundingClientRect.height
        setNear(entry.isIntersecting)
      },
      { root, rootMargin: `${MARGIN_PX}px 0px` }
    )
    watcher.observe(box.current!)
    return () => watcher.disconnect()
  }, [])
  const shown = isNear || isDrawn
  useLayoutEffect(() => {
    box.current!.style.height = shown ? '' : `${height.current}px`
  }, [shown])
  return html`<div class="group" ref=${box}>${shown ? render() : null}</div>`
}

/** Heights settle when what is near has been drawn, in ms. */
const SETTLED_MS = 300

/** Shows the message that an address names, once its conversation is there. */
export function useWanted(messageId: string | null, isThere: boolean, toEnd: () => void): void {
  useEffect(() => {
    if (messageId === null || !isThere) return
    const show = () => {
      const message = document.querySelector(`[data-message="${CSS.escape(messageId)}"]`)
      // Of a branch that is not shown, or of what was taken back.
      if (!message) return toEnd()
      message.scrollIntoView({ block: 'center' })
      message.classList.add('wanted')
    }
    const frame = requestAnimationFrame(show)
    const timer = setTimeout(show, SETTLED_MS)
    return () => {
      cancelAnimationFrame(frame)
      clearTimeout(timer)
    }
  }, [messageId, isThere])
}

/** Follows the end while the reader is there. @returns whether the end is out of view, and a function to scroll there */
export function useEnd(
  box: RefObject<HTMLElement | null>,
  changed: unknown,
  wantedId: string | null
): { isAway: boolean; toEnd: () => void } {
  const isAtEnd = useRef(true)
  // Who is led to a message is not at the end.
  useLayoutEffect(() => {
    if (wantedId !== null) isAtEnd.current = false
  }, [wantedId])
  const [isAway, setAway] = useState(false)
  const toEnd = () => {
    const { current } = box
    if (current) current.scrollTop = current.scrollHeight
  }
  useEffect(() => {
    const root = box.current!
    let lastTop = 0
    const onScroll = () => {
      const { scrollTop, scrollHeight, clientHeight } = root
      const isNear = scrollHeight - scrollTop - clientHeight < NEAR_END_PX
      // Growing content moves the end away without scrolling.
      if (isNear || scrollTop < lastTop) isAtEnd.current = isNear
      lastTop = scrollTop
      setAway(!isAtEnd.current)
    }
    const sizes = new ResizeObserver(() => isAtEnd.current && toEnd())
    root.addEventListener('scroll', onScroll, { passive: true })
    if (root.firstElementChild) sizes.observe(root.firstElementChild)
    return () => {
      root.removeEventListener('scroll', onScroll)
      sizes.disconnect()
    }
  }, [])
  useLayoutEffect(() => {
    if (isAtEnd.current) toEnd()
  }, [changed])
  return { isAway, toEnd }
}
