// The words: names that this code does not use, because the field has better ones, are no longer the name of a type, a class, a
// function, a method, a private field or a file. What each is called instead stands beside it.
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Of files, without ending. */
const FILES: Readonly<Record<string, string>> = {
  census: 'budget',
  companion: 'markdown-copy',
  drains: 'committer',
  elsewhere: 'remote-runs',
  ending: 'run-end',
  extent: 'sse',
  followers: 'peer-subscriptions',
  giant: 'oversized',
  grace: 'disconnect-timer',
  intake: 'upload-receiver',
  lanes: 'run-queues',
  leash: 'process-group',
  luggage: 'pending-checkpoint',
  'open-answer': 'streaming-response',
  pace: 'pacer',
  parcel: 'batch-codec',
  patrol: 'credential-revalidator',
  probe: 'write-health-check',
  pulse: 'health-poll',
  recall: 'memory-prompt',
  screen: 'command-policy',
  shelf: 'thread-index-cache',
  speech: 'message-streams',
  tally: 'counters',
  translation: 'event-mapper',
  trouble: 'sqlstate',
  turns: 'keyed-mutex',
  wanted: 'run-kwargs',
  weight: 'estimate-bytes',
  whole: 'atomic-write or oversized-reader',
  within: 'with-timeout'
}

/** Of what is declared. */
const NAMES: Readonly<Record<string, string>> = {
  Account: 'Recorder',
  AgentWorld: 'AgentServices',
  aside: 'completeOnce',
  Asking: 'RequestOptions',
  attend: 'trackWaiter',
  Belonging: 'ThreadOwned',
  Broken: 'ConnectionLost',
  Census: 'Budget',
  Clearing: 'ThreadDrain',
  clearings: 'threadDrains',
  Counts: 'TotalsCache',
  crowd: 'burst',
  Drains: 'Committer.drained',
  Elsewhere: 'RemoteRuns',
  elsewhere: 'remoteRuns',
  Ending: 'RunEnd',
  endSomehow: 'recoverOrFail',
  Extent: 'LogBounds',
  Fact: 'AgentRecord',
  failingClearly: 'mapWriteErrors',
  Feed: 'EventStreamParser',
  Flight: 'InFlightBatch',
  foldTail: 'rebuildPartial',
  Followers: 'PeerSubscriptions',
  followers: 'subscriptions',
  Gate: 'ConcurrencyLimit',
  Grace: 'DisconnectTimer',
  handover: 'recorder',
  Handover: 'Recorder',
  hurry: 'promoteDue',
  insist: 'resend',
  Intake: 'UploadReceiver',
  isEcho: 'isAbortedTransaction',
  Joining: 'JoinRequest',
  landed: 'acknowledge',
  Lane: 'RunQueue',
  Lanes: 'RunQueues',
  lanes: 'queues',
  leash: 'processGroup',
  Leaving: 'CloseReason',
  likeForeign: 'hideExistence',
  LongReply: 'DeferredJson',
  lookAgain: 'revalidate',
  Luggage: 'pendingGraphCheckpoint',
  luggage: 'pendingGraphCheckpoint',
  Mark: 'GraphCheckpointRef',
  Order: 'GraphInput',
  Parcel: 'batchCodec',
  Patience: 'WaitForStore',
  Patrol: 'CredentialRevalidator',
  Piece: 'StreamPart',
  placeOf: 'resolvePosition',
  Probe: 'WriteHealthCheck',
  Question: 'ModelCall or UserInterrupt',
  Reads: 'SegmentCache',
  refuseNew: 'drain',
  RemoteRun: 'RunReplica',
  RunAccess: 'MiddlewareContext',
  sayAndLinger: 'lingeringClose',
  Setback: 'RetryableError',
  Shelf: 'ThreadIndexCache',
  Slices: 'SliceCache',
  Speech: 'MessageStreams',
  Spread: 'Buckets',
  Standing: 'RunLocation',
  States: 'StateCache',
  storable: 'encodeText',
  Stretch: 'FrameRange',
  Translation: 'GraphEventMapper',
  untold: 'pendingAcks',
  Watch: 'IdleTimeout',
  watchRoutes: 'metricsRoutes',
  Wire: 'StreamWriter',
  Wish: 'PendingCancel or ReadControl',
  wishes: 'pendingCancels',
  within: 'with-timeout'
}

/** Where such a word is the plain one for something else. */
const PLAIN: Readonly<Record<string, readonly string[]>> = {
  'lib/console/account.ts': ['Account'],
  'lib/console/records.ts': ['Question']
}

function sources(folder: string): string[] {
  const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
  return names.filter((name) => name.endsWith('.ts')).map((name) => join(folder, name))
}

/** Whatever a reader has to learn by its name; not parameters, local variables, and members of plain data. */
function isTaught(node: ts.Node): boolean {
  if (ts.isPropertyDeclaration(node)) return ts.isPrivateIdentifier(node.name)
  return (
    ts.isClassDeclaration(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isFunctionDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isMethodSignature(node) ||
    ts.isGetAccessorDeclaration(node)
  )
}

function namesIn(file: string): string[] {
  const source = ts.createSourceFile(file, readFileSync(join(ROOT, file), 'utf8'), ts.ScriptTarget.Latest)
  const found: string[] = []
  const visit = (node: ts.Node): void => {
    // All of the kinds above are declarations that may have a name.
    if (isTaught(node)) found.push((node as ts.ClassDeclaration).name?.text?.replace('#', '') ?? '')
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

function wordsIn(file: string): string[] {
  const refused = (names: readonly string[], table: Readonly<Record<string, string>>) =>
    names
      .filter((name) => Object.hasOwn(table, name) && !PLAIN[file]?.includes(name))
      .map((name) => `${file}: ${name}, say ${table[name]}`)
  return [...refused([basename(file, '.ts')], FILES), ...refused(namesIn(file), NAMES)]
}

for (const folder of ['lib', 'bin', 'test', 'bench']) {
  t.test(`no file and no declaration of ${folder}/ is named by a word that the field does not use`, async (t) => {
    t.strictSame(sources(folder).flatMap(wordsIn), [])
  })
}
