// SPDX-License-Identifier: MIT
// A text of Markdown that may grow. Its blocks (blocks.js) are compared with what is drawn: what is final is never looked at again, and of
// what is open only what changed is put in. Long texts are shown in part first, and drawn in pieces so that the page stays awake.
import {h} from '../js/dom.js';
import {bytes} from '../js/format.js';
import {t} from '../js/i18n.js';
import {BlockReader, shownText} from './blocks.js';
import {CodeView, hasLongLine, LONGEST_LINE, Pieces} from './code.js';
import {idle, later, libs, ready} from './libs.js';
import {isMath, mathView, sameMath, settleMath} from './math.js';
import {inline, visible} from './safe.js';

const LONGEST_TEXT = 200 * 1024;
const SHOWN_FIRST = 20 * 1024;
const LONGEST_BLOCK = 16 * 1024;
const STEP = 64 * 1024;
const AT_ONCE_MS = 30;
const SLOW_MS = 8;
const PAUSE_MS = 50;

export class TextView {
  #host;
  #reader = new BlockReader();
  #drawn = {children: [], settled: 0, root: true};
  #text = '';
  #fed = 0;
  #limit = Infinity;
  #line = 0;
  #all = false;
  #ended = false;
  #next = 0;
  #more = null;

  /** Draws into `host`; with a label it is a group of this name. */
  constructor(host, {label} = {}) {
    this.#host = host;
    host.classList.add('prose');
    if (label) {
      host.setAttribute('role', 'group');
      host.setAttribute('aria-label', label);
    }
  }

  get text() {
    return this.#text;
  }

