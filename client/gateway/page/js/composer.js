// SPDX-License-Identifier: MIT
// Where messages are written: text, files, what the prompt will cost, sending and stopping. A draft is kept for each conversation, and goes only
// when its message was accepted.
import {getModel} from './api.js';
import {joinFiles} from './attachments.js';
import {costOf, countTokens} from './cost.js';
import {attempt, note} from './dialogs.js';
import {button, fill, h, settled} from './dom.js';
import {t} from './i18n.js';
import {store} from './store.js';

const COST_MS = 250;
const FILE_LIMIT = 1 << 20;

export class Composer {
	#files = [];
	#edited = null;
	#sent = null;
	#asked = null;
	#key = null;
	#draft = null; // where it is kept; until a conversation is open nowhere
	#sending = false; // there is no reply to stop yet

	/** `actions`: onSend(text, {edited}), until the reply has begun, onStop(), onAside(text). */
	constructor(host, actions) {
		this.actions = actions;
		this.text = h('textarea', {rows: 1, id: 'message', dir: 'auto', 'aria-label': t('composer.label'), placeholder: t('composer.hint'), 'aria-describedby': 'cost'});
		this.banner = h('p.composer-banner', {hidden: true});
		this.files = h('ul.files', {'aria-label': t('composer.files'), hidden: true});
		this.cost = h('p.cost.figures', {id: 'cost'});
		this.picker = h('input', {type: 'file', multiple: true, hidden: true, 'aria-hidden': 'true', tabIndex: -1});
		this.send = h('button', {type: 'submit', class: 'primary', id: 'send'}, t('composer.send'));
		this.stop = button(t('composer.stop'), () => actions.onStop(), {class: 'primary', id: 'stop', hidden: true});
		this.aside = button(t('composer.aside'), () => this.#sendAside(), {id: 'aside', title: t('composer.aside.title')});
		const attach = button(t('composer.attach'), () => this.picker.click());
		this.form = h('form.composer', {on: {submit: event => this.#submit(event)}}, this.banner, this.files, this.text,
			h('div.composer-row', attach, this.picker, this.aside, this.cost, this.stop, this.send));
		host.append(this.form);
		this.#listen();
	}

	#listen() {
		this.costSoon = settled(() => this.#showCost(), COST_MS);
		this.text.addEventListener('input', () => {
			this.#fit();
			this.#keep();
			this.costSoon();
		});
		this.text.addEventListener('keydown', event => {
			if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
				event.preventDefault();
				this.form.requestSubmit();
			} else if (event.key === 'Escape' && this.#edited) {
				this.endEdit();
			}
		});
		this.text.addEventListener('paste', event => this.#take(event.clipboardData?.files, event));
		this.form.addEventListener('dragover', event => event.preventDefault());
		this.form.addEventListener('drop', event => this.#take(event.dataTransfer?.files, event));
		this.picker.addEventListener('change', () => {
			this.#addFiles(this.picker.files);
			this.picker.value = '';
		});
		store.on('conversation', id => id === this.conversation?.id && this.costSoon());
	}

	/** Another conversation (its id, or null for a new one): its draft, and no files. */
	open(id) {
		this.#keep();
		this.#setKey(id ?? 'new');
		this.#edited = null;
		this.banner.hidden = true;
		this.#setFiles([]);
		this.text.value = localStorage.getItem(this.#draft) ?? '';
		this.aside.hidden = id === null;
		this.#fit();
		this.costSoon();
	}

	/** A text that was to be said here: it is there until it is accepted. */
	put(text) {
		this.text.value = this.#sent = text;
		this.#keep();
		this.#fit();
		this.costSoon();
	}

	/** The draft of a new conversation is that of the conversation which was made. */
	moveDraft(id) {
		localStorage.removeItem(this.#draft);
		this.#setKey(id);
		this.aside.hidden = false;
		this.#keep();
	}

	/** Daemons number their conversations each for itself. */
	#setKey(key) {
		this.#key = key;
		this.#draft = `confab.draft.${getModel() ?? ''}.${key}`;
	}

	get conversation() {
		return this.#key === 'new' ? null : store.get(this.#key);
	}

	focus() {
		this.text.focus();
	}

	/** While a reply is written there is Stop in place of Send; the next message may be typed. */
	setBusy(busy) {
		const hadFocus = document.activeElement === this.stop || document.activeElement === this.send;
		this.stop.hidden = !busy;
		this.send.hidden = busy;
		this.busy = busy;
		if (hadFocus)
			this.text.focus();
	}

	clear() {
		this.#setFiles([]);
		if (!this.#edited && this.text.value !== this.#sent) // the next one was begun
			return;
		localStorage.removeItem(this.#draft);
		if (!this.#edited)
			this.text.value = '';
		this.#fit();
		this.costSoon();
	}

	edit(turn) {
		this.#edited = turn;
		this.text.value = turn.text ?? '';
		fill(this.banner, t('composer.editing'), ' ', button(t('cancel'), () => this.endEdit(), {class: 'quiet'}));
		this.banner.hidden = false;
		this.#fit();
		this.focus();
		this.costSoon();
	}

	endEdit() {
		if (!this.#edited)
			return;
		this.#edited = null;
		this.banner.hidden = true;
		this.text.value = localStorage.getItem(this.#draft) ?? '';
		this.#fit();
	}

	async #submit(event) {
		event.preventDefault();
		const text = joinFiles(this.text.value, this.#files);
		if (!text || this.busy || this.#sending)
			return;
		this.#sending = true;
		this.#sent = this.text.value;
		await this.actions.onSend(text, {edited: this.#edited});
		this.#sending = false;
	}

	#sendAside() {
		const text = joinFiles(this.text.value, this.#files);
		this.actions.onAside(text);
	}

	#keep() {
		if (this.#edited || this.#draft === null)
			return;
		if (this.text.value)
			localStorage.setItem(this.#draft, this.text.value);
		else
			localStorage.removeItem(this.#draft);
	}

	/** As high as its text, up to a third of the window (talk.css). */
	#fit() {
		this.text.style.setProperty('height', 'auto');
		this.text.style.setProperty('height', `${this.text.scrollHeight + 2}px`);
	}

	// - files

	#take(files, event) {
		if (!files?.length)
			return;
		event.preventDefault();
		this.#addFiles(files);
	}

	async #addFiles(files) {
		for (const file of files)
			await attempt(() => this.#addFile(file));
	}

	async #addFile(file) {
		if (file.size > FILE_LIMIT) {
			note(t('composer.tooLarge', {name: file.name}), {kind: 'error'});
			return;
		}
		let text;
		try {
			text = new TextDecoder('utf-8', {fatal: true}).decode(await file.arrayBuffer());
		} catch {
			text = null;
		}
		if (text === null || text.includes('\0')) {
			note(t('composer.notText', {name: file.name}), {kind: 'error'});
			return;
		}
		const added = {name: file.name, text, n: null};
		this.#setFiles([...this.#files, added]);
		added.n = await countTokens(text);
		this.#setFiles(this.#files);
	}

	#setFiles(files) {
		this.#files = files;
		this.files.hidden = files.length === 0;
		fill(this.files, files.map(file => h('li', h('span', {dir: 'auto'}, file.name), ' ',
			h('span.figures', file.n === null ? '…' : t('tokens', {n: file.n})),
			button('×', () => this.#setFiles(this.#files.filter(one => one !== file)), {class: 'quiet', 'aria-label': t('composer.remove', {name: file.name})}))));
		this.costSoon?.();
	}

	// - cost

	async #showCost() {
		this.#asked?.abort();
		const mine = this.#asked = new AbortController();
		const text = joinFiles(this.text.value, this.#files);
		if (!text) {
			this.cost.textContent = '';
			return;
		}
		try {
			let conversation = this.conversation;
			if (conversation && this.#edited)
				conversation = {...conversation, n_tokens: this.#edited.start};
			const cost = await costOf(text, conversation, store.model, mine.signal);
			const told = [t('cost.new', {n: cost.added}), cost.remembered > 0 ? t(`cost.${cost.where}`, {n: cost.remembered}) : t('cost.none')];
			this.cost.dataset.over = cost.over;
			if (cost.over)
				told.push(t('cost.over', {n: cost.context}));
			this.cost.textContent = told.join(' · ');
		} catch (error) {
			if (error.name !== 'AbortError')
				this.cost.textContent = '';
		}
	}
}
