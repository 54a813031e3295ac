// SPDX-License-Identifier: MIT
// The memory strip: who holds how much of RAM, what is on disk, how fast it goes, who waits, and whether memory is short. A panel above
// it has the conversations and what can be done with their memory.
import {menu} from './dialogs.js';
import {button, fill, h, MENU, settled} from './dom.js';
import {bytes, rate} from './format.js';
import {t} from './i18n.js';
import {residencyDisc, setResidency} from './residency.js';
import {store} from './store.js';

const ROWS = 50;
const KINDS = ['ram', 'disk'];

/** The conversations that hold most memory, at most `most`, the largest first. */
export function largest(conversations, most) {
	const holding = [...conversations].filter(({ram_bytes, disk_bytes}) => ram_bytes > 0 || disk_bytes > 0);
	return holding.sort((a, b) => b.ram_bytes - a.ram_bytes || b.disk_bytes - a.disk_bytes || a.id - b.id).slice(0, most);
}

/**
 * The pool as segments [{kind, id, bytes, share}] that fill the bar: conversations, what others hold, what is kept for the next, what is
 * free. Memory that conversations share counts in full in each; where that is more than there is, they are drawn smaller.
 */
export function poolSegments(stats, conversations, most = 8) {
	const live = stats.pool_live_bytes ?? 0;
	const used = Math.max(live, stats.ledger_used ?? 0);
	const whole = Math.max(stats.budget ?? 0, used, 1);
	const top = largest(conversations, most).filter(({ram_bytes}) => ram_bytes > 0);
	const told = sumOf(top, 'ram_bytes');
	const scale = told > live ? live / told : 1;
	const segment = (kind, size, share = size) => ({kind, bytes: Math.round(size), share: Math.max(0, share) / whole});
	return [...top.map(({id, ram_bytes: size}) => ({id, ...segment('conversation', size, size * scale)})),
		segment('others', live - told * scale), segment('spare', used - live), segment('free', whole - used)];
}

/** Tokens per second between two polls; nothing where the daemon began anew. */
export function speeds(before, now, seconds) {
	const speed = name => before && seconds > 0 && now[name] >= before[name] ? (now[name] - before[name]) / seconds : 0;
	return {decoded: speed('tokens_decoded'), prefilled: speed('tokens_prefilled')};
}

/** Whether memory is short: the budget had to become smaller, or memory was told to be short since `before`. */
export function isPressed(before, now) {
	return now.budget < now.budget_max || now.budget_asked < now.budget_max || now.pressure_episodes > before?.pressure_episodes;
}

function sumOf(conversations, field) {
	return conversations.reduce((sum, conversation) => sum + (conversation[field] ?? 0), 0);
}

function setWidth(element, share) {
	element.style.setProperty('inline-size', `${Math.min(1, share) * 100}%`);
}

