// SPDX-License-Identifier: MIT
// Keys. Single letters count only where nobody types, and can be switched off, since speech input would press them.
import {dialog} from './dialogs.js';
import {h, perFrame} from './dom.js';
import {t} from './i18n.js';

const SWITCH = 'confab.keys';
const LETTERS = {
	'/': 'search', n: 'new', m: 'message', j: 'next', k: 'before', ']': 'nextConversation', '[': 'conversationBefore', t: 'tree', '.': 'stop',
	G: 'end', ',': 'settings', a: 'aside',
};
const SHOWN = [...Object.entries(LETTERS), ['Ctrl K', 'search'], ['?', 'help'], ['Esc', 'escape'], ['Enter', 'send'], ['Shift Enter', 'line']];

function isTyping(target) {
	return target.closest?.('input, textarea, select, [contenteditable]') !== null;
}

export function listenToKeys(actions) {
	document.addEventListener('keydown', event => {
		if (event.defaultPrevented || document.querySelector('dialog[open]'))
			return;
		let name = null;
		if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k')
			name = 'search';
		else if (event.key === 'Escape')
			name = 'escape';
		else if (!event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target) && localStorage.getItem(SWITCH) !== 'off')
			name = event.key === '?' ? 'help' : LETTERS[event.key];
		const action = {help: showKeys, ...actions}[name];
		if (!action)
			return;
		if (name !== 'escape')
			event.preventDefault();
		action();
	});
}

/** Where what had the focus goes away, `place()` has it, and not the beginning of the page. */
export function keepFocus(place) {
	let last = null;
	const look = perFrame(() => {
		if (document.activeElement === document.body && last && !(last.isConnected && last.checkVisibility({visibilityProperty: true})))
			place().focus({preventScroll: true});
	});
	document.addEventListener('focusin', event => {
		last = event.target;
	});
	document.addEventListener('focusout', look);
	document.addEventListener('pointerdown', () => {
		last = null;
	}, true);
	new MutationObserver(look).observe(document.body, {childList: true, subtree: true, attributeFilter: ['hidden']});
}

export function showKeys() {
	const box = h('input', {type: 'checkbox', checked: localStorage.getItem(SWITCH) !== 'off', on: {change: event =>
		localStorage.setItem(SWITCH, event.target.checked ? 'on' : 'off')}});
	return dialog(t('keys.title'), h('div', h('dl.keys', SHOWN.map(([key, name]) => h('div',
		h('dt', key.split(' ').map(one => h('kbd', one))), h('dd', t(`keys.${name}`))))),
	h('p.field.check', h('label', box, ' ', t('keys.letters')))));
}
