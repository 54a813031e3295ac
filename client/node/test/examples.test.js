// SPDX-License-Identifier: MIT
// The examples, with the real daemon.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startDaemon } from './daemon.js';

const folder = ['../node_modules/confab/examples/', '../examples/']
  .map((name) => fileURLToPath(new URL(name, import.meta.url))).find((name) => existsSync(name));

// What an example prints; it must end with status 0.
const run = (daemon, name, args, input = '') => new Promise((resolve, reject) => {
  const options = { env: { ...process.env, CONFAB_SOCKET: daemon.path } };
  const child = execFile(process.execPath, [`${folder}${name}`, ...args], options, (error, stdout, stderr) => {
    if (error) {
      reject(new Error(`${name}: ${stderr}`, { cause: error }));
    } else {
      resolve(stdout);
    }
  });
  child.stdin.end(input);
});

test('chat.js, forks.js and backup.js', async (t) => {
  const daemon = await startDaemon(t);
  const client = await daemon.connect();
  t.after(() => client.disconnect());
  await client.open({ name: 'me', sampling: { temperature: 0 } });
  assert.match(await run(daemon, 'chat.js', ['me'], 'My name is Nora.\nWhat is my name?\n'), /Nora![^]*Nora/);
  assert.match(await run(daemon, 'chat.js', [], 'Hello!\n'), /\w/);
  const forks = await run(daemon, 'forks.js', ['Hello!']);
  assert.deepEqual(forks.match(/^[1-4](?=: \S)/gm).sort(), ['1', '2', '3', '4']);
  assert.equal((await client.list()).conversations.length, 2);
  await run(daemon, 'backup.js', [daemon.folder]);
  const names = (await readdir(daemon.folder)).filter((name) => name.endsWith('.confab'));
  assert.deepEqual(names.sort(), ['me.confab', 'node-chat.confab']);
});
