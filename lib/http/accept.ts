// The Accept header of a request: a list of media types in any case, each with a weight.

/** Whether Accept names this media type. A weight of 0 is a refusal. */
export function namesType(accept: string, type: string): boolean {
  return accept
    .toLowerCase()
    .split(',')
    .map((range) => range.split(';').map((part) => part.trim()))
    .some(([name, ...parameters]) => name === type && !parameters.some((one) => /^q=0(\.0*)?$/.test(one)))
}
