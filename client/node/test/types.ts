// SPDX-License-Identifier: MIT
// A program that uses the types; it is compiled, not run. Each "ts-expect-error" is an error that must be found.
import { ConfabError, connect, type Conversation, type Notice, type StatsResult } from 'confab';

const client = await connect({ path: '/x', actFor: { tenant: 'anna' }, signal: AbortSignal.timeout(1000) });
const trip: Conversation = await client.open({ name: 'trip', about: { metadata: { cwd: '/' }, tags: ['a'] } });
const id: bigint = trip.id;
for await (const event of client.continue(id, { message: 'Hi', sampling: { seed: 7n }, jsonSchema: { type: 'object' } })) {
  if (event.type === 'delta') {
    process.stdout.write(event.text ?? '');
  } else if (event.type === 'done') {
    const finish: string = event.finish;
    console.log(finish, event.seed);
  }
}
const text: string = await client.attach(trip, { position: 3 }).text();
const notices: Notice[] = [];
for await (const notice of client.watch({ cursor: 'x' }, { signal: new AbortController().signal })) {
  notices.push(notice);
}
const copy = await client.import(client.export(trip, { withoutMemory: true }), { name: text });
await client.fork({ name: 'trip' }, { atTurn: 2, expectRevision: copy.revision });
const figures: Record<string, bigint> = await client.stats();
const restart: string[] = (await client.settings()).settings.filter(({ reloadable }) => !reloadable).map(({ name }) => name);
const disk: (bigint | undefined)[] = (await client.users({ order: 'disk', limit: 10 })).users.map(({ diskBytes }) => diskBytes);
const busy: bigint | undefined = (await client.actOnUser({ uid: 1000, act: 'purge', dryRun: true })).busy;
const left: bigint | undefined = (await client.drain({ timeoutUsec: 5_000_000 })).requests;
for await (const piece of client.backup()) {
  process.stdout.write(piece);
}
const limits: string[] = (await client.quota({ subject: { uid: 1000, allTenants: true }, changes: [{ name: 'max-jobs', none: true }] }))
  .limits.map(({ origin }) => origin);
console.log(restart, disk, busy, left, limits);
const { histograms, own }: StatsResult = await client.figures({ withUsers: true });
const slow: bigint | undefined = histograms[0]?.buckets[24] ?? own?.tokens;
try {
  await client.close(trip);
} catch (error) {
  if (error instanceof ConfabError && error.retry) {
    console.log(error.code, figures.requests, slow);
  }
}
// @ts-expect-error: a typing error
await client.open({ nme: 'x' });
// @ts-expect-error: no such name
await client.open({ overflow: 'SHIFT' });
// @ts-expect-error: numbers lose bits
const lossy: number = trip.revision;
// @ts-expect-error: an act that does not exist
await client.actOnUser({ uid: 1000, act: 'banish' });
// @ts-expect-error: whose?
await client.actOnUser({ act: 'purge' });
