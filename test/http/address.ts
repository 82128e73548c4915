// Whose address counts [Auth 9].
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { Proxies } from '../../lib/http/address.ts'

const from = (remoteAddress: string | undefined, headers: Record<string, string> = {}) => {
  // The two things of a request that an address depends on.
  return { headers, socket: { remoteAddress } } as unknown as IncomingMessage
}
const real = { 'x-real-ip': '203.0.113.7' }
const proxies = (...entries: string[]) => new Proxies(entries, () => {})
const trusts = (entry: string, peer: string) => proxies(entry).addressOf(from(peer, real)) === '203.0.113.7'

t.test('[Auth 9] without trusted proxies X-Real-IP is ignored', async (t) => {
  t.equal(proxies().addressOf(from('127.0.0.1', real)), '127.0.0.1')
})

t.test('[Auth 9] X-Real-IP counts from a trusted peer and from no other', async (t) => {
  const some = proxies('10.0.0.0/8')
  t.equal(some.addressOf(from('10.1.2.3', real)), '203.0.113.7')
  t.equal(some.addressOf(from('11.1.2.3', real)), '11.1.2.3')
  t.equal(some.addressOf(from('10.1.2.3', { 'x-real-ip': '  ' })), '10.1.2.3')
})

t.test('[Auth 9] X-Forwarded-For never counts', async (t) => {
  t.equal(proxies('10.0.0.0/8').addressOf(from('10.1.2.3', { 'x-forwarded-for': '203.0.113.7' })), '10.1.2.3')
})

t.test('[Auth 9] entries are addresses and ranges of both versions, host bits allowed', async (t) => {
  t.ok(trusts('10.1.2.3', '10.1.2.3'))
  t.notOk(trusts('10.1.2.3', '10.1.2.4'))
  t.ok(trusts('10.1.2.3/8', '10.200.0.1'))
  t.ok(trusts('0.0.0.0/0', '198.51.100.1'))
  t.ok(trusts('10.0.0.5/32', '10.0.0.5'))
  t.ok(trusts('2001:db8::1/32', '2001:db8:ffff::2'))
  t.notOk(trusts('2001:db8::/32', '2001:db9::1'))
  t.ok(trusts('::1', '::1'))
  t.notOk(trusts('0.0.0.0/0', '::1'))
})

t.test('[Auth 9] a version 4 address in version 6 dress is the version 4 address', async (t) => {
  t.ok(trusts('10.0.0.0/8', '::ffff:10.1.2.3'))
  t.ok(trusts('::ffff:10.0.0.0/104', '10.1.2.3'))
  t.ok(trusts('::ffff:10.1.2.3', '::FFFF:10.1.2.3'))
  t.equal(proxies().addressOf(from('::ffff:192.0.2.1')), '192.0.2.1')
})

t.test('a zone is no part of an address', async (t) => {
  t.ok(trusts('fe80::1', 'fe80::1%eth0'))
  t.ok(trusts('fe80::1%eth0', 'fe80::1%eth1'))
})

t.test('[Auth 9] a bad entry is skipped with a warning and the others hold', async (t) => {
  const warnings: string[] = []
  const bad = [
    'not-an-address',
    '300.1.2.3/40',
    '10.0.0.0/33',
    '10.0.0.0/8/8',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '::/129',
    '/8',
    '10.0.0.0/1e1'
  ]
  const some = new Proxies([...bad, ' 127.0.0.1/32 ', ''], (message) => warnings.push(message))
  t.equal(warnings.length, bad.length)
  t.match(warnings[0], /not-an-address/)
  t.equal(some.addressOf(from('127.0.0.1', real)), '203.0.113.7')
  t.equal(some.addressOf(from('10.0.0.1', real)), '10.0.0.1')
})

t.test('a connection without a peer is unknown', async (t) => {
  t.equal(proxies('0.0.0.0/0').addressOf(from(undefined, real)), 'unknown')
})

t.test('a trusted proxy that names no client speaks for itself', async (t) => {
  const some = proxies('127.0.0.1')
  t.equal(some.allowanceOf(from('127.0.0.1')), null)
  t.equal(some.allowanceOf(from('127.0.0.1', real)), '203.0.113.7')
  t.equal(some.allowanceOf(from('127.0.0.2')), '127.0.0.2')
  t.equal(proxies().allowanceOf(from('127.0.0.1')), '127.0.0.1')
})

t.test('a browser and a server on one machine are two; elsewhere nobody is two by what he says', async (t) => {
  const page = { 'sec-fetch-site': 'same-origin' }
  t.equal(proxies().allowanceOf(from('127.0.0.1', page)), '127.0.0.1 browser')
  t.equal(proxies().allowanceOf(from('::1', page)), '::1 browser')
  t.equal(proxies().allowanceOf(from('203.0.113.9', page)), '203.0.113.9')
  t.equal(proxies('10.0.0.1').allowanceOf(from('10.0.0.1', { ...real, ...page })), '203.0.113.7 browser')
})

t.test('https is what a trusted proxy says first; another one is not believed, and named once', async (t) => {
  const warnings: string[] = []
  const some = new Proxies(['127.0.0.1'], (message) => warnings.push(message))
  const says = (proto: string, peer = '127.0.0.1') => some.isSecure(from(peer, { 'x-forwarded-proto': proto }))
  t.equal(some.isSecure(from('127.0.0.1')), false)
  t.ok(says('https'))
  t.ok(says('HTTPS, http'))
  t.notOk(says('http, https'))
  t.strictSame(warnings, [])
  for (let i = 0; i < 3; i++) t.notOk(says('https', '127.0.0.2'))
  t.match(warnings, [/127\.0\.0\.2/])
  t.equal(warnings.length, 1)
})

t.test('an endless X-Real-IP is cut, so that it fills no table', async (t) => {
  t.equal(proxies('127.0.0.1').addressOf(from('127.0.0.1', { 'x-real-ip': 'x'.repeat(8_000) })).length, 64)
})

t.test('with trusted_hops X-Forwarded-For counts from the right, and X-Real-IP no more', async (t) => {
  const hops = (count: number) => new Proxies(['10.0.0.0/8'], () => {}, count)
  const asked = (list: string) => from('10.0.0.1', { 'x-forwarded-for': list, 'x-real-ip': '6.6.6.6' })
  t.equal(hops(1).addressOf(asked('6.6.6.6, 203.0.113.7')), '203.0.113.7')
  t.equal(hops(2).addressOf(asked('6.6.6.6,203.0.113.7 , 10.0.0.2')), '203.0.113.7')
  t.equal(hops(1).addressOf(asked('203.0.113.7:4711')), '203.0.113.7')
  t.equal(hops(1).addressOf(asked('[2001:db8::1]:4711')), '2001:db8::1')
  t.equal(hops(1).addressOf(asked('::ffff:203.0.113.7')), '203.0.113.7')
  for (const list of ['', 'unknown', '6.6.6.6,', '6.6.6.6, nobody'])
    t.equal(hops(1).addressOf(asked(list)), '10.0.0.1', list)
  t.equal(hops(3).addressOf(asked('6.6.6.6, 203.0.113.7')), '10.0.0.1', 'fewer have added to it')
  t.equal(hops(1).addressOf(from('11.0.0.1', { 'x-forwarded-for': '6.6.6.6' })), '11.0.0.1', 'of a stranger')
  t.equal(hops(1).allowanceOf(from('10.0.0.1', { 'x-real-ip': '6.6.6.6' })), null)
})
