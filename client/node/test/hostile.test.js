// SPDX-License-Identifier: MIT
// Whatever a daemon sends, the worst is the end of the connection, and every request ends with an error.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfabError, connect } from 'confab';
import { HELLO, delimited, eventFrame, startFake } from './fake.js';

// Says `greeting` to Hello and `answer` to the first request after it.
const script = (greeting, answer = null) => (socket, request) => {
  if (request.verb === 'hello') {
    socket.write(greeting);
  } else if (answer !== null) {
    socket.write(answer);
  }
};

test('greetings that are none', async (t) => {
  const cases = [
    ['HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n', 'protocol'],
    [Buffer.from([0]), 'protocol'],
    [Buffer.from([0x85, 0x00]), 'protocol'],
    [Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), 'protocol'],
    [Buffer.from([0x81, 0x80, 0x80, 0x80, 0x80, 0x01]), 'protocol'],
    [eventFrame({ request: 1, stats: {} }), 'protocol'],
    [eventFrame({ request: 2, hello: { version: 1 } }), 'protocol'],
    [eventFrame({ request: 1, hello: { version: 1, maxFrame: 3 } }), 'protocol'],
    [eventFrame({ request: 1, hello: { version: 2 } }), 'unsupported'],
    [eventFrame({ request: 1, error: { code: 'permission', message: 'no' } }), 'permission'],
    [eventFrame({ request: 0, error: { code: 'unavailable', message: 'no model', retry: true } }), 'unavailable'],
    [eventFrame({ request: 0, error: {} }), 'unknown'],
  ];
  for (const [greeting, code] of cases) {
    const path = await startFake(t, script(greeting));
    await assert.rejects(connect({ path }), (error) => error instanceof ConfabError && error.code === code, String(greeting));
  }
  const silent = await startFake(t, (socket) => socket.end());
  await assert.rejects(connect({ path: silent }), { code: 'disconnected', message: /before it greeted/ });
  const old = await startFake(t, script(HELLO));
  await assert.rejects(connect({ path: old, actFor: { tenant: 'a' } }), { code: 'unsupported' });
});

test('connecting may be aborted', async (t) => {
  const path = await startFake(t, () => {});
  await assert.rejects(connect({ path, signal: AbortSignal.timeout(1) }), { name: 'TimeoutError' });
  await assert.rejects(connect({ path, signal: AbortSignal.abort(new Error('no')) }), /no/);
});

const tagged = (...bytes) => delimited(Buffer.from([0x08, 2, ...bytes]));
const answers = {
  'an answer to another question': [eventFrame({ request: 2, conversation: { id: 1 } }), /'conversation' as an answer to 'stats'/],
  'a delta for a request without a reply': [eventFrame({ request: 2, delta: { text: 'x' } }), /'delta' as an answer/],
  'a frame of more than was allowed': [Buffer.from([0x81, 0x80, 0x80, 0x08]), /more than the 16777216 bytes/],
  'text that is not UTF-8': [tagged(0x1a, 3, 0x0a, 1, 0xff), /not valid/],
  'a field of another type': [tagged(0x18, 1), /another type/],
  'a field that is longer than the frame': [tagged(0x1a, 100, 1), /cut off/],
  'a field that is longer than the field around it': [tagged(0x1a, 3, 0x0a, 5, 0x61), /range|longer/],
  'a group': [tagged(0x93, 0x01, 0x94, 0x01), /group/],
  'the end of a group': [tagged(0x94, 0x01), /group/],
  'a field without a number': [tagged(0x00, 0x00), /without a number/],
  'a wire type that is none': [tagged(0x9f, 0x06, 1), /wire type/],
  'a number that does not end': [tagged(0x6a, 12, 0x0a, 10, ...Array(10).fill(0xff)), /varint/],
  'very many empty parts': [delimited(Buffer.concat(
    [Buffer.from([0x08, 2, 0x4a, 0x80, 0x80, 0x80, 0x06]), Buffer.alloc(6 << 21, Buffer.from([0x82, 0x01, 0]))])), /too many parts/],
  'an error about the connection': [eventFrame({ request: 0, error: { code: 'shutdown', message: 'stopping', retry: true } }), /stopping/],
};

for (const [name, [answer, message]] of Object.entries(answers)) {
  test(`${name} ends the connection and what is in flight`, async (t) => {
    const client = await connect({ path: await startFake(t, script(HELLO, answer)) });
    t.after(() => client.disconnect());
    const code = name.endsWith('connection') ? 'shutdown' : 'protocol';
    const inFlight = [client.stats(), client.get('a'), client.continue('a', { nothing: true }).text(), client.watch().next()];
    await Promise.all(inFlight.map((promise) => assert.rejects(promise, { name: 'ConfabError', code, message, retry: true })));
    await assert.rejects(client.stats(), { code });
    await assert.rejects(client.import(Buffer.from('x')), { code });
    await assert.rejects(client.export('a').next(), { code });
    assert.equal(client.error.code, code);
  });
}

