// SPDX-License-Identifier: MIT
// A conversation: a window of its turns, which grows towards both ends as it is scrolled, and the reply that is being written.
//
// 1. `#turns` are consecutive turns, [#first, #past) of the conversation's. The last of them may not be the conversation's last.
// 2. What is on the screen does not move: turns in front are added with the browser's scroll anchoring, and only a view that showed the end follows it.
// 3. One reply is followed at a time: this tab's own, or one that somebody else asked for. While it is, notices about this conversation wait; when it
//    is over, what the daemon stored is asked for.
// 4. Nothing is said or added before the conversation is shown, nor if it never is.
import {get} from './api.js';
import {Sentences, announce} from './announce.js';
import {attempt, errorNote, errorView} from './dialogs.js';
import {button, fill, h, perFrame} from './dom.js';
import {t} from './i18n.js';
import {Reply} from './reply.js';
import {store} from './store.js';
import {Turn} from './turn-view.js';

const FIRST_PAGE = 24;
const PAGE = 40;
const NEAR = 1200; // px from an end at which more is loaded
const AT_END = 48; // px that still count as the end

export class TalkView {
	#turns = [];
	#first = 0;
	#past = 0;
	#reply = null;
	#pending = null; // {turns: [Turn], from}: shown, not stored yet
	#loading = false;
	#missed = false; // something was said elsewhere while this could not look
	#opened = 0;
	#shown = null; // the promise of #open()

