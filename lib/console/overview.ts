// placeholder
export function View() {
  return null
}
