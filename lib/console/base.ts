// Where the gateway lies: below a path, where a proxy shows it there.

/** Its base path, '' at the root: that of this module, without the folder of its build. */
export const BASE = new URL('../../..', import.meta.url).pathname.replace(/\/+$/, '')
