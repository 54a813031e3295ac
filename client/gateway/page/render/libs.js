// SPDX-License-Identifier: MIT
// Debian's packages, as far as they are there (page/libs.json tells), and work that is done in pieces so that nothing waits for it.
import {h} from '../js/dom.js';

const PIECE_MS = 10;
const HIDDEN_MS = 200;

/** What is loaded: markdownit, purify, hljs, katex; null is what is not (yet). `settled`: whether it is known what the first two are. */
export const libs = {markdownit: null, purify: null, hljs: null, katex: null, settled: false};

const there = fetch('page/libs.json').then(answer => answer.ok ? answer.json() : {}).catch(() => ({}));
const asked = {};

/** How each is loaded. Scripts that are no modules set a global when they are imported as one. */
const LOADERS = {
	markdownit: async () => (await fromFolder('markdown-it.js')) && globalThis.markdownit,
	purify: async () => working((await fromFolder('purify.js'))?.default),
	hljs: async () => (await fromFolder('highlight.js')) && globalThis.hljs,
	katex: async () => {
		const [module, styled] = await Promise.all([fromFolder('katex.mjs'), style('katex.css')]);
		return styled && module?.default;
	},
};

/**
 * DOMPurify, if it does what it is for. Debian's 2.4.1+deb12u1 reads a variable that only another of its functions has, before it looks at
 * anything: a global of this name lets it go on (each element's depth is looked at behind that).
 */
function working(purify) {
	globalThis.shadowNode ??= Object.freeze({__depth: 0});
	const config = {ALLOWED_ATTR: ['id'], RETURN_DOM_FRAGMENT: true};
	const made = purify?.isSupported && purify.sanitize('<i id="a" title="b">c</i><script>d</script>', config);
	return made && made.children.length === 1 && made.firstChild.attributes.length === 1 ? purify : null;
}

async function fromFolder(name) {
	return (await there)[name] ? import(`../lib/${name}`) : null;
}

async function style(name) {
	if (!(await there)[name])
		return false;
	return new Promise((resolve, reject) => {
		document.head.append(h('link', {rel: 'stylesheet', href: `page/lib/${name}`, on: {load: resolve, error: reject}}));
	});
}

/** Loads a package once; resolves to it, or to null if it is not there or does not load. */
export function load(name) {
	return asked[name] ??= LOADERS[name]().catch(() => null).then(lib => libs[name] = lib || null);
}

/** Resolves when it is known whether there is Markdown. */
export const ready = Promise.all([load('markdownit'), load('purify')]).then(() => {
	libs.settled = true;
});

const jobs = new Set();
let kicked = false;

/**
 * Calls job(until) in the next frame: it works until performance.now() is past `until`, and returns true if something is left to do.
 * Asked for twice it runs once. A page that nobody sees has no frames: then a timer does it.
 */
export function later(job) {
	jobs.add(job);
	kick();
}

/** Resolves when no such work is left. */
export async function idle() {
	while (jobs.size > 0)
		await new Promise(resolve => setTimeout(resolve, PIECE_MS));
}

function kick() {
	if (kicked)
		return;
	kicked = true;
	if (document.hidden)
		setTimeout(run, HIDDEN_MS);
	else
		requestAnimationFrame(run);
}

function run() {
	kicked = false;
	const until = performance.now() + PIECE_MS;
	for (const job of [...jobs]) {
		jobs.delete(job);
		if (job(until))
			jobs.add(job);
		if (performance.now() > until)
			break;
	}
	if (jobs.size > 0)
		kick();
}
