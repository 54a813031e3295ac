// SPDX-License-Identifier: MIT
// Text that is shown as it is, line by line, while it grows: code with highlighting, copying and wrapping.
import {fill, h} from '../js/dom.js';
import {t} from '../js/i18n.js';
import {later, libs, load} from './libs.js';
import {hasHidden, markHidden, toFragment} from './safe.js';

const PIECE = 4096;
const LONGEST_PIECE = 16384;
const LONGEST_PAINTED = 100 * 1024;
const LONG = 32 * 1024;
const SAID_MS = 2000;

/**
 * A text in pieces of some lines each, so that what grows is only the last. `host` gets them as span.piece; pieces out of sight of a long text
 * are not laid out. update() takes all of the text so far; `painter` (see highlighter()) colours lines that are complete.
 */
export class Pieces {
  #host;
  #tail = h('span', {class: 'tail'});
  #pieces = [];
  #done = 0;
  #first = 0;
  #text = '';
  #painter = null;
  #painted = {};

  constructor(host) {
    this.#host = host;
  }

  update(text, ended) {
    if (!text.startsWith(this.#text))
      this.#clear();
    this.#text = text;
    this.#host.classList.toggle('long', text.length > LONG);
    const complete = ended ? text.length : text.lastIndexOf('\n') + 1;
    while (this.#done < complete || text.length - this.#done >= LONGEST_PIECE) {
      const line = text.indexOf('\n', this.#done) + 1 || text.length;
      this.#put(text.slice(this.#done, Math.min(line, this.#done + LONGEST_PIECE)));
    }
    this.#showTail(text.slice(this.#done));
    if (this.#painter)
      later(this.#paint);
  }

  /** Colours what is there and what comes, with painter(lines, state) → fragment. */
  paint(painter) {
    this.#painter = painter;
    later(this.#paint);
  }

  #clear() {
    this.#pieces = [];
    this.#done = this.#first = 0;
    this.#painted = {};
    this.#host.replaceChildren();
  }

  #put(line) {
    let piece = this.#pieces.at(-1);
    if (!piece || piece.text.length >= PIECE || piece.text.length + line.length > LONGEST_PIECE) {
      piece = {element: h('span', {class: 'piece'}), text: '', painted: 0, nodes: 0};
      this.#pieces.push(piece);
      this.#tail.remove();
      this.#host.append(piece.element);
    }
    piece.text += line;
    addText(piece.element, line, piece.nodes);
    this.#done += line.length;
  }

  #showTail(text) {
    if (text === '')
      return this.#tail.remove();
    const shown = this.#tail.firstChild;
    if (this.#tail.parentNode && this.#tail.childNodes.length === 1 && text.startsWith(shown.data))
      addText(this.#tail, text.slice(shown.data.length), 0);
    else
      addText(fill(this.#tail), text, 0);
    if (this.#tail.parentNode !== this.#host)
      this.#host.append(this.#tail);
  }

  #paint = until => {
    for (; this.#first < this.#pieces.length; this.#first++) {
      const piece = this.#pieces[this.#first];
      if (piece.painted < piece.text.length) {
        if (performance.now() > until)
          return true;
        const fragment = this.#painter(piece.text.slice(piece.painted), this.#painted);
        if (!fragment)
          return false;
        while (piece.element.childNodes.length > piece.nodes)
          piece.element.lastChild.remove();
        piece.element.append(fragment);
        piece.element.normalize();
        markHidden(piece.element);
        piece.painted = piece.text.length;
        piece.nodes = piece.element.childNodes.length;
      }
      if (this.#first === this.#pieces.length - 1)
        return false;
    }
    return false;
  };
}

/** Text behind what an element has, as part of its last text if that is behind `from` other nodes. */
function addText(element, text, from) {
  if (element.childNodes.length > from && element.lastChild.nodeType === Node.TEXT_NODE)
    element.lastChild.appendData(text);
  else
    element.append(text);
  if (hasHidden(text))
    markHidden(element);
}

/** A painter for a language, or null if there is none: line by line, so that the same lines look the same however they came. */
async function highlighter(language) {
  if (!/^[\w+#.-]{1,30}$/.test(language) || !libs.purify)
    return null;
  const hljs = await load('hljs');
  if (!hljs?.getLanguage(language))
    return null;
  return (lines, state) => {
    let html = '';
    for (const line of lines.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
      const result = hljs.highlight(language, line, true, state.top);
      state.top = result.top;
      html += result.value;
    }
    return toFragment(html, {code: true});
  };
}

/** A block of code that may grow: `element`, and update({text, ended}). */
export class CodeView {
  #code = h('code');
  #pieces = new Pieces(this.#code);
  #lines = h('span', {class: 'code-lines figures'});
  #pre = h('pre', {tabindex: 0, role: 'group', dir: 'ltr'}, this.#code);
  #wrap = h('button', {type: 'button', class: 'small', 'aria-pressed': 'false', on: {click: () => this.#toggleWrap()}}, t('render.wrap'));
  #text = '';
  #language;
  #painting = false;

  constructor(language) {
    this.#language = language;
    this.#pre.setAttribute('aria-label', language ? t('render.codeIn', {language}) : t('render.code'));
    this.element = h('figure', {class: 'code'}, h('div', {class: 'code-head'},
      h('span', {class: 'code-language'}, language), this.#lines, this.#wrap, copyButton(() => this.#text, this.#pre)), this.#pre);
  }

  update({text, ended}) {
    this.#text = text;
    const lines = text === '' ? 0 : text.split('\n').length;
    this.#lines.textContent = lines > 1 ? t('render.lines', {n: lines}) : '';
    if (/[^\n]{20480}/.test(text))
      this.#pre.classList.add('wrap');
    this.#pieces.update(text, ended);
    if (this.#language && !this.#painting && text.length <= LONGEST_PAINTED && (ended || text.includes('\n')))
      this.#paint();
  }

  async #paint() {
    this.#painting = true;
    const painter = await highlighter(this.#language);
    if (painter)
      this.#pieces.paint((lines, state) => this.#text.length <= LONGEST_PAINTED ? painter(lines, state) : null);
  }

  #toggleWrap() {
    this.#wrap.setAttribute('aria-pressed', String(this.#pre.classList.toggle('wrap')));
  }
}

/** A button that copies text() and says so; where the browser does not let it, `shown` is selected and copied as by hand. */
export function copyButton(text, shown) {
  let timer = 0;
  const button = h('button', {type: 'button', class: 'small', 'aria-live': 'polite', on: {click: copy}}, t('render.copy'));
  async function copy() {
    const done = await copyText(text(), shown);
    button.textContent = t(done ? 'render.copied' : 'render.copyByHand');
    clearTimeout(timer);
    timer = setTimeout(() => {
      button.textContent = t('render.copy');
    }, SAID_MS);
  }
  return button;
}

async function copyText(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const put = event => {
      event.clipboardData.setData('text/plain', text);
      event.preventDefault();
    };
    getSelection().selectAllChildren(shown);
    document.addEventListener('copy', put);
    const done = document.execCommand('copy');
    document.removeEventListener('copy', put);
    return done;
  }
}