	/** `actions`: those of Turn, and onState() when id, conversation or busy changed. */
	constructor(host, actions) {
		this.actions = actions;
		this.id = null;
		this.conversation = null;
		this.content = h('div.turns');
		this.state = h('div.talk-state', {role: 'status'});
		this.scroller = h('div.talk-scroll', {tabIndex: 0, role: 'region', 'aria-label': t('talk.turns')}, this.content, this.state);
		this.toEnd = button(t('talk.toEnd'), () => this.showEnd(), {class: 'to-end', hidden: true});
		host.append(this.scroller, this.toEnd);
		this.stuck = true;
		this.scroller.addEventListener('scroll', perFrame(() => this.#scrolled()), {passive: true});
		new ResizeObserver(() => this.#follow()).observe(this.content);
		new ResizeObserver(() => this.#follow()).observe(this.scroller);
		store.on('notice', notice => this.#noticed(notice));
		store.on('conversation', id => this.#changed(id));
	}

	get busy() {
		return this.#reply !== null;
	}

	// - opening

	/** Shows a conversation, at its end or at a turn. Throws ApiError. */
	open(id, turn = null) {
		return this.#shown = this.#open(id, turn);
	}

	async #open(id, turn) {
		const mine = ++this.#opened;
		this.#leave();
		this.id = id;
		this.conversation = store.get(id) ?? null;
		this.scroller.setAttribute('aria-busy', 'true');
		const from = turn === null ? {} : {from_turn: Math.max(0, turn - FIRST_PAGE / 2)};
		const told = await this.#ask({max_turns: FIRST_PAGE, ...from});
		if (mine !== this.#opened)
			return this.#shown;
		this.#show(told);
		if (turn === null)
			this.showEnd();
		else
			this.showTurn(turn);
		this.#followWriting(told);
		return null;
	}

	/** Whether it is shown, as soon as that is known. */
	async #isThere(id) {
		try {
			await this.#shown;
			return id === this.id;
		} catch { // which open() told
			return false;
		}
	}

	openNothing(element) {
		this.#opened++;
		this.#shown = null;
		this.#leave();
		this.id = null;
		this.conversation = null;
		fill(this.content, element);
		this.actions.onState();
	}

	#leave() {
		this.#reply?.leave();
		this.#reply = null;
		this.#pending = null;
		this.#turns = [];
		this.#first = this.#past = 0;
		this.stuck = true;
		this.sentences = null;
		fill(this.content);
		this.#say(null);
	}

	#ask(query) {
		return get(this.id, {turns: true, parts: true, max_turns: PAGE, ...query});
	}

	#show(told) {
		store.put(told);
		this.conversation = told;
		this.#turns = (told.turns ?? []).map(turn => this.#make(turn));
		this.#first = told.turns?.[0]?.turn ?? 0;
		this.#past = this.#first + this.#turns.length;
		fill(this.content, this.#turns.map(turn => turn.element), told.n_turns === 0 && h('p.talk-empty', t('talk.empty')));
		this.scroller.setAttribute('aria-busy', 'false');
		this.#offerAnswer();
		this.actions.onState();
	}

	/** A turn has its true height before the browser may leave out drawing it: what is only guessed would move what is in view. */
	#make(turn) {
		const made = new Turn(turn, this.actions);
		made.element.dataset.fresh = '';
		requestAnimationFrame(() => requestAnimationFrame(() => delete made.element.dataset.fresh));
		return made;
	}

	/** The last message has no reply: what was written was lost, or nothing was asked for. */
	#offerAnswer() {
		const offers = this.conversation?.unanswered && !this.#reply && this.#atLast;
		if (!offers && this.state.querySelector('.error')) // that stays until something is said
			return;
		this.#say(offers && h('div.unanswered', h('p', t('talk.unanswered')),
			button(t('talk.answer'), () => attempt(() => this.answer()))));
	}

	get #atLast() {
		return this.#past >= (this.conversation?.n_turns ?? 0);
	}

	#say(element) {
		fill(this.state, element);
	}

	// - the reply

	/** Says `body` in `id`, or answers what is there ({nothing: true}), unless it is left by then. */
	async send(id, body, shown) {
		if (await this.#isThere(id) && !this.#atLast)
			await this.open(id);
		if (!await this.#isThere(id) || this.busy)
			return;
		this.#begin(shown);
		this.stuck = true;
		this.#follow();
		attempt(() => this.#reply.start(body, this.conversation.revision));
	}

	answer() {
		return this.send(this.id, {nothing: true}, null);
	}

	stop() {
		return attempt(() => this.#reply?.stop());
	}

	#followWriting(told) {
		if (!told.writing || this.#reply)
			return;
		this.#begin(null);
		this.#reply.attach();
	}

	#begin(shown) {
		const turns = shown === null ? [] : [this.#make({role: shown.role ?? 'user', ...shown})];
		const growing = Turn.growing(this.actions);
		turns.push(growing);
		this.content.querySelector('.talk-empty')?.remove();
		this.content.append(...turns.map(turn => turn.element));
		this.#pending = {turns, from: this.#past, growing, begun: false, said: shown?.text !== undefined};
		this.sentences = new Sentences();
		const id = this.id;
		this.#reply = new Reply(id, (kind, data) => id === this.id && this.#told(kind, data));
		this.#say(h('p.waiting', t('talk.waiting')));
		this.actions.onState();
	}

	#told(kind, data) {
		const {growing} = this.#pending ?? {};
		if (kind === 'accepted') {
			if (this.#pending.said)
				this.actions.onAccepted?.();
			this.#pending.said = false;
			this.#say(h('p.waiting', t('talk.reading', {n: data.n_computed})));
		} else if (kind === 'progress') {
			this.#say(h('p.waiting', t('talk.progress', {done: data.done, total: data.total})));
		} else if (kind === 'delta') {
			this.#delta(growing, data);
		} else if (kind === 'done') {
			this.#finish(data);
		} else if (kind === 'broken') {
			this.#say(h('p.broken', t('talk.broken')));
			announce(t('talk.broken'));
		} else if (kind === 'resumed') {
			this.#say(null);
		} else if (kind === 'failed') {
			this.#failed(data);
		}
	}

	#delta(growing, data) {
		if (!this.#pending.begun) {
			this.#pending.begun = true;
			this.#say(null);
		}
		growing.add(data.parts ?? []);
		this.sentences.addParts(data.parts ?? []);
	}

	#finish(done) {
		const {growing} = this.#pending;
		growing.end(done);
		this.sentences.end();
		this.#say(null);
		this.#reply = null;
		this.actions.onState();
		this.#pending.done = done;
		attempt(() => this.#settle());
	}

	/** What was shown is stored now: the turns get their numbers, places and figures. */
	async #settle() {
		const {turns, from, growing, done, begun} = this.#pending ?? {};
		const id = this.id;
		this.#missed = false;
		const told = await this.#ask({from_turn: from});
		if (id !== this.id || this.#pending?.turns !== turns)
			return;
		this.#pending = null;
		this.conversation = told;
		store.put(told);
		const stored = told.turns ?? [];
		// Somebody else may have said something in between, or given a reply that nobody wrote: then what is there now is shown, as it is.
		if (!begun || stored.length !== turns.length || stored.some((turn, i) => turn.role !== turns[i].turn.role)) {
			for (const turn of turns)
				turn.element.remove();
			this.#append(stored);
		} else {
			turns.forEach((turn, i) => turn.update(turn === growing ? {run: done, finish: done.finish, ...stored[i]} : stored[i]));
			this.#turns.push(...turns);
			this.#past = from + turns.length;
		}
		this.#offerAnswer();
		this.actions.onState();
		this.#followWriting(told);
		if (this.#missed)
			await this.catchUp();
	}

	async #failed(error) {
		const {accepted} = this.#reply ?? {};
		this.#reply = null;
		const turns = this.#pending?.turns ?? [];
		this.#pending = null;
		for (const turn of turns)
			turn.element.remove();
		this.actions.onState();
		if (error.code === 'not_found') {
			store.remove(this.id);
			return;
		}
		// What was accepted is there, whatever became of its reply, and so is what others said.
		const {id} = this;
		if (accepted || error.code === 'conflict' || error.code === 'busy')
			await attempt(() => this.catchUp());
		if (accepted && (error.code === 'conflict' || error.code === 'state'))
			announce(t('talk.lost'));
		else if (accepted || this.#reply || id !== this.id)
			errorNote(error);
		else
			this.#say(errorView(error));
	}

	// - what others do

	#noticed(notice) {
		if (this.id === null || (notice.conversation !== this.id && notice.kind !== 'list_again'))
			return;
		if (this.#reply || this.#pending)
			this.#missed = true;
		else if (notice.kind === 'rewound')
			attempt(() => this.open(this.id));
		else if (['turn_begun', 'turn_ended', 'list_again'].includes(notice.kind))
			attempt(() => this.catchUp());
	}

	#changed(id) {
		if (id !== this.id)
			return;
		const now = store.get(id);
		if (now) {
			this.conversation = {...this.conversation, ...now};
			this.actions.onState();
		} else {
			this.actions.onClosed?.(id);
		}
	}

	/** Shows turns that were added elsewhere, and follows a reply that is being written. */
	async catchUp() {
		if (this.#pending?.done) // the connection broke before this was known
			await this.#settle();
		if (!await this.#isThere(this.id))
			return;
		this.#missed ||= this.#loading;
		if (this.#reply || this.#pending || this.#loading || this.id === null)
			return;
		this.#missed = false;
		const id = this.id;
		const told = await this.#ask({from_turn: this.#past});
		if (id !== this.id || this.#reply || this.#pending)
			return;
		const shrunk = told.n_turns < this.#past;
		const turns = told.turns ?? [];
		this.conversation = told;
		store.put(told);
		if (shrunk) {
			await this.open(id);
			return;
		}
		if (this.#past + turns.length >= told.n_turns)
			this.#append(turns);
		else
			this.#scrolled();
		this.#offerAnswer();
		this.actions.onState();
		if (this.#atLast)
			this.#followWriting(told);
	}

	#append(turns) {
		const fresh = turns.filter(turn => turn.turn >= this.#past).map(turn => this.#make(turn));
		this.content.querySelector('.talk-empty')?.remove();
		this.content.append(...fresh.map(turn => turn.element));
		this.#turns.push(...fresh);
		this.#past += fresh.length;
	}

	// - scrolling

	showEnd() {
		if (this.id !== null && !this.#atLast) {
			attempt(() => this.open(this.id));
			return;
		}
		this.stuck = true;
		this.scroller.scrollTop = this.scroller.scrollHeight;
		this.toEnd.hidden = true;
	}

	async showTurn(number) {
		const found = this.#turns.find(turn => turn.turn.turn === number);
		if (!found) {
			if (number >= 0 && number < (this.conversation?.n_turns ?? 0))
				await this.open(this.id, number);
			return;
		}
		this.stuck = false;
		found.element.scrollIntoView({block: 'start'});
		found.element.tabIndex = -1;
		found.element.focus({preventScroll: true});
	}

	step(by) {
		const top = this.scroller.getBoundingClientRect().top;
		let at = this.#turns.findIndex(turn => turn.element.contains(document.activeElement) && document.activeElement !== document.body);
		if (at < 0)
			at = Math.max(0, this.#turns.findIndex(turn => turn.element.getBoundingClientRect().bottom > top + 8) - (by > 0 ? 1 : 0));
		const next = this.#turns[Math.max(0, Math.min(this.#turns.length - 1, at + by))];
		if (next)
			this.showTurn(next.turn.turn);
	}

	#follow() {
		if (this.stuck)
			this.scroller.scrollTop = this.scroller.scrollHeight;
	}

	#scrolled() {
		const {scrollTop, scrollHeight, clientHeight} = this.scroller;
		this.stuck = scrollHeight - scrollTop - clientHeight < AT_END && this.#atLast;
		this.toEnd.hidden = scrollHeight - scrollTop - clientHeight < clientHeight && this.#atLast;
		if (scrollTop < NEAR && this.#first > 0)
			this.#more(() => this.#older());
		else if (scrollHeight - scrollTop - clientHeight < NEAR && !this.#atLast && !this.#pending)
			this.#more(() => this.#newer());
	}

	async #more(load) {
		if (this.#loading || this.id === null)
			return;
		this.#loading = true;
		try {
			await attempt(load);
		} finally {
			this.#loading = false;
		}
		if (this.#missed)
			attempt(() => this.catchUp());
		requestAnimationFrame(() => this.#scrolled());
	}

	async #older() {
		const id = this.id;
		const told = await this.#ask({before_turn: this.#first});
		if (id !== this.id)
			return;
		const turns = (told.turns ?? []).filter(turn => turn.turn < this.#first).map(turn => this.#make(turn));
		// Not every browser keeps its place by itself, and none does at 0.
		const top = () => this.#turns[0]?.element.getBoundingClientRect().top ?? 0;
		const before = top();
		this.content.prepend(...turns.map(turn => turn.element));
		this.scroller.scrollTop += top() - before;
		this.#turns.unshift(...turns);
		this.#first -= turns.length;
	}

	async #newer() {
		const id = this.id;
		const told = await this.#ask({from_turn: this.#past});
		if (id === this.id && !this.#reply)
			this.#append(told.turns ?? []);
	}

	refreshSiblings() {
		for (const turn of this.#turns)
			turn.refreshSiblings();
	}
}
