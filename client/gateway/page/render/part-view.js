// SPDX-License-Identifier: MIT
// The parts of a reply: text, reasoning (folded), calls; and the results of calls.
import {button, fill, h} from '../js/dom.js';
import {bytes, duration} from '../js/format.js';
import {t} from '../js/i18n.js';
import {CodeView} from './code.js';
import {markHidden, visible} from './safe.js';
import {plainText, TextView} from './text-view.js';

const LONGEST_PRETTY = 100 * 1024;

export class PartsView {
	#host;
	#options;
	#parts = new Map();

	/** Draws into `host`. While `streaming`, parts without an end are being written. `onAnswerCalls(parts)` is offered with calls. */
	constructor(host, options = {}) {
		this.#host = host;
		this.#options = {...options};
	}

	/** All parts of a turn that is stored, with the figures of its run if they are known. */
	set(parts, run = null) {
		this.#host.replaceChildren();
		this.#parts.clear();
		this.add(parts.map(part => ({...part, ends: true})));
		if (!this.#options.streaming)
			this.end(run);
	}

	/** What a message of a stream tells: the text of a part is what is added to it. */
	add(parts) {
		for (const part of parts) {
			let view = this.#parts.get(part.index);
			if (!view) {
				this.#parts.forEach(end);
				view = new (KINDS[part.kind] ?? TextPart)(this.#options);
				this.#parts.set(part.index, view);
				this.#host.append(view.element);
			}
			view.add(part);
			if (part.ends)
				end(view);
		}
	}

	/** The reply is complete, or broke off: nothing is being written any more. */
	end(run = null) {
		this.#options.streaming = false;
		const views = [...this.#parts.values()];
		const length = views.reduce((sum, {text}) => sum + text.length, 0);
		for (const view of views) {
			end(view);
			view.complete?.(length > 0 ? (run?.decode_usec ?? 0) * view.text.length / length : 0);
		}
		const calls = views.map(view => view.call).filter(Boolean), {onAnswerCalls: answer} = this.#options;
		if (answer && calls.length > 0)
			this.#host.append(h('p.actions.call-answer', button(t('render.answer'), () => answer(calls))));
	}
}

function end(view) {
	if (!view.ended)
		view.end();
	view.ended = true;
}

class TextPart extends TextView {
	constructor() {
		super(h('div.part-text'));
	}

	add({text = '', ends}) {
		if (ends && this.text === '')
			this.set(text);
		else
			this.append(text);
	}
}

/** Reasoning is folded until somebody opens it, and drawn no sooner. */
class ReasoningPart {
	text = '';
	#view = null;
	#begun = performance.now();
	#took = 0;
	#words = h('span', t('render.thinking'));
	#body = h('div.reasoning-text');

	constructor({streaming}) {
		this.element = h('details', {class: streaming ? 'reasoning thinking' : 'reasoning', on: {toggle: () => this.#show()}},
			h('summary', this.#words), this.#body);
	}

	add({text = ''}) {
		this.text += text;
		this.#view?.append(text);
	}

	end() {
		this.#view?.end();
		if (this.element.classList.contains('thinking'))
			this.#took = (performance.now() - this.#begun) * 1000;
		this.element.classList.remove('thinking');
		this.#words.textContent = this.#took ? t('render.thoughtFor', {time: duration(this.#took)}) : t('render.reasoning');
	}

	/** A reply that came at once because it was written before has only the share of its characters to tell how long it took. */
	complete(share) {
		if (this.#took < share / 2)
			this.#words.textContent = t('render.thoughtAbout', {time: duration(share)});
	}

	#show() {
		if (this.#view || !this.element.open)
			return;
		this.#view = new TextView(this.#body);
		if (this.ended)
			this.#view.set(this.text);
		else
			this.#view.append(this.text);
	}
}

class CallPart {
	text = '';
	#part = {};
	#head = h('p.call-head');
	#code = new CodeView('json');
	#body = h('div', this.#code.element);

	constructor() {
		this.element = h('div.call', {role: 'group'}, this.#head, this.#body);
	}

	add({text = '', ends, ...part}) {
		this.text += text;
		for (const [key, value] of Object.entries(part))
			this.#part[key] = value ?? this.#part[key];
		const name = this.#part.name ?? '';
		fill(this.#head, t('render.call'), ' ', nameView(name));
		this.element.setAttribute('aria-label', t('render.callOf', {name: visible(name)}));
		if (!ends)
			this.#code.update(visible(this.text));
	}

	end() {
		const {broken} = this.#part;
		fill(this.#body, dataView(this.text, this.#code),
			broken && h('p.call-broken', {dir: 'auto'}, `${t('render.broken')} ${visible(String(broken))}`));
	}

	/** If it can be answered. */
	get call() {
		const {name, broken} = this.#part;
		return name && !broken ? this.#part : null;
	}
}

const KINDS = {text: TextPart, reasoning: ReasoningPart, call: CallPart};

/** What calls gave: [{call_id, name, content}], each folded. */
export function resultsView(results) {
	return h('div.results', results.map(({call_id: id, name, content = ''}) => {
		const body = h('div');
		const show = ({target}) => target.open && body.childNodes.length === 0 && body.append(dataView(content));
		const size = h('span.figures', bytes(new Blob([content]).size));
		return h('details.result', {on: {toggle: show}},
			h('summary', t('render.result'), ' ', nameView(name || id || ''), ' ', size), body);
	}));
}

function nameView(name) {
	const view = h('span.call-name', {dir: 'auto'}, visible(name));
	markHidden(view);
	return view;
}

/** Data as JSON if it is an object or a list, else as text. */
function dataView(text, view = new CodeView('json')) {
	const pretty = prettyJson(text);
	if (pretty === null)
		return h('div.call-text', plainText(text));
	view.update(visible(pretty));
	return view.element;
}

/** JSON with its lines broken; numbers and texts stay as they are written, which parsing would not keep. Null if it is none. */
export function prettyJson(text) {
	if (text.length > LONGEST_PRETTY || !/^\s*[[{]/.test(text))
		return null;
	try {
		JSON.parse(text);
	} catch {
		return null;
	}
	let depth = 0;
	const line = step => `\n${'  '.repeat(Math.min(depth += step, 40))}`;
	return text.replace(/"(?:[^"\\]|\\.)*"|\s+|[[{]\s*[\]}]|[[{\]},:]/g, token => {
		const [first] = token;
		if (first === '"')
			return token;
		if ('[{'.includes(first))
			return token.length > 1 ? first + token.at(-1) : first + line(1);
		if (']}'.includes(first))
			return line(-1) + first;
		return first === ',' ? first + line(0) : first === ':' ? ': ' : '';
	});
}
