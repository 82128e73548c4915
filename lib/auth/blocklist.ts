// Common passwords [Auth 8]: 36 entries in lower case, all long enough to pass the length rule.
export const COMMON_PASSWORDS: readonly string[] = `
  password password1 password12 password123 password1234 12345678 123456789 1234567890 qwerty12 qwertyui qwerty123
  abc12345 abcd1234 iloveyou letmein1 welcome1 welcome123 admin123 administrator passw0rd p@ssw0rd monkey12
  trustno1 sunshine princess football baseball superman batman123 starwars dragon123 master123 shadow12 michael1
  jennifer computer
`
  .trim()
  .split(/\s+/)

const COMMON: ReadonlySet<string> = new Set(COMMON_PASSWORDS)

/** Case-insensitive. Nothing else is normalised. */
export function isCommon(password: string): boolean {
  return COMMON.has(password.toLowerCase())
}
