// SPDX-License-Identifier: MIT
// What floats: dialogs, menus, and notes at the lower edge that go by themselves. Dialogs are the browser's own (<dialog>), so focus stays
// inside and comes back. A note with an undo stays long enough to be reached by keyboard, and while it has the focus or the pointer.
import {button, fill, h} from './dom.js';
import {hasWords, t} from './i18n.js';

const NOTE_MS = 6000;
const UNDO_MS = 12000;

/** What an error means and what to do about it, as two sentences; the daemon's own is in `detail` where it says more. */
export function errorWords(error) {
	const key = `error.${error.code}`;
	const known = hasWords(key);
	return {
		what: known ? t(key) : t('error.unknown'),
		todo: hasWords(`${key}.do`) ? t(`${key}.do`) : t('error.unknown.do'),
		detail: error.code === 'offline' ? '' : error.message ?? '',
	};
}

export function errorView(error, ...actions) {
	const {what, todo, detail} = errorWords(error);
	return h('div.error', {role: 'alert'},
		h('p', h('strong', what), ' ', todo),
		detail && h('p.error-detail', {dir: 'auto'}, detail),
		actions.length > 0 && h('p.actions', actions));
}

/**
 * A dialog with a title. `content` is an element; `actions` are [{label, run, primary, danger}]: `run` may be asynchronous, and an error of it is
 * shown in the dialog, which then stays. Resolves when it is closed.
 */
export function dialog(title, content, actions = []) {
	const failed = h('div');
	const buttons = actions.map(action => h('button', {
		type: 'submit', value: action.label, class: action.primary ? 'primary' : action.danger ? 'danger' : null,
		on: {click: event => run(event, action)},
	}, action.label));
	const element = h('dialog', {'aria-labelledby': 'dialog-title'},
		h('form', {method: 'dialog'},
			h('h2', {id: 'dialog-title'}, title), content, failed,
			h('p.actions', buttons, h('button', {type: 'submit', formnovalidate: true}, actions.length > 0 ? t('cancel') : t('close')))));

	async function run(event, action) {
		event.preventDefault();
		if (!element.querySelector('form').reportValidity())
			return;
		try {
			await action.run?.();
			element.close();
		} catch (error) {
			fill(failed, errorView(error));
		}
	}
	document.body.append(element);
	element.showModal();
	return new Promise(resolve => element.addEventListener('close', () => {
		element.remove();
		resolve();
	}));
}

/**
 * A menu below `anchor`, a button with aria-haspopup. `items` are [{label, run, hint, disabled}] or null for a line. Arrow keys, Home, End, Escape
 * and first letters work as in any menu.
 */
export function menu(anchor, items) {
	closeMenu();
	const entries = items.map(item => item === null ? h('hr') : button(item.label, () => {
			if (item.disabled)
				return;
			close();
			item.run();
		}, {role: 'menuitem', tabIndex: -1, 'aria-disabled': item.disabled ? 'true' : null, title: item.hint}));
	const element = h('div.menu', {role: 'menu', 'aria-label': anchor.getAttribute('aria-label') ?? anchor.textContent}, entries);
	const buttons = entries.filter(entry => entry.tagName === 'BUTTON');
	const at = () => place(element, anchor.getBoundingClientRect());

	function close() {
		if (!element.isConnected)
			return;
		element.remove();
		anchor.setAttribute('aria-expanded', 'false');
		document.removeEventListener('pointerdown', outside, true);
		removeEventListener('resize', at);
		anchor.focus();
	}
	function outside(event) {
		if (!element.contains(event.target) && event.target !== anchor)
			close();
	}
	element.addEventListener('keydown', event => moveInMenu(event, buttons, close));
	anchor.setAttribute('aria-expanded', 'true');
	anchor.closest('dialog, #frame > *').append(element);
	at();
	document.addEventListener('pointerdown', outside, true);
	addEventListener('resize', at);
	element.closeMenu = close;
	buttons[0]?.focus();
}

function closeMenu() {
	for (const element of document.querySelectorAll('.menu'))
		element.closeMenu?.();
}

function moveInMenu(event, buttons, close) {
	const at = buttons.indexOf(document.activeElement);
	const steps = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1};
	if (event.key in steps) {
		buttons[(steps[event.key] + buttons.length) % buttons.length].focus();
	} else if (event.key === 'Escape' || event.key === 'Tab') {
		close();
	} else if (event.key.length === 1 && event.key !== ' ') {
		const letter = event.key.toLowerCase();
		const order = [...buttons.slice(at + 1), ...buttons.slice(0, at + 1)];
		order.find(button => button.textContent.toLowerCase().startsWith(letter))?.focus();
	} else {
		return;
	}
	event.preventDefault();
	event.stopPropagation();
}

function place(element, anchor) {
	const box = element.getBoundingClientRect();
	const left = document.documentElement.dir === 'rtl' ? anchor.left : anchor.right - box.width;
	const below = anchor.bottom + 4;
	element.style.setProperty('left', `${Math.max(4, Math.min(left, innerWidth - box.width - 4))}px`);
	element.style.setProperty('top', `${below + box.height > innerHeight - 4 ? Math.max(4, anchor.top - box.height - 4) : below}px`);
}

/** A note: a sentence, and perhaps `undo`; `onGone` is called when it went without that. Returns a function that takes it away. */
export function note(text, {undo, onGone, kind} = {}) {
	let timer = 0, taken = false;
	const act = undo && button(t('undo'), () => {
		taken = true;
		gone();
		undo();
	});
	const element = h('div.note', {dataset: {kind: kind ?? 'plain'}}, h('span', {dir: 'auto'}, text), act,
		button('×', () => gone(), {class: 'quiet', 'aria-label': t('dismiss')}));

	function gone() {
		clearTimeout(timer);
		if (!element.isConnected)
			return;
		element.remove();
		if (!taken)
			onGone?.();
	}
	function start() {
		clearTimeout(timer);
		timer = setTimeout(() => element.matches(':hover, :focus-within') ? start() : gone(), undo ? UNDO_MS : NOTE_MS);
	}
	document.getElementById('notes').append(element);
	start();
	return gone;
}

export function errorNote(error) {
	const {what, todo, detail} = errorWords(error);
	return note([what, todo, detail && `(${detail})`].filter(Boolean).join(' '), {kind: 'error'});
}

/** Runs something asynchronous; what fails is told in a note. */
export async function attempt(fn) {
	try {
		await fn();
	} catch (error) {
		if (error.name !== 'AbortError') {
			errorNote(error);
			if (error.name !== 'ApiError')
				console.error(error);
		}
	}
}
