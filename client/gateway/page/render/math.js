// SPDX-License-Identifier: MIT
// Mathematics: a formula is its source until KaTeX is there, and stays so where KaTeX cannot read it.
import {h} from '../js/dom.js';
import {mathAt} from './blocks.js';
import {later, libs, load} from './libs.js';

const OPTIONS = {throwOnError: true, trust: false, strict: 'ignore', maxSize: 20, maxExpand: 200, output: 'htmlAndMathml'};
const AT_ONCE_MS = 20;
const waiting = new Set();

/** An element with a `formula`, its source with its marks; as it is until settleMath() is called on something it is in. */
export function mathView(source) {
	const display = mathAt(source, 0)?.display;
	// What may be wider than its place scrolls, by keyboard too.
	const view = h('span', {class: display ? 'math math-display' : 'math', dir: 'ltr', tabIndex: display ? 0 : null}, h('code', source));
	view.formula = source;
	return view;
}

/** Draws the formulas in an element, now or when KaTeX is there. */
export function settleMath(root) {
	for (const view of root.querySelectorAll('.math:not([data-drawn])'))
		waiting.add(view);
	if (waiting.size > 0 && (!libs.katex || drawWaiting(performance.now() + AT_ONCE_MS)))
		load('katex').then(() => later(drawWaiting));
}

function drawWaiting(until) {
	for (const view of waiting) {
		waiting.delete(view);
		if (libs.katex)
			draw(view);
		if (performance.now() > until)
			break;
	}
	return waiting.size > 0;
}

function draw(view) {
	view.dataset.drawn = 'true';
	try {
		view.replaceChildren(drawn(mathAt(view.formula, 0)));
	} catch {
		view.classList.add('math-source');
	}
}

/** KaTeX writes some styles as attributes, which the page's policy refuses: these are set as properties when the elements are there. */
function drawn({tex, display}) {
	const tree = libs.katex.__renderToDomTree(tex, {...OPTIONS, displayMode: display});
	const styles = [];
	moveStyles(tree, styles);
	const element = tree.toNode();
	for (const styled of element.querySelectorAll('[data-style]')) {
		styled.style.cssText = styles[styled.dataset.style];
		styled.removeAttribute('data-style');
	}
	return element;
}

function moveStyles(node, styles) {
	if (node.attributes?.style) {
		node.attributes['data-style'] = styles.push(node.attributes.style) - 1;
		delete node.attributes.style;
	}
	for (const child of node.children ?? [])
		moveStyles(child, styles);
}
