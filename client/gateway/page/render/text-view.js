// SPDX-License-Identifier: MIT
// Markdown that may grow. Its blocks (blocks.js) are compared with what is drawn: what is final is never looked at again, and of
// what is open only what changed is put in. Long texts are shown in part first, and drawn in steps so that the page stays awake.
import {button, h} from '../js/dom.js';
import {bytes} from '../js/format.js';
import {t} from '../js/i18n.js';
import {BlockReader, shownText} from './blocks.js';
import {CodeView, hasLongLine, Pieces} from './code.js';
import {idle, later, libs} from './libs.js';
import {mathView, settleMath} from './math.js';
import {inline, visible} from './safe.js';

const LONGEST_TEXT = 200 * 1024;
const SHOWN_FIRST = 20 * 1024;
const LONGEST_BLOCK = 16 * 1024;
const STEP = 64 * 1024;
const AT_ONCE_MS = 30;

export class TextView {
	#plain;
	#reader;
	#drawn = {children: [], top: true};
	#text;
	#fed;
	#limit;
	#ended;
	#more = button('', () => this.#showAll(), {class: 'show-all'});

	/** Draws into `element`; `plain`: the text as it is. */
	constructor(element, {plain = false} = {}) {
		this.element = element;
		this.#plain = plain;
		element.classList.add('prose');
		this.#restart();
	}

	get text() {
		return this.#text;
	}

	/** Shows a whole text, at once as far as that takes no time that is noticed. More may still be appended. */
	set(text) {
		this.#restart();
		this.append(text);
		this.#ended = true;
		this.#work(performance.now() + AT_ONCE_MS);
	}

