#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// node backup.js FOLDER: every conversation as a file NAME.confab, transcript and tokens only. `client.import()` takes
// them back.
import { createWriteStream } from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { connect } from 'confab';

const folder = process.argv[2] ?? '.';
const client = await connect();
for (let afterId = 0n, more = true; more;) {
  const page = await client.list({ afterId });
  for (const { id, name } of page.conversations) {
    const file = path.join(folder, `${encodeURIComponent(name)}.confab`);
    await pipeline(client.export(id, { withoutMemory: true }), createWriteStream(file));
    console.log(file);
    afterId = id;
  }
  more = page.more;
}
await client.disconnect();
