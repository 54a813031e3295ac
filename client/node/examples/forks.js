#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// node forks.js MESSAGE: one beginning, four replies at once, each in a fork that shares the memory of the beginning.
import { connect } from 'confab';

const client = await connect();
const { id } = await client.open({ system: 'You are a helpful assistant.', about: { expiresAfter: 3600 } });
await client.continue(id, { message: process.argv[2] ?? 'Hello!', maxTokens: 0 }).done();

await Promise.all([1, 2, 3, 4].map(async (seed) => {
  const fork = await client.fork(id, { about: { expiresAfter: 3600 } });
  const text = await client.continue(fork, { nothing: true, sampling: { seed, temperature: 1.2 }, maxTokens: 60 }).text();
  console.log(`${seed}: ${text}`);
  await client.close(fork);
}));
await client.close(id);
await client.disconnect();
