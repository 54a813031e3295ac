// SPDX-License-Identifier: MIT
// Debian's packages, as far as they are there (page/libs.json tells), and work that is done in pieces so that nothing waits for it.

const FOLDER = new URL('page/lib/', document.baseURI);
const PIECE_MS = 10;
const HIDDEN_MS = 200;

/** What is loaded: markdownit, purify, hljs, katex; null is what is not (yet). `settled`: whether it is known what the first two are. */
export const libs = {markdownit: null, purify: null, hljs: null, katex: null, settled: false};

const there = fetch(new URL('page/libs.json', document.baseURI)).then(answer => answer.ok ? answer.json() : {}).catch(() => ({}));
const asked = new Map();

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
  const made = purify?.isSupported && purify.sanitize('<i id="a" title="b">c</i><script>d</script>', {ALLOWED_ATTR: ['id'], RETURN_DOM_FRAGMENT: true});
  return made && made.children.length === 1 && made.firstChild.attributes.length === 1 ? purify : null;
}

async function fromFolder(name) {
  return (await there)[name] ? import(new URL(name, FOLDER).href) : null;
}

async function style(name) {
  if (!(await there)[name])
    return false;
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = new URL(name, FOLDER).href;
  return new Promise(resolve => {
    link.addEventListener('load', () => resolve(true));
    link.addEventListener('error', () => resolve(false));
    document.head.append(link);
  });
}

/** Loads a package once; resolves to it, or to null if it is not there or does not load. */
export function load(name) {
  if (!asked.has(name))
    asked.set(name, LOADERS[name]().catch(() => null).then(lib => libs[name] = lib || null));
  return asked.get(name);
}

/** Resolves when it is known whether there is Markdown. */
export const ready = Promise.all([load('markdownit'), load('purify')]).then(() => {
  libs.settled = true;
});

const jobs = new Set();
let waiting = [];
let kicked = false;

/**
 * Calls job(until) in the next frame: it works until performance.now() is past `until`, and returns true if something is left to do. Asked for
 * twice it runs once. A page that nobody sees has no frames: then a timer does it.
 */
export function later(job) {
  jobs.add(job);
  kick();
}

/** Resolves when no such work is left. */
export function idle() {
  return jobs.size === 0 ? Promise.resolve() : new Promise(resolve => waiting.push(resolve));
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
    return kick();
  for (const resolve of waiting.splice(0))
    resolve();
}
