// SPDX-License-Identifier: MIT
// A question that leaves nothing behind: it is asked of a fork, which goes when the dialog does. If the page dies before, the fork
// closes itself after a while, since nobody uses it.
import {Sentences} from './announce.js';
import {call, conversationPath, post} from './api.js';
import {attempt, dialog, errorView} from './dialogs.js';
import {button, fill, h} from './dom.js';
import {t} from './i18n.js';
import {Reply} from './reply.js';
import {ASIDE} from './store.js';
import {Turn} from './turn-view.js';

const KEEP_SECONDS = 600;

/** Opens the dialog; `question` may be empty, and is asked at once otherwise. */
export async function askAside(conversation, question) {
	const aside = new Aside(conversation);
	const shown = dialog(t('aside.title'), aside.element);
	if (question)
		aside.ask(question);
	else
		aside.text.focus();
	await shown;
	await aside.end();
}

class Aside {
	#fork = null;
	#reply = null;
	#asked = null; // the promise of ask()
	#ended = false;

	constructor(conversation) {
		this.conversation = conversation;
		this.turns = h('div.turns.aside-turns', {tabIndex: 0, role: 'region', 'aria-label': t('talk.turns')});
		this.state = h('div', {role: 'status', class: 'talk-state'});
		this.text = h('textarea', {rows: 2, dir: 'auto', 'aria-label': t('aside.question'), on: {keydown: event => this.#key(event)}});
		this.button = button(t('aside.ask'), () => this.#submit(), {class: 'primary'});
		this.element = h('div.aside', h('p.hint', t('aside.hint')), this.turns, this.state,
			h('div.composer-row', this.text, this.button));
	}

	#key(event) {
		if (event.key !== 'Enter' || event.shiftKey || event.isComposing)
			return;
		event.preventDefault();
		this.#submit();
	}

	#submit() {
		const question = this.text.value.trim();
		if (!question || this.#reply)
			return;
		this.text.value = '';
		this.ask(question);
	}

	ask(question) {
		this.#asked = this.#ask(question);
	}

	async #ask(question) {
		const message = new Turn({role: 'user', text: question}), growing = Turn.growing(null);
		const sentences = new Sentences();
		this.turns.append(message.element, growing.element);
		this.button.disabled = true;
		try {
			this.#fork ??= await post(this.conversation.id, 'fork', {about: {session: ASIDE, expires_after: KEEP_SECONDS}});
			if (this.#ended)
				return;
			this.#reply = new Reply(this.#fork.id, (kind, data) => this.#told(kind, data, growing, sentences));
			await this.#reply.start({message: question}, this.#fork.revision);
		} catch (error) {
			fill(this.state, errorView(error));
			growing.element.remove();
		}
		this.button.disabled = false;
		this.#reply = null;
	}

	#told(kind, data, growing, sentences) {
		if (kind === 'accepted' && this.#ended) {
			attempt(() => this.#reply.stop());
		} else if (kind === 'delta') {
			growing.add(data.parts ?? []);
			sentences.addParts(data.parts ?? []);
			this.turns.scrollTop = this.turns.scrollHeight;
		} else if (kind === 'done') {
			growing.end(data);
			growing.update({role: 'assistant', run: data, finish: data.finish});
			sentences.end();
			this.#fork.revision = data.revision;
			fill(this.state);
		} else if (kind === 'failed') {
			fill(this.state, errorView(data));
			growing.element.remove();
		} else if (kind === 'broken') {
			fill(this.state, t('talk.broken'));
		} else if (kind === 'resumed') {
			fill(this.state);
		}
	}

	/** The fork may be on its way still, and can go only when its reply is over. */
	end() {
		this.#ended = true;
		return attempt(async () => {
			await this.#reply?.stop();
			await this.#asked;
			if (this.#fork)
				await call('DELETE', conversationPath(this.#fork.id));
		});
	}
}