	/** More of the text; shown with the next frame. */
	append(text) {
		const before = this.#text, all = before + text;
		if (this.#ended)
			this.#restart();
		this.#text = all;
		// Looked at only until it is too long: of a long text each piece would take as long as all of it.
		if (this.#limit === null && (all.length > LONGEST_TEXT || hasLongLine(all.slice(before.lastIndexOf('\n') + 1))))
			this.#limit = Math.max(this.#fed, SHOWN_FIRST);
		later(this.#work);
	}

	/** No more comes. */
	end() {
		this.#ended = true;
		later(this.#work);
	}

	/** Resolves when all that is to be shown is drawn. */
	drawn() {
		return idle();
	}

	#restart() {
		this.element.classList.remove('whole');
		this.#reader = new BlockReader();
		this.#drawn.settled = this.#fed = 0;
		this.#text = '';
		this.#limit = null;
		this.#ended = false;
	}

	#work = until => {
		if (!this.#plain && !libs.settled)
			return true;
		const goal = Math.min(this.#text.length, this.#limit ?? Infinity);
		let left;
		do
			left = !drawChildren(this.#read(goal), this.#drawn, this.element, until) || this.#fed < goal;
		while (left && performance.now() <= until);
		if (goal === this.#text.length)
			this.#more.remove();
		else
			this.#offerAll();
		return left;
	};

	/** Some more of the text, as blocks of all so far. */
	#read(goal) {
		const from = this.#fed;
		this.#fed = Math.min(from + STEP, goal);
		if (this.#plain)
			return [{kind: 'plain', text: visible(this.#text.slice(0, this.#fed))}];
		// Of a line's end that is cut in two, the other half comes with the next step.
		this.#reader.push(visible(this.#text.slice(from, this.#fed).replace(/\r$/, '')));
		if (this.#ended && this.#fed === this.#text.length)
			this.#reader.end();
		return this.#reader.root.children;
	}

	#offerAll() {
		this.#more.textContent = t('render.showAll', {size: bytes(new Blob([this.#text]).size)});
		if (!this.#more.parentNode)
			this.element.append(this.#more);
	}

	#showAll() {
		this.#limit = Infinity;
		this.element.classList.add('whole');
		this.element.tabIndex = -1;
		this.element.focus({preventScroll: true});
		later(this.#work);
	}
}

/** An element with a text as it is, its control characters visible; long ones in part first. */
export function plainText(text) {
	const view = new TextView(h('div'), {plain: true});
	view.set(text);
	return view.element;
}

/**
 * Draws blocks as the first children of `host`, as far as there is time; returns whether all are drawn. `drawn.children` remembers of each
 * what is there (its `element`, and what that was drawn from); those before `drawn.settled` are final.
 */
function drawChildren(nodes, drawn, host, until) {
	const first = drawn.settled;
	for (let i = first; i < nodes.length; i++) {
		if (i > first && performance.now() > until)
			return false;
		const node = nodes[i];
		const kind = KINDS[node.kind];
		const variant = node.kind + (kind.variant?.(node) ?? '');
		let state = drawn.children[i];
		if (state?.variant !== variant) {
			const made = {variant, children: [], settled: 0};
			made.element = kind.make(node, made);
			// Blocks have the direction of their own first words; what is in them has no other, which would hide its words from them.
			if (drawn.top && !made.element.dir)
				made.element.dir = 'auto';
			if (state)
				state.element.replaceWith(made.element);
			else
				host.insertBefore(made.element, host.children[i] ?? null);
			drawn.children[i] = state = made;
		}
		if (kind.draw?.(node, state, until) === false)
			return false;
		if (node.final && drawn.settled === i)
			drawn.settled = i + 1;
	}
	for (const {element} of drawn.children.splice(nodes.length))
		element.remove();
	return true;
}

const into = (node, state, until) => drawChildren(node.children, state, state.body ?? state.element, until);
const words = (node, state) => drawWords(state, shownText(node));

// Of each kind of block: its element, and how it is drawn; another variant is another element.
const KINDS = {
	plain: {make: () => h('div.plain', {dir: 'auto'}), draw: (node, state) => drawPieces(state, node.text)},
	text: {make: () => h('p'), draw: words},
	heading: {variant: node => node.level, make: node => h(`h${Math.min(node.level + 2, 6)}`), draw: words},
	rule: {make: () => h('hr')},
	quote: {make: () => h('blockquote'), draw: into},
	list: {
		variant: node => node.mark + node.start, draw: into,
		make: ({mark, start}) => h('-+*'.includes(mark) ? 'ul' : 'ol', {start: start !== 1 && start}),
	},
	item: {make: () => h('li', {dir: 'auto'}), draw: into},
	code: {variant: node => node.language, make: makeCode, draw: (node, state) => state.view.update(node.text)},
	math: {make: () => h('div.math-block', {dir: 'ltr'}), draw: drawMath},
	table: {variant: node => JSON.stringify(node.head), make: makeTable, draw: into},
	row: {make: () => h('tr'), draw: into},
	cell: {
		make: ({head, align}) => h(head ? 'th' : 'td', {scope: head && 'col', class: align}),
		draw: (node, state) => drawWords(state, node.text),
	},
};

function makeCode({language}, state) {
	state.view = new CodeView(language);
	return state.view.element;
}

function makeTable({head}, state) {
	const top = h('thead');
	drawChildren([head], {children: [], settled: 0}, top, Infinity);
	state.body = h('tbody');
	const table = h('table', {dir: 'auto'}, top, state.body);
	return h('div.table-wrap', {tabindex: 0, role: 'region', 'aria-label': t('render.table')}, table);
}

function drawMath({text, whole, final}, {element}) {
	element.replaceChildren(final && whole ? mathView(text) : h('code', {class: final ? null : 'growing'}, text));
	settleMath(element);
}

function drawPieces(state, text) {
	state.pieces ??= new Pieces(state.element);
	state.pieces.update(text);
}

/** Words with marks. What is too long for Markdown is shown as it is, and so is all without the packages. */
function drawWords(state, source) {
	if (state.key === source)
		return;
	state.key = source;
	const {element} = state;
	const long = state.pieces || source.length > LONGEST_BLOCK;
	const fragment = long ? null : inline(source);
	element.classList.toggle('plain', !fragment);
	if (long)
		return drawPieces(state, source);
	for (const code of fragment?.querySelectorAll('code.language-math') ?? [])
		code.replaceWith(mathView(code.textContent));
	patch(element, fragment ? [...fragment.childNodes] : [new Text(source)]);
	settleMath(element);
}

/** Other children, but those that are the same at the beginning stay: so does a selection, and formulas are not drawn again. */
function patch(element, nodes) {
	const old = element.childNodes;
	const equal = (a, b) => a.formula ? a.formula === b.formula : a.isEqualNode(b);
	let same = 0;
	while (same < nodes.length && same < old.length && equal(old[same], nodes[same]))
		same++;
	const [grown, now] = [old[same], nodes[same]];
	if (grown?.nodeType === Node.TEXT_NODE && now?.data?.startsWith(grown.data)) {
		grown.appendData(now.data.slice(grown.data.length));
		same++;
	}
	while (old.length > same)
		element.lastChild.remove();
	element.append(...nodes.slice(same));
}
