#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// node chat.js [NAME]: a conversation on standard input and output. Each line is a message; Ctrl-C ends a reply.
import { createInterface } from 'node:readline';
import { ConfabError, connect } from 'confab';

const client = await connect();
const name = process.argv[2] ?? 'node-chat';
try {
  await client.open({ name, overflow: 'shift' });
} catch (error) {
  if (!(error instanceof ConfabError) || error.code !== 'exists') {
    throw error;
  }
}

let reply;
process.on('SIGINT', () => (reply ? reply.cancel() : process.exit(130)));
for await (const line of createInterface({ input: process.stdin })) {
  reply = client.continue(name, { message: line });
  for await (const event of reply) {
    if (event.type === 'delta') {
      process.stdout.write(event.text);
    }
  }
  reply = undefined;
  process.stdout.write('\n');
}
await client.disconnect();
