// SPDX-License-Identifier: MIT
// What is known of conversations, figures and models, and who is told when it changes. The daemon has the truth: here is a copy that
// the Watch stream keeps true (watch.js).
//
// 1. `conversations` has every conversation once, as the interface tells it, without turns.
// 2. The order is that of the list: latest change first.
// 3. Listeners are told after the change. `list`: which there are, or their order; `conversation`: one of them (its id); `notice`: a notice of
//    Watch, after it was taken in; `stats`; `models`; `connection`.
import {call, get} from './api.js';
import {Families} from './families.js';

const FIRST_PAGE = 60;
const PAGE = 256;
/** The session of throw-away questions: they are in no list. */
export const ASIDE = 'confab-page:aside';

class Store {
	conversations = new Map();
	families = new Families();
	complete = false;
	stats = null;
	models = [];
	model = null;
	connection = 'connecting';
	#order = null; // sorted when somebody asks
	#listeners = new Map();
	#loading = 0;
	#onDisk = []; // bytes, as the last two figures told them
	/** Conversations that were closed here, for as long as that can be undone. */
	hidden = new Set();

	on(kind, fn) {
		if (!this.#listeners.has(kind))
			this.#listeners.set(kind, new Set());
		this.#listeners.get(kind).add(fn);
		return () => this.#listeners.get(kind).delete(fn);
	}

	tell(kind, what) {
		for (const fn of [...this.#listeners.get(kind) ?? []])
			fn(what);
	}

	get(id) {
		return this.conversations.get(id);
	}

	/** Ids of those that are shown, latest change first. */
	ids() {
		this.#order ??= [...this.conversations.values()].sort((a, b) => b.updated_usec - a.updated_usec || b.id - a.id).map(one => one.id);
		return this.hidden.size > 0 ? this.#order.filter(id => !this.hidden.has(id)) : this.#order;
	}

	get mayAdminister() {
		return this.stats?.pool_capacity_blocks !== undefined;
	}

	titleOf(conversation) {
		return conversation?.about?.title || conversation?.name || '';
	}

	/** A conversation as it is now; turns are not kept. */
	put(told) {
		if (told.about?.session === ASIDE)
			return;
		const {turns, tokens, writing, first_turn, ...conversation} = told;
		const before = this.conversations.get(conversation.id);
		this.conversations.set(conversation.id, conversation);
		if (!before || before.parent !== conversation.parent)
			this.families.put(conversation);
		if (!before || before.updated_usec !== conversation.updated_usec) {
			this.#order = null;
			this.tell('list');
		}
		this.tell('conversation', conversation.id);
	}

	remove(id) {
		const conversation = this.conversations.get(id);
		this.hidden.delete(id);
		if (!conversation)
			return;
		this.#order = null;
		this.conversations.delete(id);
		// As the daemon does: its forks are its parent's.
		for (const child of conversation.parent ? [...this.families.childrenOf(id)] : [])
			this.put({...this.get(child), parent: conversation.parent, fork_pos: Math.min(this.get(child).fork_pos ?? 0, conversation.fork_pos ?? 0)});
		this.families.remove(id);
		this.tell('list');
		this.tell('conversation', id);
	}

	hide(id, hidden) {
		if (hidden)
			this.hidden.add(id);
		else
			this.hidden.delete(id);
		this.tell('list');
		this.tell('conversation', id);
	}

	/** Reads the list anew, page by page; what is there no longer goes at the end. A later call ends an earlier one. */
	async load() {
		const mine = ++this.#loading;
		const before = [...this.conversations.keys()], seen = new Set();
		let cursor, limit = FIRST_PAGE;
		this.complete = false;
		for (;;) {
			const page = await call('GET', 'conversations', {query: {order: 'updated', limit, cursor}});
			if (mine !== this.#loading)
				return;
			this.#takePage(page.conversations, seen);
			if (!page.more)
				break;
			({cursor} = page);
			limit = PAGE;
		}
		this.complete = true;
		this.tell('list');
		// One that changed while the list was read may have passed to a page that was read already.
		for (const id of before)
			if (!seen.has(id) && mine === this.#loading)
				await this.refresh(id);
	}

	#takePage(conversations, seen) {
		const listeners = this.#listeners;
		// One word for a page, not one for each of it.
		this.#listeners = new Map();
		try {
			for (const conversation of conversations) {
				seen.add(conversation.id);
				this.put(conversation);
			}
		} finally {
			this.#listeners = listeners;
		}
		this.tell('list');
	}

	async refresh(id) {
		try {
			this.put(await get(id));
		} catch (error) {
			if (error.code !== 'not_found')
				throw error;
			this.remove(id);
		}
	}

	async refreshStats() {
		this.stats = await call('GET', 'stats');
		this.tell('stats');
		// What is idle is written to disk without a notice, and told of a conversation a little later than here: so it is asked for twice.
		const {spill_disk_bytes: now} = this.stats;
		const changed = this.#onDisk.some(before => before !== now);
		this.#onDisk = [this.#onDisk.at(-1), now];
		if (this.complete && changed) {
			const {conversations} = await call('GET', 'conversations', {query: {order: 'updated', limit: FIRST_PAGE}});
			this.#takePage(conversations.filter(({id, updated_usec}) => updated_usec >= this.get(id)?.updated_usec), new Set());
		}
	}

	/** Which daemons there are; the one that is asked is `model`. */
	async refreshModels(name) {
		const told = await call('GET', 'models');
		this.models = told.models;
		this.model = told.models.find(model => name && model.name === name) ?? told.models[0] ?? null;
		this.tell('models');
	}

	setConnection(connection) {
		if (connection === this.connection)
			return;
		this.connection = connection;
		this.tell('connection', connection);
	}
}

export const store = new Store();
