// SPDX-License-Identifier: MIT
// Numbers, sizes and times, in each language.

export const languages = ['en', 'de'];
const SECOND = 1e6;
const NOW = Date.UTC(2026, 5, 15, 12);

export async function test_bytes({load, need, language}) {
  const {bytes} = await load('js/format.js');
  const comma = {en: '.', de: ','}[language];
  for (const [n, text] of [[0, '0 B'], [1, '1 B'], [1023, {en: '1,023 B', de: '1.023 B'}[language]], [1024, '1 KiB'], [1536, `1${comma}5 KiB`],
    [10240, '10 KiB'], [1 << 20, '1 MiB'], [2.5 * (1 << 30), `2${comma}5 GiB`], [3 * 2 ** 40, '3 TiB'], [4096 * 2 ** 40, {en: '4,096 TiB', de: '4.096 TiB'}[language]]])
    need(bytes(n) === text, `${n}: ${bytes(n)}`);
}

export async function test_durations({load, need, language}) {
  const {duration} = await load('js/format.js');
  const comma = {en: '.', de: ','}[language];
  for (const [usec, text] of [[0, '0 µs'], [340, '340 µs'], [12000, '12 ms'], [1.4 * SECOND, `1${comma}4 s`], [42 * SECOND, '42 s'],
    [125 * SECOND, '2 min 5 s'], [60 * SECOND, '1 min 0 s']])
    need(duration(usec) === text, `${usec}: ${duration(usec)}`);
}

/** Rounding leads to no 1,000 ms, 60 s, or 1 min 60 s. */
export async function test_durations_at_their_borders({load, need}) {
  const {duration} = await load('js/format.js');
  for (const usec of [999, 999.6, 999400, 999600, 999999, 9.96 * SECOND, 59.4 * SECOND, 59.7 * SECOND, 59.99 * SECOND, 119.7 * SECOND, 3599.8 * SECOND])
    need(!/\b(60 s|1[,.]000 (ms|µs))/.test(duration(usec)), `${usec}: ${duration(usec)}`);
}

export async function test_rates({load, need}) {
  const {rate} = await load('js/format.js');
  need(rate(0, 5) === '' && rate(5, 0) === '' && rate(undefined, undefined) === '', 'nothing to say');
  need(rate(100, SECOND).startsWith('100 '), rate(100, SECOND));
  need(/^2[.,]5 /.test(rate(5, 2 * SECOND)), rate(5, 2 * SECOND));
}

export async function test_times({load, need, language}) {
  const {when} = await load('js/format.js');
  const {t} = await load('js/i18n.js');
  const ago = seconds => when(NOW * 1000 - seconds * SECOND, NOW);
  need(ago(0) === t('justNow') && ago(44) === t('justNow') && ago(-5) === t('justNow'), ago(0));
  need(/\b5\b/.test(ago(300)) && /min/i.test(ago(300)), ago(300));
  need(/\b3\b/.test(ago(3 * 3600)) && {en: /hr|hour|ago/, de: /Std|Stunde/}[language].test(ago(3 * 3600)), ago(3 * 3600));
  need({en: /Jun 10/, de: /10\. Juni/}[language].test(ago(5 * 86400)), ago(5 * 86400));
  need(/2024/.test(ago(2 * 365 * 86400)), ago(2 * 365 * 86400));
  // no time is told as 60 minutes or 24 hours ago
  for (const seconds of [3570, 3599, 86300, 86399])
    need(!/\b(60|24)\b/.test(ago(seconds)), `${seconds}: ${ago(seconds)}`);
}
