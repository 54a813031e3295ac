// SPDX-License-Identifier: MIT
// Wörter auf Deutsch. Die Schlüssel sind in allen words-*.js dieselben (tests/page/words.py).
export default {
  // überall
  justNow: 'gerade eben',
  tokensPerSecond: '{rate} Token/s',
  tokens: {one: '{n} Token', other: '{n} Token'},
  turns: {one: '{n} Beitrag', other: '{n} Beiträge'},
};