/** Changes a text only where it differs: what is selected or read stays. */
function say(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

/** What may be done with the memory of a conversation, as items of a menu: onAction(verb, id). */
export function memoryItems(id, onAction) {
	const {pinned, n_published: published} = store.get(id) ?? {};
	const item = (verb, hint = verb) => ({label: t(`act.${verb}`), hint: t(`act.${hint}.hint`), run: () => onAction(verb, id)});
	return [
		item('warm'), item('evict'), (store.mayAdminister || pinned) && item(pinned ? 'unpin' : 'pin', 'pin'),
		store.mayAdminister && item(published > 0 ? 'unpublish' : 'publish', 'publish'),
	].filter(Boolean);
}

export class Strip {
	#before = null;
	#at = 0;
	#speeds = speeds(null);
	#pressed = false;
	#rows = new Map();

	/** `actions`: onAction(verb, id): warm, evict, pin, unpin, publish, unpublish; onOpen(id). */
	constructor(host, actions) {
		this.actions = actions;
		this.pool = h('span.strip-pool');
		this.figures = h('span.strip-figures');
		this.bar = button([this.pool, this.figures], () => this.#show(this.panel.hidden), {class: 'strip-bar', 'aria-expanded': 'false'});
		this.body = h('tbody');
		this.rest = h('p.hint');
		const heads = [t('strip.conversation'), t('strip.ram'), t('strip.files'), h('span.unseen', t('strip.actions'))];
		this.panel = h('div.strip-panel', {id: 'strip-panel', hidden: true},
			h('table.strip-table', {'aria-label': t('strip.table')},
				h('thead', h('tr', heads.map(head => h('th', {scope: 'col'}, head)))), this.body), this.rest);
		this.element = h('div.strip', {on: {keydown: event => this.#key(event)}}, this.panel, this.bar);
		host.append(this.element);
		const soon = settled(() => this.#draw(), 200);
		store.on('stats', () => this.#take());
		store.on('conversation', soon);
		store.on('list', soon);
		document.addEventListener('pointerdown', event => !this.element.contains(event.target) && !event.target.closest('.menu, dialog') && this.#show(false));
		this.#draw();
	}

	#take() {
		const now = store.stats, at = performance.now();
		this.#speeds = speeds(this.#before, now, (at - this.#at) / 1000);
		this.#pressed = store.mayAdminister && isPressed(this.#before, now);
		this.#before = now;
		this.#at = at;
		this.#draw();
	}

	#draw() {
		const figures = this.#figuresOf(store.stats ?? {});
		fill(this.figures, figures.map(([kind, text, title]) =>
			[h('span.strip-figure.figures', {dataset: {kind}, title}, text), ' ']));
		this.bar.ariaLabel = `${t('strip.title')}: ${figures.map(([, text]) => text).join(', ')}`;
		this.pool.hidden = !store.mayAdminister;
		if (store.mayAdminister)
			this.#drawPool();
		if (!this.panel.hidden)
			this.#drawPanel();
	}

	/** Those that are there: [kind, text, title]. */
	#figuresOf(stats) {
		const full = store.mayAdminister;
		const own = field => bytes(sumOf([...store.conversations.values()], field));
		const {decoded, prefilled} = this.#speeds;
		const {requests_active: active, requests_queued: queued} = stats;
		return [
			['used', full ? t('strip.used', {used: bytes(Math.max(stats.ledger_used, stats.pool_live_bytes)), budget: bytes(stats.budget)})
				: t('strip.own', {ram: own('ram_bytes')})],
			['disk', t('strip.disk', {size: full ? bytes(stats.spill_disk_bytes) : own('disk_bytes')})],
			decoded + prefilled > 0 && ['speed', rate(decoded || prefilled, 1e6),
				t('strip.speed', {decoded: Math.round(decoded), prefilled: Math.round(prefilled)})],
			active > 0 && ['active', t('strip.active', {n: active})],
			queued > 0 && ['queued', t('strip.queued', {n: queued})],
			this.#pressed && ['pressure', t('strip.pressure')],
		].filter(Boolean);
	}

	#drawPool() {
		const segments = poolSegments(store.stats, store.conversations.values());
		const {children} = this.pool;
		// Those at the end are always the same ones.
		while (children.length > segments.length)
			children[0].remove();
		while (children.length < segments.length)
			this.pool.prepend(h('span.strip-segment'));
		segments.forEach(({kind, id, bytes: size, share}, i) => {
			children[i].dataset.kind = kind;
			children[i].title = t('strip.segment', {title: id ? store.titleOf(store.get(id)) : t(`strip.${kind}`), size: bytes(size)});
			children[i].hidden = share <= 0;
			setWidth(children[i], share);
		});
	}

	#show(open) {
		if (this.panel.hidden !== open)
			return;
		if (this.panel.contains(document.activeElement))
			this.bar.focus();
		this.panel.hidden = !open;
		this.bar.ariaExpanded = open;
		this.#rows.clear();
		fill(this.body);
		if (open)
			this.#drawPanel();
	}

	/** Rows stay in the order they had when the panel was opened: what is pointed at does not move. */
	#drawPanel() {
		const all = largest(store.conversations.values());
		for (const {id} of all.slice(0, ROWS))
			if (!this.#rows.has(id))
				this.#rows.set(id, this.#addRow(id));
		const most = KINDS.map(kind => Math.max(1, ...all.map(one => one[`${kind}_bytes`])));
		for (const draw of this.#rows.values())
			draw(most);
		const n = all.filter(({id}) => !this.#rows.has(id)).length;
		say(this.rest, this.#rows.size === 0 ? t('strip.none') : (n > 0 ? `${t('strip.more', {n})} ` : '') + t('strip.shared'));
	}

	/** Returns what puts the row in order, given the most bytes that one of them has of each kind. */
	#addRow(id) {
		const disc = residencyDisc();
		const name = button('', () => this.actions.onOpen(id), {class: 'quiet strip-title', dir: 'auto'});
		const notes = h('span.hint');
		const more = button('⋯', () => menu(more, memoryItems(id, this.actions.onAction)), {class: 'quiet', ...MENU});
		const shares = KINDS.map(kind => h('span.strip-share', {dataset: {kind}}));
		const figures = KINDS.map(() => h('span.figures'));
		const element = h('tr', h('th', {scope: 'row'}, h('span.strip-name', disc, name, notes)), shares.map((share, i) =>
			h('td', h('span.strip-size', h('span.strip-track', share), figures[i]))), h('td', more));
		this.body.append(element);
		return most => {
			const conversation = store.get(id);
			if (!conversation) {
				element.remove();
				this.#rows.delete(id);
				return;
			}
			const title = store.titleOf(conversation);
			setResidency(disc, conversation.residency);
			say(name, title);
			name.title = title;
			more.ariaLabel = t('strip.actionsOf', {title});
			const told = [conversation.pinned && t('list.pinned'), conversation.n_published > 0 && t('strip.published')];
			say(notes, told.filter(Boolean).join(', '));
			KINDS.forEach((kind, i) => {
				const size = conversation[`${kind}_bytes`] ?? 0;
				say(figures[i], bytes(size));
				setWidth(shares[i], size / most[i]);
			});
		};
	}

	#key(event) {
		if (event.key !== 'Escape' || this.panel.hidden)
			return;
		event.preventDefault();
		this.#show(false);
	}
}
