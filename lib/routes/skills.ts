// Skills: everybody can list them; only administrators may change them, because they reach every user's model [contract 6.7].
import * as v from 'valibot'
import { fail } from '../base/errors.ts'
import { ArchiveError } from '../files/archive.ts'
import { PathError } from '../files/paths.ts'
import { type Call, type Reply, route, type Route, type UserCall } from '../http/route.ts'
import { integer, objectOf } from '../http/schema.ts'
import { type Skill, SkillError } from '../skills/skills.ts'
import { arrayOf, one, oneOf, ref, shaped, success, text, yesNo } from './answers.ts'
import type { Services } from './services.ts'

/** Size of a request with a skill's text. */
const CONTENT_BYTES = 1024 * 1024

const Enabled = objectOf({ enabled: v.boolean() })
const Install = objectOf({ thread_id: v.string(), path: v.string() })
const Content = objectOf({ content: v.string() })
const Rollback = objectOf({ history_index: v.optional(integer(), -1) })

export function skillRoutes({ skills, paths }: Pick<Services, 'skills' | 'paths'>): Route[] {
  const custom = async (name: string): Promise<Skill & { content: string }> => {
    const [skill, content] = await Promise.all([skills.get(name), skills.content(name)])
    if (skill?.category !== 'custom' || content === null) throw fail('skill_not_found', { name })
    return { ...skill, content }
  }

  const enable = async ({ params, body }: Call<v.InferOutput<typeof Enabled>>): Promise<Reply> => {
    const name = params.skill_name!
    return { json: view(there(name, await skills.enable(name, body.enabled))) }
  }

  const install = async (call: UserCall<v.InferOutput<typeof Install>>): Promise<Reply> => {
    const { thread_id, path } = call.body
    try {
      const archive = await paths.locate(path, thread_id, call.user.id)
      const skill = await skills.install(archive)
      if (!skill) throw fail('skill_exists')
      return { json: { success: true, skill_name: skill.name, message: `Skill '${skill.name}' installed` } }
    } catch (error) {
      if (error instanceof PathError && error.problem === 'missing') throw fail('skill_file_not_found', { path })
      if (error instanceof PathError) throw fail('skill_invalid', { reason: error.message })
      throw refused(error)
    }
  }

  const edit = async ({ params, body }: Call<v.InferOutput<typeof Content>>): Promise<Reply> => {
    const name = params.skill_name!
    there(name, await skills.edit(name, body.content).catch(refused))
    return { json: customView(await custom(name)) }
  }

  const history = async ({ params }: Call): Promise<Reply> => {
    const name = params.skill_name!
    return { json: { history: there(name, await skills.history(name)) } }
  }

  const rollback = async ({ params, body }: Call<v.InferOutput<typeof Rollback>>): Promise<Reply> => {
    const name = params.skill_name!
    const edit = there(name, await skills.history(name)).at(body.history_index)
    if (!edit) throw fail('skill_invalid', { reason: 'There is no such entry in its history' })
    await skills.edit(name, edit.content, 'rollback')
    return { json: customView(await custom(name)) }
  }

  const remove = async ({ params }: Call): Promise<Reply> => {
    there(params.skill_name!, await skills.remove(params.skill_name!))
    return { json: { success: true } }
  }

  const get = async ({ params }: Call): Promise<Reply> => {
    const name = params.skill_name!
    return { json: view(there(name, await skills.get(name))) }
  }

  const listed = async (): Promise<Reply> => ({ json: { skills: (await skills.list()).map(view) } })
  const listedCustom = async (): Promise<Reply> => {
    const all = await skills.list()
    return { json: { skills: all.filter(({ category }) => category === 'custom').map(view) } }
  }
  const getCustom = async ({ params }: Call): Promise<Reply> => ({ json: customView(await custom(params.skill_name!)) })

  const all = '/api/skills'
  const installed = `${all}/custom/{skill_name}`
  const reading = { method: 'GET', rule: null } as const
  const changing = { admin: true, rule: null } as const
  const list = one(shaped({ skills: arrayOf(ref('Skill')) }))
  const skill = one(ref('Skill'))
  const edits = arrayOf(shaped({ edited_at: text, action: oneOf('edit', 'rollback'), content: text }))
  return [
    route({ ...reading, path: all, summary: 'List skills', answers: list, handler: listed }),
    // Skills are never cached; this is for clients that expect a cache.
    route({
      ...changing,
      method: 'POST',
      path: `${all}/reload`,
      summary: 'List skills, read from disk again; administrators only',
      answers: list,
      handler: listed
    }),
    route({
      ...changing,
      method: 'POST',
      path: `${all}/install`,
      body: Install,
      summary: 'Install a skill from an archive in a thread; administrators only',
      answers: one(shaped({ success: yesNo, skill_name: text, message: text })),
      refusals: [404, 409],
      handler: install
    }),
    route({
      ...reading,
      path: `${all}/custom`,
      summary: 'List the skills that were installed here',
      answers: list,
      handler: listedCustom
    }),
    route({
      ...reading,
      path: installed,
      summary: 'An installed skill with its text',
      answers: skill,
      handler: getCustom
    }),
    route({
      ...changing,
      method: 'PUT',
      path: installed,
      body: Content,
      bodyLimit: CONTENT_BYTES,
      summary: 'Edit the text of a skill; administrators only',
      answers: skill,
      handler: edit
    }),
    route({
      ...changing,
      method: 'DELETE',
      path: installed,
      summary: 'Delete a skill; administrators only',
      answers: success,
      handler: remove
    }),
    route({
      ...reading,
      path: `${installed}/history`,
      summary: 'Earlier texts of a skill',
      answers: one(shaped({ history: edits })),
      handler: history
    }),
    route({
      ...changing,
      method: 'POST',
      path: `${installed}/rollback`,
      body: Rollback,
      bodyOptional: true,
      summary: 'Restore an earlier text of a skill; administrators only',
      answers: skill,
      handler: rollback
    }),
    route({ ...reading, path: `${all}/{skill_name}`, summary: 'A skill', answers: skill, handler: get }),
    route({
      ...changing,
      method: 'PUT',
      path: `${all}/{skill_name}`,
      body: Enabled,
      summary: 'Enable or disable a skill; administrators only',
      answers: skill,
      handler: enable
    })
  ]
}

/** @throws Failure skill_not_found if nothing was found */
function there<T>(name: string, found: T | null | false): T {
  if (!found) throw fail('skill_not_found', { name })
  return found
}

function view({ name, description, license, category, enabled }: Skill) {
  return { name, description, license, category, enabled, editable: category === 'custom' }
}

function customView(skill: Skill & { content: string }) {
  return { ...view(skill), content: skill.content }
}

/** @throws Failure for an invalid skill or archive, else the error itself */
function refused(error: unknown): never {
  if (error instanceof SkillError || error instanceof ArchiveError)
    throw fail('skill_invalid', { reason: error.message })
  throw error
}
