// SPDX-License-Identifier: MIT
// Dark, light, or as the system has it.
const KEY = 'confab.theme';
export const THEMES = ['system', 'light', 'dark'];

export function theme() {
	const kept = localStorage.getItem(KEY);
	return THEMES.includes(kept) ? kept : 'system';
}

export function chooseTheme(name) {
	localStorage.setItem(KEY, name);
	applyTheme();
}

export function applyTheme() {
	const name = theme();
	if (name === 'system')
		delete document.documentElement.dataset.theme;
	else
		document.documentElement.dataset.theme = name;
}
