// SPDX-License-Identifier: MIT
// Two branches beside each other: what they have in common as one line, then what each says by itself. In the first turn that differs,
// words that only one of them has are marked.
import {attempt, errorView} from './dialogs.js';
import {button, fill, h} from './dom.js';
import {loadTurns} from './family-turns.js';
import {t} from './i18n.js';
import {residencyDisc} from './residency.js';
import {store} from './store.js';
import {same} from './tree-model.js';
import {turnView} from './turn-view.js';

const PAGE = 40;
const MOST_WORDS = 1500;
const WORDS = /(\s*)([\p{L}\p{N}_]+|\S|$)/gu;

/**
 * What differs between two texts: of each, pieces {text, only}, which make the text; `only` are words that the other has not in
 * this order. Null if a text has more than 1,500 words.
 */
export function diffWords(a, b) {
	// The last word of each is an empty one.
	const sides = [a, b].map(text => Array.from(text.matchAll(WORDS), ([, space, word]) => ({space, word})));
	if (sides.some(words => words.length > MOST_WORDS + 1))
		return null;
	markCommon(...sides);
	return sides.map(words => {
		const pieces = [];
		const add = (text, only) => {
			if (pieces.at(-1)?.only === only)
				pieces.at(-1).text += text;
			else if (text)
				pieces.push({text, only});
		};
		words.forEach(({space, word, common}, i) => {
			add(space, !common && !words[i - 1]?.common);
			add(word, !common);
		});
		return pieces;
	});
}

/** Marks the words of a longest common sequence. */
function markCommon(a, b) {
	const numbers = new Map([...a, ...b].map(({word}, i) => [word, i]));
	const [left, right] = [a, b].map(words => Int32Array.from(words, ({word}) => numbers.get(word)));
	const width = b.length + 1;
	// Of what follows i in a, and j in b; by i * width + j.
	const lengths = new Uint16Array((a.length + 1) * width);
	for (let i = a.length - 1; i >= 0; i--)
		for (let j = b.length - 1, at = i * width + j; j >= 0; j--, at--)
			lengths[at] = left[i] === right[j] ? lengths[at + width + 1] + 1 : Math.max(lengths[at + width], lengths[at + 1]);
	for (let i = 0, j = 0; i < a.length && j < b.length;)
		if (left[i] === right[j])
			a[i++].common = b[j++].common = true;
		else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])
			i++;
		else
			j++;
}

function wordsOf({parts = [], text = ''}) {
	const said = parts.filter(part => part.kind === 'text').map(part => part.text);
	return said.length > 0 ? said.join('\n\n') : text;
}

export class CompareView {
	#ends = new AbortController();
	#lead = null; // the side that the pointer or the focus is in: the other one scrolls with it

