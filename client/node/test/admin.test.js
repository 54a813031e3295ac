// SPDX-License-Identifier: MIT
// What administrators ask, with the real daemon.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDaemon } from './daemon.js';

const root = process.getuid() === 0;
const UID = 4321;

async function readAll(stream) {
  const buffers = [];
  for await (const data of stream) {
    buffers.push(data);
  }
  return Buffer.concat(buffers);
}

// An administrator, and somebody who has one conversation.
async function startWithUser(t) {
  const daemon = await startDaemon(t);
  const [admin, user] = await Promise.all([daemon.connect(), daemon.connect({ actFor: { uid: UID, tenant: 'pat' } })]);
  t.after(() => Promise.all([admin.disconnect(), user.disconnect()]));
  await user.open({ name: 'mine' });
  await user.continue('mine', { message: 'Hello!', sampling: { temperature: 0 }, maxTokens: 5 }).done();
  return [admin, user];
}

test('who acts for another is no administrator, and is told so', async (t) => {
  const client = await (await startDaemon(t)).connect({ actFor: { uid: process.getuid(), tenant: 'pat' } });
  t.after(() => client.disconnect());
  const asks = [
    client.settings(), client.users(), client.actOnUser({ uid: UID, act: 'cancel' }), client.drain(),
    readAll(client.backup()), client.quota({ subject: { uid: UID } }),
  ];
  await Promise.all(asks.map((asked) => assert.rejects(asked, { code: 'permission', retry: false })));
});

test('an administrator looks at settings and users', { skip: !root && 'this is not root' }, async (t) => {
  const [admin, user] = await startWithUser(t);
  const { settings, startedUsec } = await admin.settings();
  const setting = (name) => settings.find((one) => one.name === name);
  assert.deepEqual([setting('pool-size').value, setting('pool-size').origin], ['64M', 'command line']);
  assert.deepEqual([setting('model').origin, setting('model').reloadable], ['command line', false]);
  assert(settings.every(({ pending }) => pending === undefined));
  assert(Math.abs(Number(startedUsec) / 1000 - Date.now()) < 3_600_000);

  const { users, more } = await admin.users({ order: 'conversations' });
  assert(!more);
  assert.deepEqual([users[0].uid, users[0].tenant, users[0].conversations, users[0].requests], [UID, 'pat', 1n, 0n]);
  assert.equal(users[0].tokens, users[0].tokensPrefilled + users[0].tokensDecoded);
  assert.equal(users[0].connections, 1n);
  assert.deepEqual((await admin.users({ uid: UID })).users.map(({ uid }) => uid), [UID]);
  assert.equal((await admin.users({ limit: 1 })).more, true);
  const first = await admin.users({ limit: 1 });
  const second = await admin.users({ limit: 1, cursor: first.cursor });
  assert.notDeepEqual(first.users[0].uid, second.users[0].uid);
  await assert.rejects(user.users(), { code: 'permission' });
  await assert.rejects(admin.users({ order: 'weight' }), /users\.order must be one of owner, conversations/);
});

test('an administrator backs up, drains, and ends what a user has', { skip: !root && 'this is not root' }, async (t) => {
  const [admin, user] = await startWithUser(t);
  const backup = admin.backup();
  const archive = await readAll(backup);
  assert.equal(archive.toString('latin1', 0, 26), 'confab-backup/register.db\0');
  assert(archive.includes('"conversations":1'));
  assert.equal(backup.exported.size, BigInt(archive.length));

  assert.equal((await admin.actOnUser({ uid: UID, tenant: 'pat', act: 'evict' })).conversations, 1n);
  assert.match((await user.get('mine')).residency, /spilled|cold/);
  assert.equal((await admin.drain({ timeoutUsec: 60_000_000 })).requests, 0n);
  await assert.rejects(user.open({ name: 'another' }), { code: 'shutdown', retry: true });
  assert.equal((await user.get('mine')).nTurns, 2);
  await admin.drain({ off: true });
  await user.open({ name: 'another' });

  await assert.rejects(admin.actOnUser({ uid: UID, act: 'banish' }), /actOnUser\.act must be one of/);
  await assert.rejects(admin.actOnUser({ uid: UID, tenant: 'sam', act: 'purge', dryRun: true }), { code: 'not_found' });
  assert.equal((await admin.actOnUser({ uid: UID, act: 'purge', dryRun: true })).conversations, 2n);
  assert.equal((await user.list()).conversations.length, 2);
  assert.equal((await admin.actOnUser({ uid: UID, act: 'purge' })).conversations, 2n);
  await assert.rejects(user.get('mine'), { code: 'not_found' });
});

test('an act ends the reply of a user, and a limit holds at once', { skip: !root && 'this is not root' }, async (t) => {
  const [admin, user] = await startWithUser(t);
  const reply = user.continue('mine', { message: 'Hello!', maxTokens: 1500, ignoreEos: true });
  assert.equal((await reply.next()).value.type, 'accepted');
  const [{ requests }, done] = await Promise.all([admin.actOnUser({ uid: UID, act: 'cancel' }), reply.done()]);
  assert.equal(requests, 1n);
  assert.equal(done.finish, 'cancelled');

  const subject = { uid: UID, tenant: 'pat' };
  await admin.quota({ subject, changes: [{ name: 'max-conversations', value: 1 }] });
  await assert.rejects(user.open({ name: 'second' }), { code: 'limit', message: /1 conversation/ });
  const own = (await user.quota()).limits.find(({ name }) => name === 'max-conversations');
  assert.deepEqual([own.value, own.used, own.origin], [1n, 1n, 'tenant']);
  await admin.quota({ subject, changes: [{ name: 'max-conversations', none: true }] });
  await user.open({ name: 'second' });
  const cleared = await admin.quota({ subject, changes: [{ name: 'max-conversations', clear: true }] });
  assert.equal(cleared.limits.find(({ name }) => name === 'max-conversations').origin, 'setting');
});
