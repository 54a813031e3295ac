// SPDX-License-Identifier: MIT
// The list of conversations. Rows have one height and only those in view and a few more are elements, so 10,000 conversations scroll as
// ten do. Branches of one family are one row, that of the branch used last; searching shows every hit by itself.
import {call} from './api.js';
import {errorNote} from './dialogs.js';
import {button, fill, h, MENU, perFrame, settled} from './dom.js';
import {bytes, exactTime, when} from './format.js';
import {t} from './i18n.js';
import {residencyDisc} from './residency.js';
import {ASIDE, store} from './store.js';

const ROW = 52; // px: --row-height
const AROUND = 6;
const SEARCH_MS = 180;
const SEARCH_LIMIT = 100;

export class ListView {
	#rows = [];           // ids in order
	#hits = null;         // Map id -> conversation, while there is a search
	#elements = new Map();
	#current = null;
	#focused = null;
	#searching = 0;

	/** `host` is the navigation; addressOf(id) is where a row leads, onMenu(id, anchor) opens its menu. */
	constructor(host, {addressOf, onMenu, onNew}) {
		Object.assign(this, {addressOf, onMenu});
		this.search = h('input', {type: 'search', 'aria-label': t('list.search'), placeholder: t('list.search'), autocomplete: 'off', spellcheck: 'false'});
		this.tag = h('select', {'aria-label': t('list.tag'), hidden: true});
		this.count = h('p.list-count', {role: 'status'});
		this.scroller = h('div.list-scroll', {tabIndex: -1});
		this.space = h('ul.list-rows', {'aria-label': t('list.title')});
		this.scroller.append(this.space);
		fill(host, h('div.list-head',
			button(t('list.new'), onNew, {class: 'primary', id: 'new'}),
			this.search, this.tag), this.count, this.scroller);
		this.draw = perFrame(() => this.#draw());
		this.again = perFrame(() => this.#again());
		this.search.addEventListener('input', settled(() => this.#look(), SEARCH_MS));
		this.search.addEventListener('keydown', event => this.#searchKey(event));
		this.tag.addEventListener('change', () => this.#look());
		this.scroller.addEventListener('scroll', this.draw, {passive: true});
		this.space.addEventListener('keydown', event => this.#key(event));
		this.space.addEventListener('focusin', event => {
			this.#focused = Number(event.target.closest('li')?.dataset.id) || this.#focused;
		});
		new ResizeObserver(this.draw).observe(this.scroller);
		store.on('list', this.again);
		store.on('conversation', id => this.#age([id]));
		setInterval(() => this.#age(this.#elements.keys()), 60000);
		this.again();
	}

	setCurrent(id) {
		this.#current = id;
		this.again();
	}

	focusSearch() {
		this.search.focus();
		this.search.select();
	}

	/** The id before or behind the open one, in the order of the list. */
	neighbour(step) {
		const at = this.#rows.indexOf(this.#current);
		return this.#rows[Math.max(0, Math.min(this.#rows.length - 1, at < 0 ? 0 : at + step))];
	}

	// - which rows there are

	async #look() {
		const mine = ++this.#searching;
		const words = this.search.value.trim(), tag = this.tag.value;
		if (!words && !tag) {
			this.#hits = null;
			this.again();
			return;
		}
		try {
			const page = await call('GET', 'conversations', {query: {search: words || null, tag: tag || null, limit: SEARCH_LIMIT, order: 'updated'}});
			if (mine !== this.#searching)
				return;
			const seen = page.conversations.filter(found => found.about?.session !== ASIDE && !store.hidden.has(found.id));
			this.#hits = new Map(seen.map(found => [found.id, found]));
			this.scroller.scrollTop = 0;
		} catch (error) {
			// What was found before stays: nothing was looked at, so nothing is said to be missing.
			if (mine === this.#searching)
				errorNote(error);
		}
		this.again();
	}

	#again() {
		this.#rows = this.#hits ? [...this.#hits.keys()].filter(id => !store.hidden.has(id) && store.get(id)) : this.#families();
		const none = store.conversations.size === 0 && store.complete;
		this.count.textContent = this.#hits ? t('list.found', {n: this.#rows.length}) : none ? t('list.empty') : '';
		this.count.hidden = this.count.textContent === '';
		this.#tags();
		this.space.style.setProperty('height', `${this.#rows.length * ROW}px`);
		this.#age(this.#elements.keys());
		this.#draw();
	}

	/** One of each family: the open one, or the one that was used last. */
	#families() {
		const rows = [], at = new Map();
		for (const id of store.ids()) {
			const root = store.families.rootOf(id);
			if (!at.has(root)) {
				at.set(root, rows.length);
				rows.push(id);
			} else if (id === this.#current) {
				rows[at.get(root)] = id;
			}
		}
		return rows;
	}

	#tags() {
		const all = new Set();
		for (const conversation of store.conversations.values())
			for (const tag of conversation.about?.tags ?? [])
				all.add(tag);
		const wanted = [...all].sort((a, b) => a.localeCompare(b));
		const known = [...this.tag.options].slice(1).map(option => option.value);
		if (wanted.join('\n') === known.join('\n'))
			return;
		const chosen = this.tag.value;
		fill(this.tag, h('option', {value: ''}, t('list.allTags')), wanted.map(tag => h('option', {value: tag, selected: tag === chosen}, tag)));
		this.tag.hidden = wanted.length === 0;
	}

	/** What these rows tell may be another thing now. */
	#age(ids) {
		for (const id of ids)
			if (this.#elements.has(id))
				this.#elements.get(id).dataset.old = '1';
		this.draw();
	}

	// - rows in view

	#draw() {
		const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - AROUND);
		const last = Math.min(this.#rows.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / ROW) + AROUND);
		const wanted = new Set(this.#rows.slice(first, last));
		const focused = this.#focused !== null && this.#rows.includes(this.#focused) ? this.#focused : null;
		if (focused !== null && this.#elements.get(focused)?.contains(document.activeElement))
			wanted.add(focused);
		for (const [id, element] of this.#elements)
			if (!wanted.has(id)) {
				element.remove();
				this.#elements.delete(id);
			}
		const stop = this.#stop(focused, first);
		for (let i = first; i < last; i++)
			this.#drawRow(this.#rows[i], i, stop);
	}

	/** The one row that Tab stops at. */
	#stop(focused, first) {
		if (focused !== null)
			return focused;
		return this.#rows.includes(this.#current) ? this.#current : this.#rows[first];
	}

	#drawRow(id, index, stop) {
		let element = this.#elements.get(id);
		if (!element) {
			// What can have the focus stays: dialogs give it back to where it was.
			element = h('li', {dataset: {id, old: '1'}}, h('a.row'), button('⋯', event => this.onMenu(id, event.currentTarget), {class: 'row-menu quiet', ...MENU}));
			this.#elements.set(id, element);
		}
		if (element.dataset.old === '1') {
			this.#fillRow(element, id);
			delete element.dataset.old;
		}
		element.style.setProperty('transform', `translateY(${index * ROW}px)`);
		element.ariaPosInSet = index + 1;
		element.ariaSetSize = this.#rows.length;
		for (const one of element.children)
			one.tabIndex = id === stop ? 0 : -1;
		// The order of elements is that of reading.
		if (!element.isConnected || element.dataset.index !== String(index)) {
			element.dataset.index = index;
			const next = [...this.space.children].find(child => Number(child.dataset.index) > index && child !== element) ?? null;
			const focused = element.contains(document.activeElement) && document.activeElement;
			if (element.nextElementSibling !== next || !element.isConnected)
				this.space.insertBefore(element, next);
			if (focused)
				focused.focus({preventScroll: true});
		}
	}

	#fillRow(element, id) {
		const conversation = store.get(id) ?? this.#hits?.get(id);
		if (!conversation)
			return;
		const title = store.titleOf(conversation);
		const branches = this.#hits ? 1 : store.families.membersOf(id).filter(member => !store.hidden.has(member)).length;
		const snippet = this.#hits?.get(id)?.hit?.snippet;
		const [link, more] = element.children;
		link.href = this.addressOf(id);
		link.ariaCurrent = id === this.#current ? 'page' : null;
		more.ariaLabel = t('list.menuOf', {title});
		fill(link, residencyDisc(conversation.residency),
			h('span.row-title', {dir: 'auto'}, title),
			h('span.row-when', {title: exactTime(conversation.updated_usec)}, this.#state(conversation)),
			h('span.row-more', {dir: snippet ? 'auto' : null}, snippet ?? this.#more(conversation, branches)));
	}

	#state(conversation) {
		if (conversation.generating)
			return h('span.writing', t('list.writing'));
		return when(conversation.updated_usec);
	}

	#more(conversation, branches) {
		const words = [branches > 1 ? t('list.branches', {n: branches}) : t('turns', {n: conversation.n_turns})];
		const size = conversation.ram_bytes || conversation.disk_bytes;
		words.push(size ? bytes(size) : t('tokens', {n: conversation.n_tokens}));
		for (const tag of conversation.about?.tags ?? [])
			words.push(`#${tag}`);
		if (conversation.pinned)
			words.unshift(t('list.pinned'));
		return words.join(' · ');
	}

	// - keys

	#searchKey(event) {
		if (event.key === 'Escape' && this.search.value) {
			this.search.value = '';
			this.#look();
			event.preventDefault();
		} else if (event.key === 'ArrowDown' && this.#rows.length > 0) {
			this.#focusRow(0);
			event.preventDefault();
		}
	}

	#key(event) {
		const at = this.#rows.indexOf(Number(event.target.closest('li')?.dataset.id));
		const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 1);
		const steps = {ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.#rows.length - 1};
		if (at < 0 || !(event.key in steps))
			return;
		event.preventDefault();
		if (event.key === 'ArrowUp' && at === 0)
			this.search.focus();
		else
			this.#focusRow(Math.max(0, Math.min(this.#rows.length - 1, steps[event.key])));
	}

	#focusRow(index) {
		const top = index * ROW;
		if (top < this.scroller.scrollTop)
			this.scroller.scrollTop = top;
		else if (top + ROW > this.scroller.scrollTop + this.scroller.clientHeight)
			this.scroller.scrollTop = top + ROW - this.scroller.clientHeight;
		this.#focused = this.#rows[index];
		this.#draw();
		this.#elements.get(this.#focused)?.querySelector('a').focus({preventScroll: true});
	}
}
