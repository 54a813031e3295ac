// SPDX-License-Identifier: MIT
// One turn: who, what was said (its parts), what can be done with it; below a reply its memory line. The content is built once; `update` puts
// the rest in order when the daemon has told it, so nothing on the screen moves.
import {plainText} from '../render/text-view.js';
import {PartsView, resultsView} from '../render/part-view.js';
import {splitFiles} from './attachments.js';
import {button, fill, h, MENU} from './dom.js';
import {bytes, exactTime, when} from './format.js';
import {t} from './i18n.js';
import {memoryLine} from './memory-line.js';

const FINISHES = new Set(['length', 'context', 'cancelled']);

export class Turn {
	/**
	 * `turn` as the interface tells it, or {role, text} of one that is about to be. `actions` (may be absent): onEdit, onAgain, onBranch, onMenu,
	 * siblings(turn) → {at, ids} or null, onSibling(id), onAnswerCalls.
	 */
	constructor(turn, actions = null) {
		this.actions = actions;
		this.body = h('div.turn-body');
		this.head = h('header.turn-head');
		this.foot = h('footer.turn-foot');
		this.element = h('article.turn', {dataset: {role: turn.role}}, this.head, this.body, this.foot);
		this.#fillBody(turn);
		this.update(turn);
	}

	/** A reply that is about to be written: parts come by `add`. */
	static growing(actions) {
		const turn = new Turn({role: 'assistant', parts: [], growing: true}, actions);
		turn.element.setAttribute('aria-busy', 'true');
		return turn;
	}

	add(parts) {
		this.parts.add(parts);
	}

	end(run) {
		this.parts.end(run);
		this.element.setAttribute('aria-busy', 'false');
	}

	/** What the daemon knows of it: number, time, figures. */
	update(turn) {
		this.turn = turn;
		if (turn.turn !== undefined)
			this.element.dataset.turn = turn.turn;
		this.element.setAttribute('aria-label', t(`role.${turn.role}`));
		fill(this.head, h('h2.turn-who', t(`role.${turn.role}`)),
			turn.created_usec && h('time', {title: exactTime(turn.created_usec)}, when(turn.created_usec)),
			this.#siblings(turn), this.#buttons(turn));
		fill(this.foot, FINISHES.has(turn.finish) && h('p.turn-finish', t(`finish.${turn.finish}`)),
			turn.run && memoryLine(turn.run));
	}

	/** Draws the head again, if other branches say something in this place than before. */
	refreshSiblings() {
		if (this.#found()?.ids.join() !== this.shownSiblings)
			this.update(this.turn);
	}

	#found() {
		return this.turn.turn === undefined ? null : this.actions?.siblings?.(this.turn);
	}

	#siblings(turn) {
		const found = this.#found();
		this.shownSiblings = found?.ids.join();
		if (!found)
			return null;
		const {at, ids} = found;
		const step = (to, sign, label) => button(sign, () => this.actions.onSibling(ids[to], turn),
			{class: 'quiet', 'aria-label': label, disabled: ids[to] === undefined});
		return h('span.siblings', {role: 'group', 'aria-label': t('turn.siblings')},
			step(at - 1, '‹', t('turn.before')), h('span.figures', t('turn.which', {n: at + 1, of: ids.length})),
			step(at + 1, '›', t('turn.next')));
	}

	#buttons(turn) {
		if (!this.actions || turn.turn === undefined)
			return null;
		const quiet = (label, run, props) => button(label, run, {class: 'quiet', ...props});
		return h('span.turn-actions',
			turn.role === 'user' && quiet(t('turn.edit'), () => this.actions.onEdit(turn)),
			turn.role === 'assistant' && quiet(t('turn.again'), () => this.actions.onAgain(turn)),
			quiet(t('turn.branch'), () => this.actions.onBranch(turn)),
			quiet('⋯', event => this.actions.onMenu(turn, event.currentTarget, this),
				{...MENU, 'aria-label': t('turn.more')}));
	}

	#fillBody(turn) {
		if (turn.role === 'assistant') {
			this.parts = new PartsView(this.body, {streaming: Boolean(turn.growing), onAnswerCalls: this.actions?.onAnswerCalls});
			this.parts.set(turn.parts ?? [{index: 0, kind: 'text', text: turn.text ?? '', ends: true}], turn.run);
		} else if (turn.role === 'tool') {
			this.body.append(resultsView(turn.results ?? []));
		} else {
			this.body.append(messageView(turn.text ?? ''));
		}
	}
}

export function messageView(text) {
	return h('div.message', {dir: 'auto'}, splitFiles(text).map(piece => piece.name === undefined
		? plainText(piece.text)
		: h('details.file', h('summary', h('span', {dir: 'auto'}, piece.name), ' ',
			h('span.figures', bytes(new Blob([piece.text]).size))), plainText(piece.text))));
}

export function turnView(turn) {
	return new Turn(turn).element;
}
