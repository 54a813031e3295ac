// SPDX-License-Identifier: MIT
// Every verb, with the real daemon.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfabError, connect } from 'confab';
import { startDaemon } from './daemon.js';

const greedy = { sampling: { temperature: 0 }, maxTokens: 40 };

test('a conversation is opened, continued, read, changed, listed and closed', async (t) => {
  const client = await (await startDaemon(t)).connect();
  t.after(() => client.disconnect());
  assert.match(client.server, /^confab /);
  assert.equal(client.owner.uid, process.getuid());

  const trip = await client.open({
    name: 'trip', system: 'You are a helpful assistant.', sampling: { temperature: 0 }, overflow: 'shift',
    about: { title: 'The trip', tags: ['a', 'b'], metadata: { cwd: '/x' }, session: 's' },
  });
  assert.equal(typeof trip.id, 'bigint');
  assert.equal(trip.overflow, 'shift');
  assert.deepEqual(trip.about, { title: 'The trip', tags: ['a', 'b'], metadata: '{"cwd":"/x"}', session: 's' });

  const events = [];
  for await (const event of client.continue('trip', { message: 'My name is Nora.', ...greedy })) {
    events.push(event);
  }
  assert.equal(events[0].type, 'accepted');
  assert.equal(events.at(-1).type, 'done');
  assert.equal(events.at(-1).finish, 'stop');
  assert.equal(typeof events.at(-1).seed, 'bigint');
  assert.equal(events.filter((event) => event.type === 'delta').map((event) => event.text).join(''), 'Nice to meet you, Nora!');
  assert.match(await client.continue(trip, { message: 'What is my name?', ...greedy }).text(), /Nora/);

  const whole = await client.get(trip.id, { turns: true, tokens: true });
  assert.deepEqual(whole.turnList.map((turn) => turn.role), ['system', 'user', 'assistant', 'user', 'assistant']);
  assert.equal(whole.turnList[1].text.toString(), 'My name is Nora.');
  assert.equal(whole.tokenList.length, whole.nTokens);
  const page = await client.get(String(trip.id), { turns: true, fromTurn: 1, maxTurns: 2 });
  assert.equal(page.firstTurn, 1);
  assert.equal(page.turnList.length, 2);

  const renamed = await client.update(trip, { name: 'journey', sampling: { seed: 2n ** 64n - 1n }, about: { tags: [] } });
  assert.equal(renamed.name, 'journey');
  assert.equal(renamed.sampling.seed, 2n ** 64n - 1n);
  assert.equal(renamed.about.tags, undefined);
  assert.equal(renamed.pinned, false);
  assert.equal((await client.update(trip, { pinned: true })).pinned, true);
  assert.equal((await client.get(trip)).pinned, true);
  assert.equal((await client.update(trip, { pinned: false })).pinned, false);
  const reset = await client.update(trip, { sampling: { topK: 3 }, resetSampling: true });
  assert.equal(reset.sampling.topK, 3);
  assert.equal(reset.sampling.seed, undefined);

  const { conversations, more } = await client.list({ order: 'updated', search: 'nora' });
  assert.equal(more, false);
  assert.equal(conversations[0].id, trip.id);
  assert.match(conversations[0].hit.snippet, /Nora/);

  assert.equal(await client.close(trip), undefined);
  await assert.rejects(client.get(trip.id), { name: 'ConfabError', code: 'not_found', retry: false });
});

test('conversations are forked, rewound, found, evicted, warmed, carried and published', async (t) => {
  const client = await (await startDaemon(t)).connect();
  t.after(() => client.disconnect());
  await client.open({ name: 'a', system: 'You are a helpful assistant.' });
  const text = await client.continue('a', { message: 'My name is Nora.', ...greedy }).text();

  const child = await client.fork('a', { name: 'b', atTurn: 2, about: { title: 'fork' } });
  assert.equal(child.nTurns, 2);
  assert.equal(child.about.title, 'fork');
  const { revision } = await client.get('a');
  await assert.rejects(client.rewind('a', { turns: 1, expectRevision: revision + 1n }), { code: 'conflict' });
  assert.equal((await client.rewind('b', { turns: 1 })).nTurns, 1);

  const found = await client.find({
    messages: [{ role: 'system', text: 'You are a helpful assistant.' }, { role: 'user', text: 'My name is Nora.' },
      { role: 'assistant', text }, { role: 'user', text: 'And now?' }],
  });
  assert.equal(found.conversation.name, 'a');
  assert.equal(found.nMessages, 3);
  assert.equal((await client.find({ messages: [{ role: 'user', text: 'never said' }] })).conversation, undefined);
  const named = await client.find({ conversation: 'b', messages: [{ role: 'user', text: 'never said' }] });
  assert.equal(named.conversation.name, 'b');
  assert.equal(named.nMessages, 0);

  assert.match((await client.evict('a')).residency, /spilled|cold/);
  assert.equal((await client.warm('a')).residency, 'resident');
  assert.notEqual((await client.carry('a')).carried, true);
  assert((await client.publish('a', { atTurn: 1 })).nPublished > 0);
  await client.cancel('a'); // does nothing, which is no error
});

