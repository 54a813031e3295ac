// SPDX-License-Identifier: MIT
// Words in English. Keys are the same in all words-*.js (tests/page/words.py).
export default {
  // what is used everywhere
  justNow: 'just now',
  tokensPerSecond: '{rate} tokens/s',
  tokens: {one: '{n} token', other: '{n} tokens'},
  turns: {one: '{n} turn', other: '{n} turns'},
};
