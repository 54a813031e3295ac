// SPDX-License-Identifier: MIT
// The words of the page, in the language that was chosen, or else the browser's. A new language is a file of words and a row here.
import de from './words-de.js';
import en from './words-en.js';

/** Words by their whole keys, `group.key`; an object is a group, unless it has plural forms. */
export function flat(words, prefix = '') {
	return Object.fromEntries(Object.entries(words).flatMap(([key, text]) => typeof text === 'object' && !('other' in text)
		? Object.entries(flat(text, `${prefix}${key}.`)) : [[prefix + key, text]]));
}

const LANGUAGES = {en, de};
const KEY = 'confab.language';

function choose() {
	const asked = [localStorage.getItem(KEY), ...(navigator.languages ?? [])];
	for (const tag of asked) {
		const language = tag?.split('-')[0];
		if (language && Object.hasOwn(LANGUAGES, language))
			return language;
	}
	return 'en';
}

export const language = choose();
export const languages = Object.keys(LANGUAGES);
const words = flat(LANGUAGES[language]);
const english = flat(en);
const plurals = new Intl.PluralRules(language);

/** Takes effect with the next load of the page. */
export function chooseLanguage(name) {
	localStorage.setItem(KEY, name);
	location.reload();
}

/** Whether there are words of this name. */
export function hasWords(key) {
	return Object.hasOwn(words, key) || Object.hasOwn(english, key);
}

/**
 * The words of a key, with {name} replaced by values.name. Words that depend on a number are an object of plural forms
 * (one, other), chosen by values.n. What a language has not is told in English; an unknown key is told as it is.
 */
export function t(key, values = {}) {
	let text = [words, english].find(all => Object.hasOwn(all, key))?.[key] ?? key;
	if (typeof text === 'object')
		text = text[plurals.select(Number(values.n ?? 0))] ?? text.other;
	return text.replace(/\{(\w+)\}/g, (all, name) => {
		const value = values[name];
		if (value === undefined)
			return all;
		return typeof value === 'number' ? value.toLocaleString(language) : String(value);
	});
}
