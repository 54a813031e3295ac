// SPDX-License-Identifier: MIT
// The one way from text to HTML: Markdown without HTML in it (of the words in a block: blocks.js takes the blocks apart), then DOMPurify
// with a list of what may be there, then a second look at every element. Characters that hide or turn text are made visible.
import {h} from '../js/dom.js';
import {mathAt} from './blocks.js';
import {libs} from './libs.js';

const ADDRESS = /^(?:https?:\/\/|mailto:)/i;
// The elements that may be there: what each may have, and as what.
const TEXT = {a: {href: ADDRESS}, br: {}, em: {}, strong: {}, s: {}, code: {class: /^language-math$/}};
const CODE = {span: {class: /^hljs-[\w-]+(?: hljs-[\w-]+)*$/}};
// How Markdown and highlighting write. Anything else is not even parsed, as a browser reports the styles and handlers it finds meanwhile.
const TAG = /^<\/?(?:span|a|br|em|strong|s|code)(?: (?:href|title|class)="[^"<>]*")*(?: \/)?>$/;
const CONFIG = {
	ALLOWED_ATTR: ['href', 'class'], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, ALLOWED_URI_REGEXP: ADDRESS, RETURN_DOM_FRAGMENT: true,
};
// Marks of direction, what has no width or shows nothing, and tags; the joiner in emoji belongs to them.
const HIDDEN = new RegExp(String.raw`([\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f`
	+ String.raw`\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|(?<![\p{Extended_Pictographic}\p{EMod}\ufe0f])\u200d)`, 'gu');
const HOST = /^(?:[\p{L}\p{N}_-]+[.\u3002\uff0e\uff61])+[\p{L}\p{N}-]{2,}$/u;
// Text in which Markdown has nothing to do, as most cells and short items are: DOMPurify takes its time for each.
const PLAIN = /^[\p{L}\p{N} ,.;()'"?%+=/-]*$/u;
const CONTROL = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

/**
 * HTML as elements that may be shown: those of TEXT (with `code`: those of CODE, for highlighting), no others. HTML that Markdown would not
 * write is shown as text. Null without DOMPurify.
 */
export function toFragment(html, {code = false} = {}) {
	if (!libs.purify)
		return null;
	if (!(html.match(/<[^>]*>?/g) ?? []).every(tag => TAG.test(tag)))
		return fragmentOf(html);
	const allowed = code ? CODE : TEXT;
	const fragment = libs.purify.sanitize(html, {...CONFIG, ALLOWED_TAGS: ['#text', ...Object.keys(allowed)]});
	for (const element of fragment.querySelectorAll('*'))
		look(element, allowed);
	for (const element of fragment.querySelectorAll('a, code')) {
		if (element.localName === 'a')
			finishLink(element);
		markHidden(element);
	}
	return fragment;
}

/** DOMPurify has done this; a list that is read twice is not forgotten once. */
function look(element, allowed) {
	if (element.namespaceURI !== 'http://www.w3.org/1999/xhtml' || !Object.hasOwn(allowed, element.localName))
		return element.remove();
	for (const {name, value} of [...element.attributes])
		if (!allowed[element.localName][name]?.test(value))
			element.removeAttribute(name);
}

/** Links lead out without telling where from, say where they lead, and show it where their words say something else. */
function finishLink(link) {
	const href = link.getAttribute('href');
	if (!href || !URL.canParse(href))
		return link.replaceWith(...link.childNodes);
	const url = new URL(href);
	const host = url.protocol === 'mailto:' ? domainOf(url.pathname) : url.hostname;
	Object.assign(link, {rel: 'noopener noreferrer nofollow ugc', target: '_blank', referrerPolicy: 'no-referrer'});
	link.title = visible(href).replace(HIDDEN, nameOf);
	if (looksElsewhere(link.textContent, host))
		link.after(h('span.link-host', {dir: 'ltr'}, ` (${host})`));
}

function domainOf(address) {
	const text = address.slice(address.lastIndexOf('@') + 1);
	return URL.canParse(`http://${text}`) ? new URL(`http://${text}`).hostname : text;
}

/** Whether words of a link name another host than its own: as an address all of it, or among other words. */
function looksElsewhere(words, host) {
	if (/(?:^|\.)xn--/.test(host) && !words.includes(host))
		return true;
	const bare = text => domainOf(text).replace(/^www\./, '').toLowerCase();
	const text = words.slice(0, 2000).replace(HIDDEN, '').trim();
	return text.split(/\s+/).some(word => {
		const part = word.replace(/^[a-z][\w+.-]*:(?:\/\/)?|[/?#].*$/gi, '').replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, '');
		const at = part.lastIndexOf('@');
		const claims = [part.slice(at + 1).replace(/:\d+$/, ''), ...at < 0 ? [] : [part.slice(0, at).split(':')[0]]];
		return claims.some(claim => HOST.test(claim) && bare(claim) !== bare(host));
	});
}

function nameOf(c) {
	return `U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
}

/** A text with its control characters as their pictures; lines end in \n. */
export function visible(text) {
	const picture = c => c < ' ' ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : '\u2426';
	return text.replace(/\r\n?/g, '\n').replace(CONTROL, picture);
}

/** Shows characters of an element that hide or turn text by their names. */
export function markHidden(element) {
	const texts = [];
	const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
	while (walk.nextNode())
		texts.push(walk.currentNode);
	for (const text of texts)
		if (text.data.search(HIDDEN) >= 0)
			text.replaceWith(...text.data.split(HIDDEN).map((piece, i) => i % 2 === 1 ? h('span.control', nameOf(piece)) : piece));
}

function fragmentOf(text) {
	const fragment = new DocumentFragment();
	fragment.append(text);
	return fragment;
}

let markdown = null;

/** The lines of one block as a fragment, with formulas as code of the class language-math; null without the packages. */
export function inline(source) {
	if (!libs.markdownit || !libs.purify)
		return null;
	if (PLAIN.test(source))
		return fragmentOf(source);
	markdown ??= reader();
	return toFragment(markdown.renderInline(source));
}

function reader() {
	const md = libs.markdownit({html: false, linkify: true, breaks: true, maxNesting: 40});
	const {escapeHtml} = md.utils;
	md.linkify.set({fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false});
	md.validateLink = address => ADDRESS.test(address.trim());
	md.inline.ruler.before('escape', 'math', readMath);
	md.renderer.rules.math = (tokens, i) => `<code class="language-math">${escapeHtml(tokens[i].content)}</code>`;
	// Nothing is ever loaded: an image is a link with its words, or only these if it is in a link already.
	md.renderer.rules.image = (tokens, i) => {
		const address = tokens[i].attrGet('src');
		const words = escapeHtml(tokens[i].content || address);
		const within = tokens.slice(0, i).reduce((n, {type}) => n + (type === 'link_open') - (type === 'link_close'), 0);
		return within > 0 ? words : `<a href="${escapeHtml(address)}">${words}</a>`;
	};
	return md;
}

function readMath(state, silent) {
	const math = mathAt(state.src, state.pos);
	if (!math || math.end > state.posMax)
		return false;
	if (!silent)
		state.push('math', 'code', 0).content = state.src.slice(state.pos, math.end);
	state.pos = math.end;
	return true;
}
