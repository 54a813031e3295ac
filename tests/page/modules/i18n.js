// SPDX-License-Identifier: MIT
// Words in each language.

export const languages = ['en', 'de'];

export async function test_the_language_that_was_chosen({load, need, language}) {
  const i18n = await load('js/i18n.js');
  need(i18n.language === language, i18n.language);
  need(languages.every(one => i18n.languages.includes(one)), i18n.languages);
  need(i18n.t('cancel') === {en: 'Cancel', de: 'Abbrechen'}[language], i18n.t('cancel'));
}

export async function test_values({load, need, language}) {
  const {t} = await load('js/i18n.js');
  const title = 'a {title} <b>{n}</b> $& \u202e';
  need(t('list.closed', {title}).includes(title), 'a value is not read for values: ' + t('list.closed', {title}));
  need(t('talk.tokensOf', {n: 1234, of: 56789}).includes({en: '1,234', de: '1.234'}[language]), t('talk.tokensOf', {n: 1234, of: 56789}));
  need(t('list.closed').includes('{title}'), 'a value that is not given stays to be seen');
  need(t('list.closed', {title: 0}).includes('0'), 'zero is a value');
}

export async function test_plurals({load, need, language}) {
  const {t} = await load('js/i18n.js');
  const one = t('turns', {n: 1}), two = t('turns', {n: 2}), none = t('turns', {n: 0}), many = t('turns', {n: 1000});
  need(one !== two.replace('2', '1') && none === two.replace('2', '0'), [one, two, none]);
  need(many.includes({en: '1,000', de: '1.000'}[language]), many);
}

export async function test_keys_that_nobody_knows({load, need}) {
  const {t, hasWords} = await load('js/i18n.js');
  need(t('no.such.key') === 'no.such.key' && !hasWords('no.such.key'), 'as it is');
  for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty'])
    need(t(name) === name && !hasWords(name), `${name}: ${t(name)}`);
  need(hasWords('cancel'), 'a word');
}
