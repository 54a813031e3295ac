// SPDX-License-Identifier: MIT
// Text that is shown as it is, in pieces, while it grows: code with highlighting, copying and wrapping.
import {button, h} from '../js/dom.js';
import {t} from '../js/i18n.js';
import {later, load} from './libs.js';
import {markHidden, toFragment} from './safe.js';

const PIECE = 1024;
const LONGEST_PIECE = 16 * 1024;
const LONGEST_PAINTED = 100 * 1024;
const LONGEST_PAINTED_PIECE = 4096;
const LONG = 32 * 1024;
const LONGEST_LINE = 20 * 1024;
const SAID_MS = 2000;

/** Whether there is a line that is not read for marks any more, and always wraps. */
export function hasLongLine(text) {
	return text.length >= LONGEST_LINE && text.split('\n').some(line => line.length >= LONGEST_LINE);
}

/**
 * A text in pieces of some lines each (span.piece in `host`), so that only the last is drawn again; those of a long text are laid out when
 * they are in sight. update() takes all of the text so far; colour() has it highlighted.
 */
export class Pieces {
	#host;
	#pieces = [];
	#text = '';
	#highlight = null;

	constructor(host) {
		this.#host = host;
		host.replaceChildren();
	}

	update(text) {
		if (!text.startsWith(this.#text)) {
			this.#host.replaceChildren();
			this.#pieces = [];
		}
		this.#text = text;
		this.#host.classList.toggle('long', text.length > LONG);
		for (let at = this.#pieces.at(-1)?.at ?? 0; at < text.length;) {
			const end = Math.min(text.indexOf('\n', at + PIECE) + 1 || text.length, at + LONGEST_PIECE);
			this.#show(at, text.slice(at, end));
			at = end;
		}
		if (this.#highlight)
			later(this.#paint);
	}

	async colour(language) {
		const [hljs, purify] = await Promise.all([load('hljs'), load('purify')]);
		if (!purify || !hljs?.getLanguage(language))
			return;
		this.#highlight = (text, top) => hljs.highlight(language, text, true, top);
		later(this.#paint);
	}

	#show(at, text) {
		let piece = this.#pieces.at(-1);
		if (piece?.at !== at) {
			piece = {at, text: '', element: h('span.piece')};
			this.#pieces.push(piece);
			this.#host.append(piece.element);
		}
		piece.element.append(text.slice(piece.text.length));
		piece.element.normalize();
		markHidden(piece.element);
		piece.text = text;
	}

	#paint = until => {
		if (this.#text.length > LONGEST_PAINTED)
			return false;
		for (const [i, piece] of this.#pieces.entries()) {
			if (piece.painted === piece.text || piece.text.length > LONGEST_PAINTED_PIECE)
				continue;
			if (performance.now() > until)
				return true;
			// Each piece goes on in the state that highlighting is in behind the one before.
			const {value, top} = this.#highlight(piece.text, this.#pieces[i - 1]?.top);
			piece.element.replaceChildren(toFragment(value, {code: true}));
			markHidden(piece.element);
			Object.assign(piece, {top, painted: piece.text});
		}
		return false;
	};
}

/** A block of code that may grow: `element`, and update(text). */
export class CodeView {
	#code = h('code');
	#pieces = new Pieces(this.#code);
	#lines = h('span.code-lines.figures');
	#pre = h('pre', {tabindex: 0, role: 'group', dir: 'ltr'}, this.#code);
	#text = '';

	constructor(language) {
		this.#pre.setAttribute('aria-label', language ? t('render.codeIn', {language}) : t('render.code'));
		const turn = () => wrap.setAttribute('aria-pressed', this.#pre.classList.toggle('wrap'));
		const wrap = button(t('render.wrap'), turn, {class: 'quiet', 'aria-pressed': 'false'});
		this.element = h('figure.code', h('div.code-head',
			language && h('span.code-language', language), this.#lines, wrap, this.#copyButton()), this.#pre);
		if (language)
			this.#pieces.colour(language);
	}

	update(text) {
		this.#text = text;
		const lines = text.split('\n').length;
		this.#lines.textContent = lines > 1 ? t('render.lines', {n: lines}) : '';
		if (hasLongLine(text))
			this.#pre.classList.add('wrap');
		this.#pieces.update(text);
	}

	#copyButton() {
		const copy = async () => {
			view.textContent = t(await this.#copy() ? 'render.copied' : 'render.copyByHand');
			setTimeout(() => {
				view.textContent = t('render.copy');
			}, SAID_MS);
		};
		const view = button(t('render.copy'), copy, {class: 'quiet', 'aria-live': 'polite'});
		return view;
	}

	/** Where the browser does not let it, the code is selected and copied as by hand. */
	async #copy() {
		try {
			await navigator.clipboard.writeText(this.#text);
			return true;
		} catch {
			getSelection().selectAllChildren(this.#pre);
			return document.execCommand('copy');
		}
	}
}