test('every kind of input is taken', async (t) => {
  const client = await (await startDaemon(t)).connect();
  t.after(() => client.disconnect());
  const { tokens, pieces } = await client.tokenize('hello there');
  assert.equal(Buffer.concat(pieces).toString(), 'hello there');
  await client.open({ name: 'a' });
  const none = { maxTokens: 0 };
  await client.continue('a', { messages: [{ role: 'user', text: 'Hello!' }, { role: 'assistant', text: 'Hi.' }], ...none }).done();
  await client.continue('a', { given: { text: 'More.' }, ...none }).done();
  await client.continue('a', { raw: Buffer.from('raw'), ...none }).done();
  await client.continue('a', { raw: 'text', ...none }).done();
  await client.continue('a', { tokens, ...none }).done();
  await client.continue('a', { tokens: Int32Array.from(tokens), ...none }).done();
  const done = await client.continue('a', { nothing: true, ...greedy, maxTokens: 3, ignoreEos: true }).done();
  assert.equal(done.finish, 'length');
  const { turnList, tokenList } = await client.get('a', { turns: true, tokens: true });
  assert.equal(turnList.slice(3, 5).map((turn) => turn.text).join(' '), 'raw text');
  assert.deepEqual(turnList.slice(5, 7).map((turn) => tokenList.slice(turn.start, turn.end)), [tokens, tokens]);

  const object = { type: 'object', properties: { n: { enum: [7] } }, required: ['n'], additionalProperties: false };
  const json = await client.continue('a', { message: 'A number.', jsonSchema: object, ...greedy, maxTokens: 40 }).text();
  assert.deepEqual(JSON.parse(json), { n: 7 });
  await assert.rejects(client.continue('a', { message: 'x', toolChoice: { function: 'f' } }).done(), { code: 'unsupported' });
  const parts = [];
  for await (const event of client.continue('a', { message: 'Hello!', wantParts: true, ...greedy })) {
    parts.push(...(event.type === 'delta' ? event.parts : []));
  }
  assert.deepEqual([...new Set(parts.map((part) => part.kind))], ['text']);
  assert.notEqual(await client.continue('a', { message: 'Hello!', wantParts: true, ...greedy }).text(), '');
  await assert.rejects(client.continue('a', { results: [{ callId: 'x', text: '1' }] }).done(), { code: 'invalid' });
});

test('the model and the figures of the daemon', async (t) => {
  const client = await (await startDaemon(t)).connect();
  t.after(() => client.disconnect());
  const info = await client.modelInfo();
  assert.equal(info.name, 'confab-small');
  assert.equal(typeof info.weightsBytes, 'bigint');
  const stats = await client.stats();
  assert.equal(stats.budget_max, 64n << 20n);
  const every = await client.figures({ withUsers: true });
  assert.equal(every.stats.find(({ name }) => name === 'budget_max').value, 64n << 20n);
  assert.deepEqual(every.rates.map(({ seconds }) => seconds), [10, 60, 300]);
  assert.deepEqual(every.histograms.map(({ name }) => name),
    ['queue', 'restore', 'prefill', 'decode', 'token', 'commit', 'first_token']);
  assert.equal(every.histograms[0].buckets.length, every.histograms[0].boundsUsec.length + 1);
  assert.deepEqual(every.users.map(({ uid }) => uid), [process.getuid()]);
  const { limits, more } = await client.quota();
  assert.equal(more, false);
  const conversations = limits.find(({ name }) => name === 'max-conversations');
  assert.deepEqual([conversations.value, conversations.used, conversations.origin], [10000n, 0n, 'setting']);
  assert.equal(limits.find(({ name }) => name === 'max-user-tokens').value, undefined);
  const subject = { uid: 54321, tenant: 'pat' };
  const changed = await client.quota({ subject, changes: [{ name: 'max-user-tokens', value: 5n }] });
  assert.deepEqual(changed.limits.filter(({ origin }) => origin === 'tenant').map(({ value }) => value), [5n]);
  assert.equal((await client.quota({ overrides: true })).limits[0].subject.tenant, 'pat');
});

