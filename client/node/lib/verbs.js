// SPDX-License-Identifier: MIT
// The kinds of events that belong to each verb: those that may come before, and its result.
const conversation = { before: [], result: 'conversation' };
const reply = { before: ['accepted', 'progress', 'delta'], result: 'done' };

export const VERBS = {
  open: conversation,
  continue: reply,
  fork: conversation,
  rewind: conversation,
  close: { before: [], result: 'empty' },
  get: conversation,
  list: { before: [], result: 'conversations' },
  update: conversation,
  warm: conversation,
  evict: conversation,
  cancel: { before: [], result: 'empty' },
  tokenize: { before: [], result: 'tokenize' },
  modelInfo: { before: [], result: 'modelInfo' },
  stats: { before: [], result: 'stats' },
  publish: conversation,
  export: { before: ['chunk'], result: 'exported' },
  import: conversation,
  carry: conversation,
  attach: reply,
  watch: { before: ['notice'], result: 'empty' },
  quota: { before: [], result: 'quotas' },
  find: { before: [], result: 'found' },
  settings: { before: [], result: 'settings' },
  users: { before: [], result: 'users' },
  actOnUser: { before: [], result: 'userActed' },
  drain: { before: [], result: 'drained' },
  backup: { before: ['chunk'], result: 'exported' },
  check: { before: ['progress'], result: 'checked' },
};
