// SPDX-License-Identifier: MIT
// Export and import in the stream, with the real daemon.
import assert from 'node:assert/strict';
import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { startDaemon } from './daemon.js';

// A conversation whose export is longer than one chunk.
async function openLong(client, name) {
  await client.open({ name });
  await client.continue(name, { message: 'Hello! '.repeat(150), maxTokens: 800, ignoreEos: true }).done();
}

test('a conversation goes to a file and comes back, memory and all', async (t) => {
  const daemon = await startDaemon(t);
  const client = await daemon.connect();
  t.after(() => client.disconnect());
  await openLong(client, 'a');
  const file = path.join(daemon.folder, 'a.confab');
  const exporting = client.export('a');
  await pipeline(exporting, createWriteStream(file));
  const { size } = await stat(file);
  assert(size > 256 << 10, `${size} bytes are one chunk`);
  assert.equal(exporting.exported.size, BigInt(size));
  assert(exporting.exported.nMemoryTokens > 0);

  const copy = await client.import(createReadStream(file), { name: 'copy' });
  const [a, b] = await Promise.all([client.get('a', { turns: true, tokens: true }), client.get(copy, { turns: true, tokens: true })]);
  assert.deepEqual(b.tokenList, a.tokenList);
  assert.deepEqual(b.turnList.map((turn) => turn.text), a.turnList.map((turn) => turn.text));

  const buffers = [];
  for await (const data of client.export('a', { withoutMemory: true })) {
    buffers.push(data);
  }
  assert((await client.import(Buffer.concat(buffers))).nTokens === a.nTokens);
  assert((await client.import(buffers)).nTokens === a.nTokens);
});

test('an export that is left early is cancelled, and the connection goes on', async (t) => {
  const client = await (await startDaemon(t)).connect({ maxQueued: 1 });
  t.after(() => client.disconnect());
  await openLong(client, 'a');
  for await (const data of client.export('a')) {
    assert(data.length > 0);
    break;
  }
  assert.equal((await client.get('a')).name, 'a');
  await assert.rejects(client.export('none').next(), { code: 'not_found' });
});

test('an import whose source fails, is no export, or never ends', async (t) => {
  const client = await (await startDaemon(t)).connect();
  t.after(() => client.disconnect());
  const failing = async function* () {
    yield Buffer.from('CONFAB');
    throw new Error('the disk is gone');
  };
  await assert.rejects(client.import(failing()), /the disk is gone/);
  await assert.rejects(client.import(Buffer.alloc(3 << 20, 'x')), (error) => ['format', 'corrupt'].includes(error.code));
  await assert.rejects(client.import(Buffer.alloc(0)), (error) => ['format', 'corrupt', 'invalid'].includes(error.code));
  await assert.rejects(client.import(['text']), { code: 'invalid' });

  const stop = new AbortController();
  const silent = new Readable({ read() {} });
  const closed = new Promise((resolve) => silent.on('error', () => {}).on('close', resolve));
  const promise = client.import(silent, { name: 'b' }, { signal: stop.signal });
  silent.push('CONFAB');
  stop.abort();
  await assert.rejects(promise, { name: 'AbortError' });
  await closed;
  assert.equal((await client.list()).conversations.length, 0);
});
