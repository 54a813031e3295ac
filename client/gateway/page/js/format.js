// SPDX-License-Identifier: MIT
// Numbers, sizes and times in the language of the page.
import {language, t} from './i18n.js';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const relative = new Intl.RelativeTimeFormat(language, {numeric: 'auto', style: 'short'});
const exact = new Intl.DateTimeFormat(language, {dateStyle: 'medium', timeStyle: 'short'});
const day = new Intl.DateTimeFormat(language, {day: 'numeric', month: 'short'});
const dayOfYear = new Intl.DateTimeFormat(language, {day: 'numeric', month: 'short', year: 'numeric'});

export function number(n) {
	return Number(n).toLocaleString(language);
}

export function bytes(n) {
	let unit = 0;
	while (n >= 1024 && unit < UNITS.length - 1) {
		n /= 1024;
		unit++;
	}
	return `${n.toLocaleString(language, {maximumFractionDigits: n < 10 && unit > 0 ? 1 : 0})} ${UNITS[unit]}`;
}

/** Of microseconds: 340 µs, 12 ms, 1.4 s, 2 min 5 s. */
export function duration(usec) {
	if (usec < 999.5)
		return `${number(Math.round(usec))} µs`;
	if (usec < 999500)
		return `${number(Math.round(usec / 1000))} ms`;
	if (usec < 59.5e6)
		return `${(usec / 1e6).toLocaleString(language, {maximumFractionDigits: usec < 9.95e6 ? 1 : 0})} s`;
	const seconds = Math.round(usec / 1e6);
	return `${number(Math.floor(seconds / 60))} min ${seconds % 60} s`;
}

/** Tokens per second, of a number of tokens and microseconds; '' where that says nothing. */
export function rate(tokens, usec) {
	if (!tokens || !usec)
		return '';
	const perSecond = tokens * 1e6 / usec;
	return t('tokensPerSecond', {rate: perSecond.toLocaleString(language, {maximumFractionDigits: perSecond < 10 ? 1 : 0})});
}

/** Of microseconds since 1970: relative up to a day, then a date. */
export function when(usec, now = Date.now()) {
	const seconds = (usec / 1000 - now) / 1000;
	if (seconds > -45)
		return t('justNow');
	if (seconds > -59.5 * 60)
		return relative.format(Math.round(seconds / 60), 'minute');
	if (seconds > -23.5 * 3600)
		return relative.format(Math.round(seconds / 3600), 'hour');
	const date = new Date(usec / 1000);
	return (date.getFullYear() === new Date(now).getFullYear() ? day : dayOfYear).format(date);
}

export function exactTime(usec) {
	return exact.format(new Date(usec / 1000));
}