  /** Shows a whole text, at once as far as that takes no time that is noticed. More may still be appended. */
  set(text) {
    this.#restart('');
    this.#text = text;
    this.#limit = firstPart(text);
    this.#ended = true;
    if (libs.settled && this.#work(performance.now() + AT_ONCE_MS) || !libs.settled)
      this.#later();
  }

  /** More of the text; shown with the next frame. */
  append(text) {
    if (this.#ended)
      this.#restart(this.#text);
    this.#text += text;
    this.#watchLine(text);
    this.#later();
  }

  /** No more comes. */
  end() {
    this.#ended = true;
    this.#later();
  }

  /** Resolves when all that is to be shown is drawn. */
  async drawn() {
    await ready;
    await idle();
  }

  #restart(text) {
    this.#host.classList.remove('whole');
    this.#reader = new BlockReader();
    this.#drawn.settled = 0;
    this.#fed = this.#line = this.#next = 0;
    this.#limit = Infinity;
    this.#all = this.#ended = false;
    this.#text = text;
    this.#watchLine(text);
  }

  #later() {
    if (libs.settled)
      later(this.#work);
    else
      ready.then(() => later(this.#work));
  }

  /** A growing text is cut where a line or all of it gets too long: what is shown stays. */
  #watchLine(text) {
    const end = text.lastIndexOf('\n');
    this.#line = end < 0 ? this.#line + text.length : text.length - end - 1;
    if (this.#limit < Infinity || this.#all)
      return;
    if (this.#text.length > LONGEST_TEXT || this.#line >= LONGEST_LINE || hasLongLine(text))
      this.#limit = Math.max(this.#fed, SHOWN_FIRST);
  }

  #work = until => {
    const start = performance.now();
    if (start < this.#next)
      return true;
    const goal = Math.min(this.#text.length, this.#limit);
    let left = true;
    while (left && performance.now() <= until) {
      if (this.#fed < goal) {
        const to = Math.min(this.#fed + STEP, goal);
        this.#reader.push(visible(this.#text.slice(this.#fed, this.#whole(to))));
        this.#fed = this.#whole(to);
      }
      if (this.#ended && this.#fed >= this.#whole(goal))
        this.#reader.end();
      const done = drawChildren(this.#reader.root.children, this.#drawn, this.#host, until);
      left = !done || this.#fed < this.#whole(goal);
      if (!done)
        break;
    }
    this.#offerAll();
    const took = performance.now() - start;
    this.#next = !this.#ended && took > SLOW_MS ? start + PAUSE_MS : 0;
    return left;
  };

  /** A carriage return waits for what is behind it, and halves of a character for each other. */
  #whole(to) {
    if (to === this.#text.length && this.#ended)
      return to;
    const last = this.#text.charCodeAt(to - 1);
    return to > this.#fed && (last === 13 || last >= 0xd800 && last < 0xdc00) ? to - 1 : to;
  }

  #offerAll() {
    if (this.#limit >= this.#text.length)
      return this.#more?.remove();
    this.#more ??= showAllButton(() => this.#showAll());
    this.#more.textContent = showAllWords(this.#text);
    if (this.#more.parentNode !== this.#host)
      this.#host.append(this.#more);
  }

  #showAll() {
    const text = this.#text;
    const ended = this.#ended;
    this.#more.remove();
    this.#restart('');
    this.#text = text;
    this.#all = true;
    this.#ended = ended;
    this.#host.classList.add('whole');
    this.#host.tabIndex = -1;
    this.#host.focus({preventScroll: true});
    this.#later();
  }
}

/** How much of a whole text is shown first. */
function firstPart(text) {
  return text.length > LONGEST_TEXT || hasLongLine(text) ? Math.min(SHOWN_FIRST, text.length) : Infinity;
}

function showAllButton(click, words) {
  return h('button', {type: 'button', class: 'show-all', on: {click}}, words);
}

function showAllWords(text) {
  return t('render.showAll', {size: bytes(new Blob([text]).size)});
}

/** An element with a text as it is, its control characters visible; long ones in part first. */
export function plainText(text) {
  const shown = h('div', {class: 'plain', dir: 'auto'});
  const pieces = new Pieces(shown);
  const first = firstPart(text);
  pieces.update(visible(text.slice(0, first)), true);
  if (first === Infinity)
    return shown;
  const button = showAllButton(showAll, showAllWords(text));
  function showAll() {
    button.remove();
    let to = first;
    later(() => {
      to = Math.min(to + STEP, text.length);
      pieces.update(visible(text.slice(0, to)), to === text.length);
      return to < text.length;
    });
  }
  return h('div', {}, shown, button);
}

/**
 * Draws blocks as the first children of `host`, as far as there is time; returns whether all are drawn. `drawn.children` remembers of each
 * what is there (its `element`, and what that was drawn from); those before `drawn.settled` are final.
 */
function drawChildren(nodes, drawn, host, until) {
  const first = drawn.settled;
  for (let i = first; i < nodes.length; i++) {
    const node = nodes[i];
    const kind = KINDS[node.kind];
    const variant = node.kind + (kind.variant?.(node) ?? '');
    let state = drawn.children[i];
    if (i > first && performance.now() > until)
      return false;
    if (state?.variant !== variant) {
      const made = {variant, children: [], settled: 0, ...kind.make(node)};
      if (drawn.root && kind.directed)
        made.element.dir = 'auto';
      if (state)
        state.element.replaceWith(made.element);
      else
        host.insertBefore(made.element, i === 0 ? host.firstChild : drawn.children[i - 1].element.nextSibling);
      drawn.children[i] = state = made;
    }
    if (kind.draw(node, state, until) === false)
      return false;
    if (node.final && drawn.settled === i)
      drawn.settled = i + 1;
  }
  for (const {element} of drawn.children.splice(nodes.length))
    element.remove();
  return true;
}

const into = (node, state, until) => drawChildren(node.children, state, state.element, until);

// Of each kind of block: its element, and how it is drawn; another variant is another element. `directed` ones have the direction of their
// own first words; what is in them takes it from them, as a direction of its own would hide its words from them.
const KINDS = {
  text: {directed: true, make: () => ({element: h('p')}), draw: (node, state) => drawInline(state, shownText(node))},
  heading: {
    directed: true, variant: node => node.level, make: node => ({element: h(`h${Math.min(node.level + 2, 6)}`)}),
    draw: (node, state) => drawInline(state, shownText(node)),
  },
  rule: {make: () => ({element: h('hr')}), draw: () => true},
  quote: {directed: true, make: () => ({element: h('blockquote')}), draw: into},
  list: {
    variant: node => node.mark + node.start,
    make: node => ({element: node.ordered ? h('ol', {start: node.start === 1 ? null : node.start}) : h('ul')}), draw: into,
  },
  item: {make: () => ({element: h('li', {dir: 'auto'})}), draw: into},
  code: {variant: node => node.language, make: makeCode, draw: drawCode},
  math: {make: () => ({element: h('div', {class: 'math-block', dir: 'ltr'})}), draw: drawMath},
  table: {
    variant: node => JSON.stringify([node.header, node.aligns]), make: makeTable,
    draw: (node, state, until) => drawChildren(node.children, state, state.body, until),
  },
  row: {make: () => ({element: h('tr')}), draw: (node, state) => drawCells(state, node.cells, node.aligns, 'td')},
};

function makeCode(node) {
  const view = new CodeView(node.language);
  return {view, element: view.element};
}

function drawCode(node, state) {
  if (state.key === node.text && state.final === node.final)
    return;
  state.key = node.text;
  state.final = node.final;
  state.view.update({text: node.text, ended: node.final});
}

function drawMath(node, state) {
  const source = node.begin + node.text + (node.whole ? node.end : '');
  const key = `${node.final} ${source}`;
  if (state.key === key)
    return;
  state.key = key;
  state.element.replaceChildren(node.final && node.whole ? mathView(source) : h('code', {class: node.final ? null : 'growing'}, source));
  settleMath(state.element);
}

function makeTable(node) {
  const head = {element: h('tr'), children: []};
  drawCells(head, node.header, node.aligns, 'th');
  const body = h('tbody');
  const table = h('table', {dir: 'auto'}, h('thead', {}, head.element), body);
  return {body, element: h('div', {class: 'table-wrap', tabindex: 0, role: 'region', 'aria-label': t('render.table')}, table)};
}

function drawCells(state, cells, aligns, tag) {
  for (const [i, align] of aligns.entries()) {
    if (!state.children[i]) {
      const props = tag === 'th' ? {scope: 'col'} : {};
      state.children[i] = {element: h(tag, {...props, class: align ? `align-${align}` : null})};
      state.element.append(state.children[i].element);
    }
    drawInline(state.children[i], cells[i] ?? '');
  }
}

/** Words with marks. What is too long for Markdown is shown as it is, and so is all without the packages. */
function drawInline(state, source) {
  if (state.key === source)
    return;
  state.key = source;
  const {element} = state;
  if (state.pieces || source.length > LONGEST_BLOCK || hasLongLine(source)) {
    if (!state.pieces) {
      element.replaceChildren();
      element.classList.add('plain');
      state.pieces = new Pieces(element);
    }
    return state.pieces.update(source, true);
  }
  const fragment = inline(source);
  element.classList.toggle('plain', !fragment);
  if (!fragment) {
    element.textContent = source;
    return;
  }
  for (const code of fragment.querySelectorAll('code.language-math'))
    code.replaceWith(mathView(code.textContent));
  patch(element, fragment);
  settleMath(element);
}

/** Makes the children of `old` those of `fresh`, and leaves what is the same: a selection stays, and formulas are not drawn again. */
function patch(old, fresh) {
  let at = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    const next = at?.nextSibling ?? null;
    if (!at)
      old.append(node);
    else if (at.nodeType === Node.TEXT_NODE && node.nodeType === Node.TEXT_NODE)
      patchText(at, node.data);
    else if (isMath(at) || isMath(node) || at.nodeType !== node.nodeType || !at.cloneNode().isEqualNode(node.cloneNode()))
      sameMath(at, node) || at.replaceWith(node);
    else
      patch(at, node);
    at = next;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function patchText(at, text) {
  if (text.startsWith(at.data))
    at.appendData(text.slice(at.data.length));
  else
    at.data = text;
}