	/** onClose() when Close is pressed, onOpen(id) when one of both is to be opened. */
	constructor(host, {onClose, onOpen}) {
		this.onOpen = onOpen;
		this.together = h('input', {type: 'checkbox', checked: true});
		this.title = h('h2.compare-title', {tabIndex: -1}, t('compare.title'));
		this.which = h('div.compare-which', {role: 'group', 'aria-label': t('compare.which')});
		this.common = h('details.compare-common');
		this.columns = h('div.compare-columns');
		this.element = h('section.compare',
			h('header.compare-head', this.title,
				h('label.compare-together', this.together, ' ', t('compare.together')), button(t('close'), onClose)),
			this.which, this.common, this.columns);
		host.append(this.element);
		this.stop = store.on('conversation', id => this.sides.filter(side => side.id === id).forEach(side => this.#drawHead(side)));
	}

	/** Resolves when both branches are there. */
	async show(...ids) {
		this.#lead = null;
		this.sides = ids.map((id, index) => this.#side(id, index));
		fill(this.columns, this.sides.map(side => side.element));
		fill(this.which, this.sides.map(side => side.tab));
		this.#choose(0);
		this.title.focus();
		this.element.ariaBusy = 'true';
		try {
			await this.#load(ids);
		} catch (error) {
			if (error.name !== 'ApiError')
				throw error;
			fill(this.columns, errorView(error, button(t('retry'), () => attempt(() => this.show(...ids)))));
		}
		this.element.ariaBusy = 'false';
	}

	destroy() {
		this.#ends.abort();
		this.stop();
		this.element.remove();
	}

	async #load(ids) {
		const members = await loadTurns(ids.toSorted((a, b) => a - b), new Map(), this.#ends.signal);
		const [left, right] = ids.map(id => members.find(({conversation}) => conversation.id === id)?.turns ?? []);
		let n = 0;
		while (left[n] && right[n] && same(left[n], right[n]))
			n++;
		const common = paged(t('compare.earlier'), left.slice(0, n), turnView, true);
		this.common.addEventListener('toggle', () => common.more.click(), {once: true});
		fill(this.common, h('summary', n > 0 ? t('compare.common', {n}) : t('compare.nothing')), n > 0 && [common.more, common.list]);
		// Both may have been told the same once more: what is marked comes behind it.
		let at = n;
		while (left[at] && left[at].role === right[at]?.role && wordsOf(left[at]) === wordsOf(right[at]))
			at++;
		const differ = differing(left[at], right[at]);
		[left, right].forEach((turns, i) => {
			const {list, more} = paged(t('compare.more'), turns.slice(n), turn => turn === turns[at] && differ ? differ[i] : turnView(turn));
			more.click();
			fill(this.sides[i].scroller, turns.length === n && h('p.hint', t('compare.ends')), list, more);
		});
	}

	#side(id, index) {
		const lead = () => {
			this.#lead = side;
		};
		const side = {id, index, head: h('div.compare-name'), tab: button('', () => this.#choose(index))};
		side.scroller = h('div.compare-scroll', {tabIndex: 0, role: 'group', on: {
			scroll: () => this.#scrolled(side), pointerenter: lead, focusin: lead,
		}});
		side.element = h('div.compare-side', {dataset: {side: index}}, side.head, side.scroller);
		this.#drawHead(side);
		return side;
	}

	#drawHead({id, head, tab, scroller}) {
		const conversation = store.get(id);
		const title = store.titleOf(conversation);
		scroller.ariaLabel = tab.textContent = title;
		fill(head, residencyDisc(conversation?.residency), h('h3', {dir: 'auto', title}, title),
			conversation && h('span.figures', t('tokens', {n: conversation.n_tokens})),
			button(t('compare.open'), () => this.onOpen(id), {class: 'quiet', 'aria-label': `${t('compare.open')}: ${title}`}));
	}

	/** Narrow screens have room for one. */
	#choose(index) {
		this.element.dataset.shown = index;
		for (const side of this.sides)
			side.tab.ariaPressed = side.index === index;
	}

	/** The other one goes by the same share of its length. */
	#scrolled(side) {
		this.#lead ??= side;
		if (!this.together.checked || this.#lead !== side)
			return;
		const {scrollTop, scrollHeight, clientHeight} = side.scroller;
		const other = this.sides[1 - side.index].scroller;
		other.scrollTop = scrollTop / Math.max(1, scrollHeight - clientHeight) * (other.scrollHeight - other.clientHeight);
	}
}

/** Turns in `list`, a page at a time as `more` is pressed; from the last one on where `backwards`. */
function paged(label, turns, draw, backwards = false) {
	const rest = [...turns];
	const list = h('div');
	const more = button(label, () => {
		const page = (backwards ? rest.splice(-PAGE) : rest.splice(0, PAGE)).map(turn => draw(turn));
		list[backwards ? 'prepend' : 'append'](...page);
		more.hidden = rest.length === 0;
	}, {class: 'quiet'});
	return {list, more};
}

/** The first turns that differ, as plain text with marks, if both say it in the same role. */
function differing(left, right) {
	if (!left || left.role !== right?.role || left.role === 'tool')
		return null;
	return diffWords(wordsOf(left), wordsOf(right))?.map(pieces => h('article.turn', {dataset: {role: left.role}},
		h('header.turn-head', h('h4.turn-who', t(`role.${left.role}`)),
			pieces.some(piece => piece.only) && h('span.hint', t('compare.differs'))),
		h('div.turn-body.compare-diff', {dir: 'auto'}, pieces.map(({text, only}) => only ? h('mark', text) : text))));
}
