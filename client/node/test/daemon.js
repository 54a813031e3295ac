// SPDX-License-Identifier: MIT
// The real confabd in a private folder, for the tests: $CONFAB_BUILD is the build folder, $CONFAB_MODEL the model.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { connect } from 'confab';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const build = process.env.CONFAB_BUILD ?? path.join(root, 'build');
const model = process.env.CONFAB_MODEL ?? path.join(root, 'models/confab-small.q8_0.gguf');

// A folder that is gone after the test.
export async function makeFolder(t) {
  const folder = await mkdtemp(path.join(tmpdir(), 'confab-node-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export class Daemon {
  constructor(folder) {
    this.folder = folder;
    this.path = path.join(folder, 'socket');
  }

  // Resolves when it listens.
  async start() {
    const program = path.join(build, 'daemon/confabd');
    assert(existsSync(program), `there is no ${program}: set CONFAB_BUILD to a build folder`);
    this.process = spawn(
      program, ['--model', model, '--socket', this.path, '--state', path.join(this.folder, 'state'), '--pool-size', '64M'],
      { stdio: ['ignore', 'ignore', 'pipe'] });
    this.exited = new Promise((resolve) => this.process.once('exit', resolve));
    const lines = [];
    await new Promise((resolve, reject) => {
      createInterface(this.process.stderr).on('line', (line) => {
        lines.push(line);
        if (line.includes(' serves ')) {
          resolve();
        }
      });
      this.exited.then(() => reject(new Error(`confabd did not start:\n${lines.join('\n')}`)));
    });
  }

  async kill(signal) {
    this.process?.kill(signal);
    await this.exited;
  }

  connect(options) {
    return connect({ path: this.path, ...options });
  }
}

// A daemon that runs until the test ends.
export async function startDaemon(t) {
  const daemon = new Daemon(await mkdtemp(path.join(tmpdir(), 'confab-node-')));
  t.after(async () => {
    await daemon.kill('SIGTERM');
    await rm(daemon.folder, { recursive: true, force: true });
  });
  await daemon.start();
  return daemon;
}

// A reply that cannot come to its end before it is read: each token has so many alternatives that the daemon
// waits for its reader.
export const ENDLESS = { message: 'Hello!', maxTokens: 1900, ignoreEos: true, wantLogprobs: true, logprobs: 1000 };

// Reads until the first event of a type.
export async function readUntil(reply, type) {
  for (;;) {
    const { value, done } = await reply.next();
    assert(!done, `the reply ended without '${type}'`);
    if (value.type === type) {
      return value;
    }
  }
}