test('a daemon that breaks off in the middle of a message', async (t) => {
  const path = await startFake(t, (socket, { verb }) => {
    if (verb === 'hello') {
      socket.write(HELLO);
    } else {
      socket.end(eventFrame({ request: 2, stats: { stats: [{ name: 'x', value: 1 }] } }).subarray(0, -2));
    }
  });
  const client = await connect({ path });
  await assert.rejects(client.stats(), { code: 'disconnected', message: /in the middle/ });
});

test('what a newer daemon may send is ignored', async (t) => {
  const later = Buffer.concat([
    eventFrame({ request: 77, done: {} }), // for nobody
    eventFrame({ request: 0, stats: {} }),
    tagged(0xaa, 0x06, 2, 0x08, 1), // an event of kind 101
    delimited(Buffer.concat([eventFrame({ request: 2, conversation: { id: 1, residency: 3 } }).subarray(1), Buffer.from([0xf8, 0x7f, 1])])),
  ]);
  const client = await connect({ path: await startFake(t, script(HELLO, later)) });
  t.after(() => client.disconnect());
  const { id, residency, turnList } = await client.get('a');
  assert.deepEqual({ id, residency, turnList }, { id: 1n, residency: 'spilled', turnList: [] });
  assert.equal(client.error, null);
});

test('numbers keep their 64 bits, names of enums and figures may be new', async (t) => {
  const value = '18446744073709551615';
  const stats = eventFrame({ request: 2, stats: { stats: [{ name: '__proto__', value }, { name: 'x' }] } });
  const client = await connect({ path: await startFake(t, script(HELLO, stats)) });
  t.after(() => client.disconnect());
  const figures = await client.stats();
  assert.deepEqual(Object.entries(figures), [['__proto__', 2n ** 64n - 1n], ['x', undefined]]);

  const unknown = tagged(0x4a, 2, 0x48, 99);
  const other = await connect({ path: await startFake(t, script(HELLO, unknown)) });
  t.after(() => other.disconnect());
  assert.equal((await other.get('a')).residency, 'unknown');
});

test('frames may come in any pieces', async (t) => {
  const answer = Buffer.concat([
    eventFrame({ request: 2, accepted: {} }), eventFrame({ request: 2, delta: { text: 'ä'.repeat(100) } }), eventFrame({ request: 2, done: {} })]);
  for (const size of [1, 2, 3, 7, 64]) {
    const path = await startFake(t, async (socket, { verb }) => {
      const bytes = verb === 'hello' ? HELLO : answer;
      for (let at = 0; at < bytes.length; at += size) {
        await new Promise((resolve) => socket.write(bytes.subarray(at, at + size), resolve));
      }
    });
    const client = await connect({ path });
    assert.equal(await client.continue('a', { nothing: true }).text(), 'ä'.repeat(100));
    await client.disconnect();
  }
});

// A generator of its own, so that a run can be had again.
function* numbers(seed) {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state >>> 8;
  }
}

test('damaged streams end with an answer or an error, never otherwise', async (t) => {
  const events = Buffer.concat([
    eventFrame({ request: 2, accepted: { conversation: 1, nPrompt: 3 } }),
    eventFrame({ request: 2, delta: { text: 'Hello', tokens: [{ token: 1, logprob: -1, top: [{ token: 1, text: 'aGk=' }] }] } }),
    eventFrame({ request: 2, delta: { parts: [{ index: 0, kind: 1, text: 'x', ends: true }], position: 9 } }),
    eventFrame({ request: 2, done: { finish: 1, seed: '9007199254740993' } }),
  ]);
  let damaged;
  const path = await startFake(t, (socket, { verb }) => {
    if (verb === 'hello') {
      socket.write(HELLO);
    } else if (verb === 'continue') {
      socket.end(damaged);
    }
  });
  const random = numbers(7);
  const next = (n) => random.next().value % n;
  const ends = { answered: 0, disconnected: 0, protocol: 0 };
  for (let i = 0; i < 1500; i++) {
    damaged = Buffer.from(events).subarray(0, next(4) ? events.length : next(events.length));
    for (let n = 1 + next(4); n > 0 && damaged.length > 0; n--) {
      damaged[next(damaged.length)] = next(256);
    }
    const client = await connect({ path });
    try {
      await client.continue('a', { nothing: true }).done();
      ends.answered++;
    } catch (error) {
      assert(error instanceof ConfabError, error.stack);
      ends[error.code] = (ends[error.code] ?? 0) + 1;
    }
    await client.disconnect();
  }
  assert(ends.answered > 0 && ends.disconnected > 0 && ends.protocol > 0, JSON.stringify(ends));
});
