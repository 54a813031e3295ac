// SPDX-License-Identifier: MIT
// The family of the open conversation, drawn. Each row is an element of a tree (role=tree) with its own pieces of lines, so what is read
// aloud is what is seen; only the rows in view are there, and the one that has the focus.
import {errorView} from './dialogs.js';
import {button, fill, h, perFrame, settled, svg} from './dom.js';
import {loadTurns} from './family-turns.js';
import {t} from './i18n.js';
import {RESIDENCIES, residencyDisc} from './residency.js';
import {store} from './store.js';
import {buildTree, layoutTree, neighbour} from './tree-model.js';

const ROW = 1.75, TIP = 2.75; // heights, rem
const LANE = 18, NARROWEST = 6, GAP = 14; // px
const PADDING = 8; // px above the first row and below the last one
const MARGIN = 600; // px that are drawn above and below what is seen
const KEYS = {ArrowUp: 'up', ArrowDown: 'down', ArrowLeft: 'left', ArrowRight: 'right', Home: 'home', End: 'end'};
const KEYS_RTL = {...KEYS, ArrowLeft: 'right', ArrowRight: 'left'};
const NOTHING = buildTree([]);

export class TreeView {
	#id = null;
	#turns = new Map();
	#root = NOTHING;
	#layout = layoutTree(NOTHING);
	#open = new Set(); // keys of folds
	#active = null; // key of the row where Tab stops
	#marked = null; // id of the conversation that is to be compared
	#rows = new Map(); // elements by key
	#load = new AbortController();

