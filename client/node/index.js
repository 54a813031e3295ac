// SPDX-License-Identifier: MIT
export { Client, connect } from './lib/client.js';
export { ConfabError } from './lib/errors.js';
export { Reply, Exporting, Watching } from './lib/streams.js';
