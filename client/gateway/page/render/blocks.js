// SPDX-License-Identifier: MIT
// A Markdown text that may grow, as a tree of blocks (pure). Only the last block and those it is in may change: what is `final` stays.
// Lines decide, so the tree does not depend on how the text was cut. The line that is not complete yet is tried on a copy of what is open,
// and held back as long as it has nothing but marks, which could still become something else.

const DEEPEST = 24;
const MOST_COLUMNS = 64;
const MOST_ROWS = 250;
const LONGEST_HEALED = 8 * 1024;
const MARKER = /^([-+*]|(\d{1,9})([.)]))(?:(\s{1,4})|$)/;
const FENCE = /^(`{3,}|~{3,})([^`]*)$/;
const RULE = /^([-*_])(?: *\1){2,}$/;
const ALIGNS = {':-': 'align-left', '-:': 'align-right', '::': 'align-center'};
const UNDECIDED = /^[-\s>#*+=_`~|:.)\\$[\]xX\d]{0,64}$/;
const UNDECIDED_ROW = /^[^|]{0,64}$/;

/**
 * Reads a text piece by piece: push() as it comes, end() when all is there. `root.children` are blocks {kind, final, closed}:
 * text and heading (text, level), code (text, language), math (text with its marks, whole), table (head, a row, and rows of cells), rule,
 * and with children quote, list (mark, start) and item.
 */
export class BlockReader {
	root = {kind: 'root', depth: 0, children: []};
	#complete = this.root;
	#rest = '';
	#trying = false;

	push(text) {
		const lines = (this.#rest + text).split('\n');
		this.#rest = lines.pop();
		this.root = this.#complete;
		lines.forEach(line => this.#line(line));
		if (UNDECIDED.test(this.#rest) || deepest(this.root).kind === 'table' && UNDECIDED_ROW.test(this.#rest))
			return;
		this.root = copyOpen(this.root);
		this.#trying = true;
		this.#line(this.#rest);
		this.#trying = false;
	}

	end() {
		this.push(this.#rest === '' ? '' : '\n');
		this.#close(this.root);
	}

	#close(node) {
		const last = openLast(node);
		if (last)
			this.#close(last);
		node.closed = true;
		node.final = !this.#trying;
	}

	#add(box, kind, fields) {
		const last = openLast(box);
		if (last)
			this.#close(last);
		const node = {kind, closed: false, final: false, depth: box.depth + 1, ...fields};
		box.children.push(node);
		return node;
	}

	#addWhole(box, kind, fields) {
		this.#close(this.#add(box, kind, fields));
		return true;
	}

	#line(raw) {
		let line = raw.replace(/^[ \t]+/, space => space.replaceAll('\t', '    '));
		let box = this.root;
		for (let next = openBox(box); next; next = openBox(box)) {
			const rest = within(next, line);
			if (rest === null)
				break;
			line = rest;
			box = next;
		}
		const leaf = openLast(box);
		const text = line.trim();
		if (leaf?.kind === 'code')
			this.#inCode(leaf, box === this.root ? raw : line, text);
		else if (leaf?.kind === 'math')
			this.#inMath(box, leaf, text);
		else if (text !== '')
			this.#open(box, line);
		else if (leaf && leaf.kind !== 'list')
			this.#close(leaf);
	}

	#inCode(code, line, text) {
		if (text.startsWith(code.fence) && /^(?:`+|~+)$/.test(text))
			this.#close(code);
		else
			addLine(code, line.slice(Math.min(indentOf(line), code.indent)));
	}

	#inMath(box, math, text) {
		const at = text.indexOf(math.end);
		if (text === '')
			return this.#close(math);
		if (at < 0)
			return addLine(math, text);
		addLine(math, text.slice(0, at + 2));
		math.whole = true;
		this.#close(math);
		this.#open(box, text.slice(at + 2));
	}

	/** Opens what a line begins in a container, or goes on with the container's text. */
	#open(box, line) {
		const indent = indentOf(line);
		const text = line.trim();
		const leaf = openLast(box);
		if (text === '' || this.#leaf(box, text, indent))
			return;
		const inner = box.depth < DEEPEST && this.#container(box, leaf, text, indent);
		if (inner)
			this.#open(inner, text.slice(inner.width));
		else if (!this.#table(box, leaf, text))
			this.#text(box, leaf, text);
	}

	#text(box, leaf, text) {
		const open = leaf && deepest(leaf);
		const task = box.kind === 'item' && box.children.length === 0;
		if (open?.kind === 'text')
			addLine(open, text);
		else
			addLine(this.#add(box, 'text'), task ? text.replace(/^\[ \] /, '\u2610 ').replace(/^\[[xX]\] /, '\u2611 ') : text);
	}

	#leaf(box, text, indent) {
		const fence = FENCE.exec(text);
		if (fence)
			return this.#add(box, 'code', {language: /^\s*([^\s{,]{0,30})/.exec(fence[2])[1], text: '', fence: fence[1], indent});
		const level = /^#{1,6}(?=\s|$)/.exec(text)?.[0].length;
		if (level)
			return this.#addWhole(box, 'heading', {level, text: text.slice(level).replace(/\s#+$/, '').trim()});
		if (RULE.test(text))
			return this.#addWhole(box, 'rule');
		return this.#math(box, text);
	}

	#math(box, text) {
		const end = {'$$': '$$', '\\[': '\\]'}[text.slice(0, 2)];
		const at = end && text.indexOf(end, 2);
		if (!end || at >= 0 && at + 2 < text.length)
			return false;
		const math = this.#add(box, 'math', {text, last: text, end, whole: at >= 0});
		if (at >= 0)
			this.#close(math);
		return true;
	}

	#table(box, leaf, text) {
		if (leaf?.kind === 'table' && text.includes('|')) {
			// The longest tables are several, each with its head: a browser lays out all of a table for each row that comes.
			const {head, aligns} = leaf;
			const table = leaf.children.length < MOST_ROWS ? leaf : this.#add(box, 'table', {head, aligns, children: []});
			return this.#addWhole(table, 'row', {children: rowOf(cellsOf(text), aligns)});
		}
		if (leaf?.kind !== 'text' || !leaf.last.includes('|'))
			return false;
		const aligns = cellsOf(text);
		const header = cellsOf(leaf.last);
		const n = aligns.length;
		if (n === 0 || n !== header.length || n > MOST_COLUMNS || !aligns.every(mark => /^:?-+:?$/.test(mark)))
			return false;
		if (leaf.text === leaf.last)
			box.children.pop();
		else
			leaf.text = leaf.text.slice(0, -leaf.last.length - 1);
		const head = {kind: 'row', children: rowOf(header, aligns, true)};
		return this.#add(box, 'table', {head, aligns, children: []});
	}

	/** A quote, or an item in its list; its content begins `width` characters behind where it does. */
	#container(box, leaf, text, indent) {
		if (text[0] === '>')
			return this.#add(box, 'quote', {children: [], width: text[1] === ' ' ? 2 : 1});
		const [marker, sign, number, mark = sign, space = ' '] = MARKER.exec(text) ?? [];
		if (!marker || leaf?.kind === 'text' && (marker === text || number && number !== '1'))
			return null;
		const list = leaf?.kind === 'list' && leaf.mark === mark ? leaf
			: this.#add(box, 'list', {mark, start: Number(number ?? 1), children: []});
		const width = sign.length + space.length;
		return this.#add(list, 'item', {indent, width, children: []});
	}
}

function addLine(node, line) {
	node.text = node.last === undefined ? line : `${node.text}\n${line}`;
	node.last = line;
}

function indentOf(line) {
	return line.length - line.trimStart().length;
}

function openLast(node) {
	const last = node.children?.at(-1);
	return last && !last.closed ? last : null;
}

/** The container that may go on in this one: of a list its item. */
function openBox(box) {
	const last = openLast(box);
	return last?.kind === 'list' ? openLast(last) : last?.kind === 'quote' ? last : null;
}

function deepest(node) {
	const last = openLast(node);
	return last ? deepest(last) : node;
}

function copyOpen(node) {
	const copy = {...node, children: node.children && [...node.children]};
	const last = openLast(node);
	if (last)
		copy.children[copy.children.length - 1] = copyOpen(last);
	return copy;
}

/**
 * What of a line is within a container that goes on, or null. Lists may be indented less than they should in one that is numbered: models
 * write two spaces where Markdown wants three.
 */
function within({kind, indent, width}, line) {
	const space = indentOf(line);
	if (kind === 'quote')
		return line[space] === '>' ? line.slice(space + 1).replace(/^ /, '') : null;
	if (space === line.length)
		return '';
	if (space >= indent + width)
		return line.slice(indent + width);
	return space >= indent + 2 && MARKER.test(line.slice(space)) ? line.slice(space) : null;
}

/** The cells of a row: bars that are escaped or within code do not part them. */
function cellsOf(row) {
	const cells = [...row.replace(/^\|/, '').matchAll(/((?:\\.|`[^`]*`|[^|])*)(?:\||$)/g)].slice(0, -1);
	return cells.map(([, cell]) => cell.trim().replaceAll('\\|', '|'));
}

function rowOf(cells, marks, head = false) {
	return marks.map((mark, i) => ({kind: 'cell', head, text: cells[i] ?? '', align: ALIGNS[mark[0] + mark.at(-1)], closed: true}));
}

/** What is shown of a block of text: without a last line that may still become the head of a table, and healed while it grows. */
export function shownText({final, text, last}) {
	if (final || text.length > LONGEST_HEALED)
		return text;
	return heal(last?.[0] === '|' ? text.slice(0, -last.length).trimEnd() : text);
}

// \( \), \[ \], $$ $$, and $ $ where it is no price: of "costs $5 and $6" nothing is a formula.
const MATH = new RegExp([
	/\\\((?:[^\\]|\\[^()])+\\\)/, /\\\[(?:[^\\]|\\[^[\]])+\\\]/, /\$\$(?:[^$]|\$(?!\$))+\$\$/, /(?<![\w$])\$(?![\s$])(?:\\.|[^\\$\n])+(?<!\s)\$(?![\w$])/,
].map(({source}) => source).join('|'), 'y');

/** The formula that begins at a place of a text: {end, tex, display}, or null. */
export function mathAt(src, at) {
	const source = matchAt(MATH, src, at)?.[0];
	if (!source)
		return null;
	const marks = /^\$[^$]/.test(source) ? 1 : 2;
	return {end: at + source.length, tex: source.slice(marks, -marks), display: /^(?:\$\$|\\\[)/.test(source)};
}

function matchAt(pattern, src, at) {
	pattern.lastIndex = at;
	return pattern.exec(src);
}

// At the end of a text: what may become another mark, a formula without its end (prices are not waited for), and a link without its own.
const UNDECIDED_END = /(?<![*_~`\\])[*_~`\\]+$|&#?\w{0,8}$/;
const UNFINISHED_MATH = /(?:\\[([]|\$\$)[^]{0,300}$|\$(?![\s$])(?!\d[\d.,]*\s)[^$\n]{0,100}$/y;
const UNFINISHED_LINK = /!?\[([^[\]]{0,300})(?:\](?:\((?:[^\s()]|\([^\s()]*\))*(?:\([^\s()]*|\s+(?:"[^"]*"?\s*)?)?)?)?$/y;

/**
 * A text that is not complete, so that what it becomes does not show as marks first: emphasis and code are closed at its end, links without
 * an end are their words, and marks at the end that may become anything are left out.
 */
export function heal(text) {
	const marks = /\\[^]|`+|!?\[|\]\(\S{0,1000}?\)|\$\$?|\*\*?|__?|~~/g;
	const open = [];
	let src = text.replace(UNDECIDED_END, '');
	for (let found = marks.exec(src); found; found = marks.exec(src)) {
		const [mark] = found;
		const at = found.index;
		if (mark[0] === '`') {
			const end = matchAt(new RegExp(`(?<!\`)${mark}(?!\`)`, 'g'), src, marks.lastIndex);
			if (!end && src.slice(marks.lastIndex).trim() === '')
				src = src.slice(0, at);
			else if (!end)
				open.push(mark);
			marks.lastIndex = end ? end.index + mark.length : src.length;
		} else if (mark.endsWith('[')) {
			const link = matchAt(UNFINISHED_LINK, src, at);
			if (link) {
				src = src.slice(0, at) + link[1];
				marks.lastIndex = at;
			}
		} else if (mark[0] === '\\' || mark[0] === '$') {
			const math = mathAt(src, at);
			if (math)
				marks.lastIndex = math.end;
			else if (matchAt(UNFINISHED_MATH, src, at))
				src = src.slice(0, at);
		} else if (mark[0] !== ']') {
			pair(open, mark, src[at - 1] ?? ' ', src[at + mark.length] ?? ' ');
		}
	}
	const shown = src.trimEnd();
	return shown + open.reverse().join('') + src.slice(shown.length);
}

/** A mark of emphasis ends what is open of its kind, or opens it. */
function pair(open, mark, before, after) {
	if (mark[0] === '_' && /[\p{L}\p{N}]{2}/u.test(before + after))
		return;
	if (before.trim() !== '' && open.includes(mark))
		open.splice(open.lastIndexOf(mark), 1);
	else if (after.trim() !== '')
		open.push(mark);
}
