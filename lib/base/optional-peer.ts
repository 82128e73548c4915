// Packages that only some need: whoever asks for what they do is told their names, where they are missing.

/**
 * @param load imports the package
 * @param asker what of the configuration needs it
 * @param wanted the package as `npm install` takes it
 * @throws Error in one sentence when it is missing
 */
export async function optionalPeer<T>(load: () => Promise<T>, asker: string, wanted: string): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    const name = wanted.slice(0, wanted.lastIndexOf('@'))
    throw new Error(`${asker} needs the package ${name}: npm install ${wanted}`, { cause })
  }
}
