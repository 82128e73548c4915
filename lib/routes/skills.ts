// Skills: listed for everybody, added and changed by administrators [contract 6.7].
import * as v from 'valibot'
import { fail } from '../errors.ts'
import { ArchiveError } from '../files/archive.ts'
import { PathError } from '../files/paths.ts'
import type { Call, Reply } from '../http/call.ts'
import { requireAdmin, requireUser } from '../http/guards.ts'
import { type Route, route } from '../http/route.ts'
import { integer, objectOf } from '../http/schema.ts'
import { type Skill, SkillError } from '../skills/skill.ts'
import type { Services } from './services.ts'

/** Of a skill's text, in the form of JSON. */
const CONTENT_BYTES = 1024 * 1024

const Enabled = objectOf({ enabled: v.boolean() })
const Install = objectOf({ thread_id: v.string(), path: v.string() })
const Content = objectOf({ content: v.string() })
const Rollback = objectOf({ history_index: v.optional(integer(), -1) })

export function skillRoutes({ skills, paths }: Pick<Services, 'skills' | 'paths'>): Route[] {
  const found = async (name: string): Promise<Skill> => {
    const skill = await skills.get(name)
    if (!skill) throw fail('skill_not_found', { name })
    return skill
  }
  const custom = async (name: string): Promise<Skill & { content: string }> => {
    const [skill, content] = await Promise.all([skills.get(name), skills.content(name)])
    if (skill?.category !== 'custom' || content === null) throw fail('skill_not_found', { name })
    return { ...skill, content }
  }

  const enable = async ({ params, body }: Call<v.InferOutput<typeof Enabled>>): Promise<Reply> => {
    const skill = await skills.enable(params.skill_name!, body.enabled)
    if (!skill) throw fail('skill_not_found', { name: params.skill_name! })
    return { json: view(skill) }
  }

  const install = async (call: Call<v.InferOutput<typeof Install>>): Promise<Reply> => {
    const { thread_id, path } = call.body
    try {
      const archive = await paths.locate(path, thread_id, requireUser(call).id)
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
    const isEdited = await skills.edit(name, body.content).catch(refused)
    if (!isEdited) throw fail('skill_not_found', { name })
    return { json: customView(await custom(name)) }
  }

  const history = async ({ params }: Call): Promise<Reply> => {
    const edits = await skills.history(params.skill_name!)
    if (!edits) throw fail('skill_not_found', { name: params.skill_name! })
    return { json: { history: edits } }
  }

  const rollback = async ({ params, body }: Call<v.InferOutput<typeof Rollback>>): Promise<Reply> => {
    const name = params.skill_name!
    const edits = await skills.history(name)
    if (!edits) throw fail('skill_not_found', { name })
    const edit = edits.at(body.history_index)
    if (!edit) throw fail('skill_invalid', { reason: 'There is no such entry in its history' })
    await skills.edit(name, edit.content, 'rollback')
    return { json: customView(await custom(name)) }
  }

  const remove = async ({ params }: Call): Promise<Reply> => {
    if (!(await skills.remove(params.skill_name!))) throw fail('skill_not_found', { name: params.skill_name! })
    return { json: { success: true } }
  }

  const listed = async () => ({ json: { skills: (await skills.list()).map(view) } })
  const one = '/api/skills/custom/{skill_name}'
  return [
    route({ method: 'GET', path: '/api/skills', access: 'user', handler: listed }),
    // Folders are read at every call: this one is for clients that know caches.
    route({ method: 'POST', path: '/api/skills/reload', access: 'user', handler: byAdmin(listed) }),
    route({ method: 'POST', path: '/api/skills/install', access: 'user', body: Install, handler: byAdmin(install) }),
    route({
      method: 'GET',
      path: '/api/skills/custom',
      access: 'user',
      handler: async () => ({
        json: { skills: (await skills.list()).filter(({ category }) => category === 'custom').map(view) }
      })
    }),
    route({
      method: 'GET',
      path: one,
      access: 'user',
      handler: async ({ params }) => ({ json: customView(await custom(params.skill_name!)) })
    }),
    route({
      method: 'PUT',
      path: one,
      access: 'user',
      body: Content,
      bodyLimit: CONTENT_BYTES,
      handler: byAdmin(edit)
    }),
    route({ method: 'DELETE', path: one, access: 'user', handler: byAdmin(remove) }),
    route({ method: 'GET', path: `${one}/history`, access: 'user', handler: history }),
    route({
      method: 'POST',
      path: `${one}/rollback`,
      access: 'user',
      body: Rollback,
      bodyOptional: true,
      handler: byAdmin(rollback)
    }),
    route({
      method: 'GET',
      path: '/api/skills/{skill_name}',
      access: 'user',
      handler: async ({ params }) => ({ json: view(await found(params.skill_name!)) })
    }),
    route({ method: 'PUT', path: '/api/skills/{skill_name}', access: 'user', body: Enabled, handler: byAdmin(enable) })
  ]
}

/** Skills reach every user's model: who may add one decides for all. */
function byAdmin<Body>(handler: (call: Call<Body>) => Promise<Reply>): (call: Call<Body>) => Promise<Reply> {
  return (call) => {
    requireAdmin(call)
    return handler(call)
  }
}

function view({ name, description, license, category, enabled }: Skill) {
  return { name, description, license, category, enabled, editable: category === 'custom' }
}

function customView(skill: Skill & { content: string }) {
  return { ...view(skill), content: skill.content }
}

/** @throws Failure for what is wrong with a skill or its archive, else the error itself */
function refused(error: unknown): never {
  if (error instanceof SkillError || error instanceof ArchiveError)
    throw fail('skill_invalid', { reason: error.message })
  throw error
}