	/** `actions`: onOpen(id, turn), onCompare(idA, idB), onFork(id, turn). A turn is its number, undefined for none; a fork keeps it. */
	constructor(host, actions) {
		this.actions = actions;
		this.said = h('p.tree-said.hint', {role: 'status'}, t('tree.keys'));
		this.list = h('ul.tree-rows', {role: 'tree', 'aria-label': t('tree.title'), on: {
			keydown: event => this.#key(event), click: event => this.#click(event), focusin: event => {
				this.#active = event.target.closest('li').dataset.key;
				this.#draw();
			},
		}});
		this.scroller = h('div.tree-scroll', {on: {scroll: perFrame(() => this.#draw())}}, this.list);
		this.failed = h('div');
		this.element = h('div.tree', this.scroller, this.failed, this.said);
		host.append(this.element);
		const soon = settled(() => this.#follow(), 60);
		this.stops = [store.on('list', soon), store.on('conversation', id => this.#isRelated(id) && soon())];
		new ResizeObserver(perFrame(() => this.#place())).observe(this.scroller);
	}

	/** Shows the family of a conversation, its end in view; null shows nothing. */
	async show(id) {
		if (!this.#isRelated(id)) {
			this.#root = NOTHING;
			this.#turns.clear();
			this.#open.clear();
			this.#mark(null);
		}
		this.#id = id;
		// Where a branch was chosen here, its row stays under the pointer.
		const stays = this.#layout.index.get(this.#active)?.conversations.includes(id);
		this.#active = stays ? this.#active : null;
		this.#lay(stays ? this.#anchor() : null);
		await this.#follow();
	}

	destroy() {
		this.#id = null;
		this.#load.abort();
		for (const stop of this.stops)
			stop();
		this.element.remove();
	}

	#isRelated(id) {
		return store.families.rootOf(id) === store.families.rootOf(this.#id);
	}

	async #follow() {
		this.#load.abort();
		const id = this.#id;
		if (!store.get(id))
			return;
		const {signal} = this.#load = new AbortController();
		fill(this.failed);
		this.list.ariaBusy = 'true';
		try {
			const shown = store.families.membersOf(id).filter(other => other === id || !store.hidden.has(other));
			this.#root = buildTree(await loadTurns(shown, this.#turns, signal));
			this.#lay();
		} catch (error) {
			if (signal.aborted)
				return;
			if (error.name !== 'ApiError')
				throw error;
			fill(this.failed, errorView(error, button(t('retry'), () => this.#follow())));
		}
		this.list.ariaBusy = 'false';
	}

	/** New places; what has the focus, or was at the top of the view, stays where it was. */
	#lay(anchor = this.#anchor()) {
		this.#layout = layoutTree(this.#root, {pathOf: this.#id, open: this.#open});
		if (!this.#layout.index.has(this.#active))
			this.#active = neighbour(this.#layout, this.#layout.rows[0]?.key, 'end');
		this.#place(anchor);
	}

	#anchor() {
		const {scrollTop, clientHeight} = this.scroller;
		const {rows, index} = this.#layout;
		const row = [index.get(this.#active), ...rows].find(one => one?.top >= scrollTop && one.bottom <= scrollTop + clientHeight);
		return row && {key: row.key, offset: row.top - scrollTop};
	}

	#place(anchor = this.#anchor()) {
		const {rows, index, lanes} = this.#layout;
		const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
		let at = PADDING;
		for (const row of rows) {
			row.top = at;
			row.bottom = at += Math.round((row.kind === 'tip' ? TIP : ROW) * rem);
		}
		this.list.style.setProperty('block-size', `${at + PADDING}px`);
		this.lane = Math.max(NARROWEST, Math.min(LANE, this.scroller.clientWidth * 0.4 / lanes));
		const kept = index.get(anchor?.key);
		if (kept)
			this.scroller.scrollTop = kept.top - anchor.offset;
		if (!kept || kept.key === this.#active)
			this.#reveal();
		this.#draw();
	}

	/** Scrolls as little as is needed to have the active row in view. */
	#reveal() {
		const row = this.#layout.index.get(this.#active);
		const {scrollTop, clientHeight} = this.scroller;
		if (row)
			this.scroller.scrollTop = Math.max(Math.min(scrollTop, row.top - PADDING), row.bottom + PADDING - clientHeight);
	}

	/** The rows in view, in their order; elements that stay are not touched but for what changed. */
	#draw() {
		const {scrollTop, clientHeight} = this.scroller;
		const wanted = this.#layout.rows.filter(({key, top, bottom}) =>
			key === this.#active || (bottom > scrollTop - MARGIN && top < scrollTop + clientHeight + MARGIN));
		const focused = this.list.contains(document.activeElement);
		const before = this.#rows;
		this.#rows = new Map(wanted.map(row => [row.key, this.#drawRow(row, before.get(row.key))]));
		for (const [key, element] of before)
			if (!this.#rows.has(key))
				element.remove();
		let next = this.list.firstChild;
		for (const element of this.#rows.values())
			if (element === next)
				next = next.nextSibling;
			else
				this.list.insertBefore(element, next);
		if (focused && !this.list.contains(document.activeElement))
			this.#rows.get(this.#active)?.focus({preventScroll: true});
	}

	#drawRow(row, before) {
		const {key, kind, tip, node} = row;
		const element = before ?? h('li', {role: 'treeitem', class: 'tree-row', dataset: {key, kind}});
		const conversation = store.get(tip);
		const text = {
			root: () => t('tree.beginning'), turn: () => node.text || t('tree.wordless'), fold: () => t('turns', {n: row.nodes.length}),
			tip: () => store.titleOf(conversation),
		}[kind]();
		Object.assign(element, {
			ariaLevel: row.x + 1, ariaPosInSet: row.place, ariaSetSize: row.group.size, tabIndex: key === this.#active ? 0 : -1,
			ariaSelected: tip === this.#marked, ariaCurrent: tip === this.#id ? 'true' : null, ariaExpanded: row.open ?? null,
			ariaLabel: kind === 'turn' ? `${t(`role.${node.turn.role}`)}: ${text}` : null,
		});
		element.dataset.role = node?.turn?.role ?? '';
		element.toggleAttribute('data-strong', row.strong);
		element.toggleAttribute('data-writing', Boolean(conversation?.generating));
		element.style.setProperty('inset-block-start', `${row.top}px`);
		element.style.setProperty('--tree-at', `${this.#x(row.x)}px`);
		const content = [this.#lines(row),
			kind === 'tip' ? this.#tip(tip, text, conversation) : h('span.tree-text', {dir: 'auto', title: text}, text)];
		// What is pressed, or read, stays the same element.
		if (!content.every((part, i) => part.isEqualNode(element.children[i])))
			fill(element, content);
		return element;
	}

	#tip(id, title, conversation) {
		const says = words => [h('span.hint', words), ' '];
		return h('span.tree-tip',
			h('span.tree-title', {dir: 'auto', title}, title), ' ', residencyDisc(conversation?.residency), ' ',
			conversation?.generating && says(t('tree.writing')), id === this.#marked && says(t('tree.marked')),
			id !== this.#id && h('button', {type: 'button', class: 'quiet tree-compare', tabIndex: -1}, t('tree.compare')));
	}

	#x(lane) {
		return (lane + 0.6) * this.lane;
	}

	/** The pieces of lines that pass a row, and its mark. */
	#lines(row) {
		const {y} = row, height = row.bottom - row.top, middle = height / 2;
		const edges = this.#layout.edges.filter(({lane, toLane, start, end}) => y <= end && y >= (lane === toLane ? start : end));
		// What is strong comes last, so it lies above.
		const lines = edges.sort((a, b) => a.row.strong - b.row.strong).map(({row: {strong, conversations}, lane, toLane, start, end}) => {
			const at = this.#x(lane);
			const d = lane === toLane ? `M${at} ${y === start ? middle : 0}V${y === end ? middle : height}`
				: `M${at} 0Q${at} ${middle} ${at + this.lane} ${middle}`;
			return svg('path', {class: strong ? 'tree-line strong' : 'tree-line', 'data-residency': bestResidency(conversations), d});
		});
		// Nothing is to the right of a row's own mark, so its text may begin there.
		const x = this.#x(row.x), width = x + GAP;
		return svg('svg', {class: 'tree-lines', 'aria-hidden': 'true', width, height, viewBox: `0 0 ${width} ${height}`},
			lines, mark(row, x, middle));
	}

	/** The conversation and the turn that a row stands for. */
	#meant({conversations, node, tip}) {
		return [conversations.includes(this.#id) ? this.#id : tip ?? node.owner, node?.turn?.turn];
	}

	#enter(row) {
		if (row.kind !== 'fold') {
			this.actions.onOpen(...this.#meant(row));
			return;
		}
		if (!this.#open.delete(row.key))
			this.#open.add(row.key);
		this.#lay();
	}

	#compare(id) {
		const other = this.#marked ?? this.#id;
		this.#mark(null);
		if (id !== other)
			this.actions.onCompare(other, id);
	}

	#mark(id) {
		this.#marked = id;
		this.said.toggleAttribute('data-marked', id !== null);
		this.said.textContent = id === null ? t('tree.keys') : t('tree.isMarked', {title: store.titleOf(store.get(id))});
		this.#draw();
	}

	#activate(key) {
		this.#active = key;
		this.#reveal();
		this.#draw();
		this.#rows.get(key).focus({preventScroll: true});
	}

	#click(event) {
		const row = this.#layout.index.get(event.target.closest('li')?.dataset.key);
		if (!row)
			return;
		this.#activate(row.key);
		if (event.target.closest('button'))
			this.#compare(row.tip);
		else
			this.#enter(row);
	}

	#key(event) {
		const row = this.#layout.index.get(this.#active);
		if (!row || event.ctrlKey || event.altKey || event.metaKey)
			return;
		const [id, turn] = this.#meant(row);
		const direction = (getComputedStyle(this.list).direction === 'rtl' ? KEYS_RTL : KEYS)[event.key];
		if (direction)
			this.#activate(neighbour(this.#layout, row.key, direction) ?? row.key);
		else if (event.key === 'Enter' || event.key === ' ')
			this.#enter(row);
		else if (event.key === 'c' && this.#marked === null)
			this.#mark(id);
		else if (event.key === 'c')
			this.#compare(id);
		else if (event.key === 'f' && turn !== undefined)
			this.actions.onFork(id, turn);
		else
			return;
		event.preventDefault();
	}
}

/** Where the best kept of these conversations is: they share the memory of their turns. */
function bestResidency(ids) {
	return RESIDENCIES[Math.max(0, ...ids.map(id => RESIDENCIES.indexOf(store.get(id)?.residency)))];
}

/** The mark of a row: square for the user, round for the assistant, small for the rest; the end of a conversation has its disc. */
function mark({kind, node, strong}, x, y) {
	const own = strong ? 'tree-node strong' : 'tree-node';
	const circle = (r, name, cy = y) => svg('circle', {class: name, cx: x, cy, r});
	const box = (height, name, rx) => svg('rect', {class: name, x: x - 4, y: y - height / 2, width: 8, height, rx});
	if (kind === 'tip')
		return circle(5, 'tree-hole');
	if (kind === 'fold')
		return [box(18, 'tree-hole'), [-5, 0, 5].map(offset => circle(1.5, `${own} dot`, y + offset))];
	if (node.turn?.role === 'user')
		return box(8, own, 1.5);
	return circle(node.turn?.role === 'assistant' ? 4.25 : 2.5, own);
}