test('a watch tells what happens, and goes on behind a cursor', async (t) => {
  const daemon = await startDaemon(t);
  const client = await daemon.connect();
  t.after(() => client.disconnect());
  const stop = new AbortController();
  const watching = client.watch({}, { signal: stop.signal });
  assert.equal((await watching.next()).value.kind, 'model');
  const { id } = await client.open({ name: 'a' });
  const opened = (await watching.next()).value;
  assert.equal(opened.kind, 'opened');
  assert.equal(opened.conversation, id);
  const pending = watching.next();
  stop.abort();
  await assert.rejects(pending, { name: 'AbortError' });

  await client.close('a');
  const again = client.watch({ cursor: opened.cursor });
  assert.equal((await again.next()).value.kind, 'model');
  assert.equal((await again.next()).value.kind, 'closed');
  again.cancel();
  assert.equal((await again.next()).done, true);
});

test('a connection may act for a tenant, whose conversations are its own', async (t) => {
  const daemon = await startDaemon(t);
  const [own, tenant] = await Promise.all([daemon.connect(), daemon.connect({ actFor: { tenant: 'anna' } })]);
  t.after(() => Promise.all([own.disconnect(), tenant.disconnect()]));
  assert.deepEqual(tenant.owner, { uid: process.getuid(), tenant: 'anna' });
  assert.equal((await tenant.open({ name: 'a' })).tenant, 'anna');
  await assert.rejects(own.get('a'), { code: 'not_found' });
  await assert.rejects(daemon.connect({ actFor: { tenant: '' } }), { code: 'invalid' });
  await assert.rejects(daemon.connect({ actFor: { Tenant: 'anna' } }), { code: 'invalid' });
  await assert.rejects(daemon.connect({ actFor: { uid: -1 } }), { code: 'invalid' });
});

test('what is no request is refused before it is sent, with the name of the field', async (t) => {
  const client = await (await startDaemon(t)).connect();
  t.after(() => client.disconnect());
  await client.open({ name: 'a' });
  const cases = [
    [() => client.open({ nme: 'x' }), /open has no field 'nme'/],
    [() => client.open({ name: 7 }), /open\.name must be a string/],
    [() => client.open({ name: 'x\0' }), /NUL/],
    [() => client.open({ name: 'x\ud800' }), /half a character/],
    [() => client.open({ overflow: 'SHIFT' }), /open\.overflow must be one of error, shift/],
    [() => client.open({ sampling: { seed: -1n } }), /open\.sampling\.seed must be/],
    [() => client.open({ sampling: { seed: 2 ** 60 } }), /open\.sampling\.seed must be/],
    [() => client.open({ sampling: { temperature: '1' } }), /temperature must be a number/],
    [() => client.open({ about: { tags: 'a' } }), /open\.about\.tags must be an array/],
    [() => client.get(), /no conversation is named/],
    [() => client.get({}), /name or the id of a conversation/],
    [() => client.get('a', { turns: 1 }), /turns must be true or false/],
    [() => client.continue('a', { message: 'x', raw: 'x' }).done(), /'message' or 'raw', not both/],
    [() => client.continue('a', { message: 'x', maxTokens: 1.5 }).done(), /maxTokens must be an integer/],
    [() => client.continue('a', { tokens: [2 ** 31] }).done(), /tokens\[0\] must be an integer/],
    [() => client.continue('a', { messages: [{ role: 'user', txt: '' }] }).text(), /messages\[0\] has no field 'txt'/],
    [() => client.tokenize('x'.repeat(5 << 20)), /larger than the 4194304/],
    [() => client.import('text'), /import takes/],
  ];
  for (const [call, message] of cases) {
    await assert.rejects(call, (error) => error instanceof ConfabError && message.test(error.message));
  }
  assert.equal((await client.get('a')).nTurns, 0);
  await assert.rejects(connect({ path: '/nonexistent/socket' }), { code: 'no_daemon', retry: true });
  await assert.rejects(connect({ path: '' }), { code: 'invalid' });
  await assert.rejects(connect({ socket: 'x' }), { code: 'invalid' });
});

test('an administrator has what is on disk checked, and takes it along', async (t) => {
  const client = await (await startDaemon(t)).connect();
  t.after(() => client.disconnect());
  await client.open({ name: 'trip' });
  await client.continue('trip', { message: 'My name is Nora.', ...greedy }).done();
  await client.evict('trip');
  const seen = [];
  const checked = await client.check({ rate: 0 }, { progress: (progress) => seen.push(progress) });
  assert.equal(checked.found, 0n);
  assert.deepEqual(checked.problems, []);
  assert(checked.records > 0n && checked.conversations === 1n && checked.bytes > 4096n);
  assert(seen.length > 0 && seen.every(({ doneBytes, totalBytes }) => doneBytes <= totalBytes));
  for (const withMemory of [false, true]) {
    const pieces = [];
    for await (const piece of client.backup({ withMemory })) {
      pieces.push(piece);
    }
    assert.equal(Buffer.concat(pieces).includes('confab-backup/memory/'), withMemory);
  }
});
