// SPDX-License-Identifier: MIT
// Replies that are many, slow, given up, or cut off; with the real daemon.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Daemon, ENDLESS, makeFolder, readUntil, startDaemon } from './daemon.js';

test('many replies at once on one connection', async (t) => {
  const client = await (await startDaemon(t)).connect();
  t.after(() => client.disconnect());
  const names = ['Nora', 'Bela', 'Tom', 'Ada', 'Ida', 'Max', 'Eva', 'Leo'];
  const texts = await Promise.all(names.map(async (name) => {
    await client.open({ name });
    return client.continue(name, { message: `My name is ${name}.`, sampling: { temperature: 0 }, maxTokens: 30 }).text();
  }));
  assert.deepEqual(texts, names.map((name) => `Nice to meet you, ${name}!`));
});

test('who does not read holds up the daemon, and misses nothing', async (t) => {
  const daemon = await startDaemon(t);
  const [slow, other] = await Promise.all([daemon.connect({ maxQueued: 100_000 }), daemon.connect()]);
  t.after(() => Promise.all([slow.disconnect(), other.disconnect()]));
  await slow.open({ name: 'slow' });
  await other.open({ name: 'other' });
  const reply = slow.continue('slow', ENDLESS);
  const { nPrompt } = await readUntil(reply, 'accepted');
  // As much work as the whole reply, for somebody else: without a reader it would end meanwhile.
  await other.continue('other', { message: 'Hello!', maxTokens: 1900, ignoreEos: true }).done();
  const { generating, writing } = await other.get('slow');
  assert.equal(generating, true);
  assert(writing.nGenerated < 1000, `${writing.nGenerated} tokens were generated`);

  let position = nPrompt;
  for await (const event of reply) {
    if (event.type === 'delta' && event.tokens.length > 0) {
      assert.equal(event.position, position += event.tokens.length);
      assert.equal(event.tokens[0].top.length, 1000);
      assert(event.tokens[0].text instanceof Buffer);
    }
  }
  assert.equal(position, nPrompt + 1900);
});

test('an abort ends the reply here at once, and at the daemon', async (t) => {
  const client = await (await startDaemon(t)).connect({ maxQueued: 100_000 });
  t.after(() => client.disconnect());
  await client.open({ name: 'a' });
  const stop = new AbortController();
  const reply = client.continue('a', ENDLESS, { signal: stop.signal });
  await readUntil(reply, 'delta');
  stop.abort(new Error('enough'));
  await assert.rejects(reply.next(), /enough/);
  assert.equal((await reply.next()).done, true);
  await client.continue('a', { message: 'And?', wait: true, maxTokens: 0 }).done();
  const { turnList } = await client.get('a', { turns: true });
  assert.equal(turnList[1].finish, 'cancelled');

  const gone = AbortSignal.abort(new Error('before'));
  await assert.rejects(client.continue('a', ENDLESS, { signal: gone }).done(), /before/);
  await assert.rejects(client.get('a', {}, { signal: gone }), /before/);
  assert.equal((await client.get('a')).nTurns, 3);
});

test('leaving the loop cancels; cancel() tells how it ended', async (t) => {
  const client = await (await startDaemon(t)).connect({ maxQueued: 100_000 });
  t.after(() => client.disconnect());
  await client.open({ name: 'a' });
  for await (const event of client.continue('a', ENDLESS)) {
    if (event.type === 'delta') {
      break;
    }
  }
  await client.continue('a', { message: 'And?', wait: true, maxTokens: 0 }).done();
  assert.equal((await client.get('a', { turns: true })).turnList[1].finish, 'cancelled');

  const reply = client.continue('a', ENDLESS);
  await readUntil(reply, 'delta');
  reply.cancel();
  reply.cancel();
  assert.equal((await reply.done()).finish, 'cancelled');

  const cancelled = client.continue('a', ENDLESS);
  await readUntil(cancelled, 'delta');
  await Promise.all([client.cancel('a'), cancelled.done().then((done) => assert.equal(done.finish, 'cancelled'))]);
});

test('an abort of a request with one answer', async (t) => {
  const client = await (await startDaemon(t)).connect();
  t.after(() => client.disconnect());
  const stop = new AbortController();
  const promise = client.stats({ signal: stop.signal });
  stop.abort();
  await assert.rejects(promise, { name: 'AbortError' });
  assert.equal(typeof (await client.stats()).requests, 'bigint');
});

test('a detached reply is read over another connection', async (t) => {
  const daemon = await startDaemon(t);
  const [first, second] = await Promise.all([daemon.connect({ maxQueued: 100_000 }), daemon.connect()]);
  t.after(() => Promise.all([first.disconnect(), second.disconnect()]));
  await first.open({ name: 'a' });
  const reply = first.continue('a', { message: 'Hello!', maxTokens: 1000, ignoreEos: true, detach: true, sampling: { temperature: 0 } });
  const { revision } = await readUntil(reply, 'accepted');
  const { position, text } = await readUntil(reply, 'delta');
  await first.disconnect();
  const whole = await second.attach('a', { expectRevision: revision }).text();
  const rest = await second.attach('a', { expectRevision: revision, position }).text();
  assert.equal(whole, text + rest);
  assert.equal((await second.get('a', { turns: true })).turnList.at(-1).text.toString(), whole);
});

test('a daemon that is killed ends all requests; the next one has what was said', async (t) => {
  const daemon = new Daemon(await makeFolder(t));
  await daemon.start();
  const client = await daemon.connect({ maxQueued: 100_000 });
  await client.open({ name: 'a' });
  const watching = client.watch();
  const notices = (async () => {
    for await (const notice of watching) {
      assert.notEqual(notice.kind, 'list_again');
    }
  })();
  const reply = client.continue('a', ENDLESS);
  await readUntil(reply, 'accepted');
  const pending = [reply.done(), client.continue('a', { nothing: true, wait: true }).done(), notices];
  const failed = Promise.all(pending.map(
    (promise) => assert.rejects(promise, { name: 'ConfabError', code: 'disconnected', retry: true })));
  await daemon.kill('SIGKILL');
  await failed;
  assert.equal(client.error.code, 'disconnected');
  await assert.rejects(client.stats(), { code: 'disconnected' });
  await client.disconnect();

  await daemon.start();
  t.after(() => daemon.kill('SIGTERM'));
  const again = await daemon.connect();
  t.after(() => again.disconnect());
  const { turnList, unanswered } = await again.get('a', { turns: true });
  assert.equal(turnList[0].text.toString(), 'Hello!');
  assert.equal(unanswered, true);
});

test('disconnect() ends what is in flight', async (t) => {
  const client = await (await startDaemon(t)).connect();
  await client.open({ name: 'a' });
  const reply = client.continue('a', ENDLESS);
  const promise = client.stats();
  await client.disconnect();
  await assert.rejects(promise, { code: 'disconnected', message: /this side/ });
  await assert.rejects(reply.done(), { code: 'disconnected' });
  await client.disconnect();
});
