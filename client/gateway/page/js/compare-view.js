// SPDX-License-Identifier: MIT
// Two branches beside each other: what they have in common as one line, then what each says by itself. In the first turn that differs, the words
// that only one of them has are marked.
import {call, conversationPath} from './api.js';
import {attempt, errorView} from './dialogs.js';
import {fill, h} from './dom.js';
import {t} from './i18n.js';
import {residencyDisc} from './residency.js';
import {store} from './store.js';
import {same} from './tree-model.js';
import {turnView} from './turn-view.js';

const PAGE = 40;
const MOST_WORDS = 4000;

/**
 * What differs between two texts: for each of them pieces {text, only}, which make the text; `only` are words that the other has not in this order. Null if a
 * text has more than 4,000 words.
 */
export function diffWords(a, b) {
  const left = a.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
  const right = b.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
  const words = list => list.reduce((n, piece) => n + (/\S/.test(piece) ? 1 : 0), 0);
  if (words(left) > MOST_WORDS || words(right) > MOST_WORDS)
    return null;
  const leftWords = [...left.keys()].filter(i => /\S/.test(left[i]));
  const rightWords = [...right.keys()].filter(i => /\S/.test(right[i]));
  const common = longestCommon(leftWords.map(i => left[i]), rightWords.map(i => right[i]));
  return [joined(left, new Set(common.map(([i]) => leftWords[i]))), joined(right, new Set(common.map(([, j]) => rightWords[j])))];
}

/** Pairs of indices of a longest common sequence. */
function longestCommon(a, b) {
  let first = 0, aEnd = a.length, bEnd = b.length;
  while (first < aEnd && first < bEnd && a[first] === b[first])
    first++;
  while (aEnd > first && bEnd > first && a[aEnd - 1] === b[bEnd - 1])
    aEnd--, bEnd--;
  const rows = aEnd - first, columns = bEnd - first, width = columns + 1;
  const lengths = new Uint16Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i--)
    for (let j = columns - 1; j >= 0; j--)
      lengths[i * width + j] = a[first + i] === b[first + j] ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
  const pairs = Array.from({length: first}, (_, i) => [i, i]);
  for (let i = 0, j = 0; i < rows && j < columns;)
    if (a[first + i] === b[first + j])
      pairs.push([first + i++, first + j++]);
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])
      i++;
    else
      j++;
  for (let i = aEnd; i < a.length; i++)
    pairs.push([i, bEnd + i - aEnd]);
  return pairs;
}

/** Neighbouring pieces of the same kind as one; space between two words that are marked is marked with them. */
function joined(pieces, common) {
  const only = pieces.map((piece, i) => /\S/.test(piece) ? !common.has(i) : null);
  for (let i = 0; i < only.length; i++)
    only[i] ??= Boolean(only[i - 1]) && only[i + 1] === true;
  const found = [];
  pieces.forEach((text, i) => {
    if (found.at(-1)?.only === only[i])
      found.at(-1).text += text;
    else
      found.push({text, only: only[i]});
  });
  return found;
}

/** How many turns two conversations have in common; asks for a turn at a time, since what agrees at one agrees before it. */
async function commonTurns(a, b, signal) {
  const turnAt = async (id, turn) => {
    const told = await call('GET', conversationPath(id), {query: {turns: true, from_turn: turn, max_turns: 1}, signal});
    return told.turns[0];
  };
  let low = 0, high = Math.min(a.n_turns, b.n_turns);
  while (low < high) {
    const at = low + high >> 1;
    const [left, right] = await Promise.all([turnAt(a.id, at), turnAt(b.id, at)]);
    if (left && right && same(left, right))
      low = at + 1;
    else
      high = at;
  }
  return low;
}

function wordsOf(turn) {
  const parts = turn.parts?.filter(part => part.kind === 'text') ?? [];
  return parts.length > 0 ? parts.map(part => part.text).join('\n\n') : turn.text ?? '';
}

export class CompareView {
  #signal = new AbortController();
  #stops = [];
  #lead = null;

  /** Draws into `host`. onClose() when Escape or Close is pressed, onOpen(id) when one of both is to be opened. */
  constructor(host, {onClose, onOpen}) {
    Object.assign(this, {onClose, onOpen});
    this.together = h('input', {type: 'checkbox', checked: true});
    this.close = h('button', {type: 'button', on: {click: () => this.onClose()}}, t('close'));
    this.title = h('h2', {class: 'compare-title', tabIndex: -1}, t('compare.title'));
    this.which = h('div', {class: 'compare-which', role: 'group', 'aria-label': t('compare.which')});
    this.common = h('details', {class: 'compare-common'});
    this.columns = h('div', {class: 'compare-columns'});
    this.element = h('section', {class: 'compare', 'aria-label': t('compare.title'), dataset: {shown: '0'}, on: {keydown: event => this.#key(event)}},
      h('header', {class: 'compare-head'}, this.title, h('label', {class: 'compare-together'}, this.together, ' ', t('compare.together')), this.close),
      this.which, this.common, this.columns);
    host.append(this.element);
  }

  /** Resolves when the beginnings of both branches are there. */
  async show(idA, idB) {
    this.#stop();
    this.#signal = new AbortController();
    this.#lead = null;
    this.sides = [idA, idB].map((id, index) => this.#side(id, index));
    fill(this.columns, this.sides.map(side => side.element));
    fill(this.which, this.sides.map(side => side.tab));
    this.#choose(0);
    this.#stops = [store.on('conversation', id => this.sides.filter(side => side.id === id).forEach(side => this.#drawHead(side)))];
    this.title.focus({preventScroll: true});
    this.element.setAttribute('aria-busy', 'true');
    try {
      await this.#load(idA, idB);
    } catch (error) {
      if (error.name === 'AbortError')
        return;
      if (error.name !== 'ApiError')
        throw error;
      fill(this.columns, errorView(error, h('button', {type: 'button', on: {click: () => this.show(idA, idB)}}, t('retry'))));
    }
    this.element.setAttribute('aria-busy', 'false');
  }

  destroy() {
    this.#stop();
    this.element.remove();
  }

  #stop() {
    this.#signal.abort();
    for (const stop of this.#stops)
      stop();
    this.#stops = [];
  }

  async #load(idA, idB) {
    const {signal} = this.#signal;
    const [a, b] = await Promise.all([idA, idB].map(id => call('GET', conversationPath(id), {signal})));
    const common = await commonTurns(a, b, signal);
    this.#drawCommon(idA, common);
    await Promise.all(this.sides.map(side => {
      side.next = common;
      return this.#more(side, false);
    }));
    this.#mark();
    for (const side of this.sides)
      this.#drawTurns(side, side.turns);
  }

  // ---- what is in common ----

  #drawCommon(id, n) {
    const turns = h('div', {class: 'compare-shared'});
    let first = n;
    const earlier = h('button', {type: 'button', class: 'quiet', on: {click: () => more()}}, t('compare.earlier'));
    const more = async () => {
      const count = Math.min(PAGE, first);
      const query = {turns: true, parts: true, from_turn: first - count, max_turns: count};
      try {
        const told = await call('GET', conversationPath(id), {query, signal: this.#signal.signal});
        first -= count;
        turns.prepend(...told.turns.map(turn => turnView(turn, {compact: true})));
        earlier.hidden = first === 0;
      } catch (error) {
        if (error.name === 'ApiError')
          turns.prepend(errorView(error));
        else if (error.name !== 'AbortError')
          throw error;
      }
    };
    this.common.open = false;
    this.common.ontoggle = () => this.common.open && first === n && more();
    this.common.toggleAttribute('data-none', n === 0);
    fill(this.common, h('summary', {}, n > 0 ? t('compare.common', {n}) : t('compare.nothing')), n > 0 && [earlier, turns]);
  }

  // ---- the two sides ----

  #side(id, index) {
    const side = {id, index, turns: [], next: 0, drawn: false};
    side.head = h('div', {class: 'compare-name'});
    side.list = h('div', {class: 'compare-turns'});
    side.button = h('button', {type: 'button', class: 'quiet', hidden: true, on: {click: () => attempt(() => this.#more(side, true))}}, t('compare.more'));
    side.scroller = h('div', {class: 'compare-scroll', tabIndex: 0, role: 'group', on: {scroll: () => this.#scrolled(side)}}, side.list, side.button);
    for (const event of ['pointerenter', 'pointerdown', 'wheel', 'touchstart', 'focusin'])
      side.scroller.addEventListener(event, () => {
        this.#lead = side;
      }, {passive: true});
    side.element = h('div', {class: 'compare-side', dataset: {side: index}}, side.head, side.scroller);
    side.tab = h('button', {type: 'button', on: {click: () => this.#choose(index)}});
    this.#drawHead(side);
    return side;
  }

  #drawHead(side) {
    const conversation = store.get(side.id);
    const title = store.titleOf(conversation);
    side.scroller.setAttribute('aria-label', title);
    fill(side.tab, title);
    fill(side.head, residencyDisc(conversation?.residency), h('h3', {class: 'compare-of', dir: 'auto', title}, title),
      conversation && h('span', {class: 'figures'}, t('tokens', {n: conversation.n_tokens})),
      h('button', {type: 'button', class: 'quiet', 'aria-label': `${t('compare.open')}: ${title}`, on: {click: () => this.onOpen(side.id)}}, t('compare.open')));
  }

  /** Narrow screens have room for one. */
  #choose(index) {
    this.element.dataset.shown = index;
    for (const side of this.sides)
      side.tab.setAttribute('aria-pressed', String(side.index === index));
  }

  async #more(side, draw) {
    const query = {turns: true, parts: true, from_turn: side.next, max_turns: PAGE};
    const told = await call('GET', conversationPath(side.id), {query, signal: this.#signal.signal});
    side.turns.push(...told.turns);
    side.next += told.turns.length;
    side.button.hidden = side.next >= told.n_turns;
    if (draw)
      this.#drawTurns(side, told.turns);
  }

  #drawTurns(side, turns) {
    side.list.append(...turns.map(turn => turn === side.turns[0] && side.marked ? side.marked : turnView(turn, {compact: true})));
    if (side.turns.length === 0)
      fill(side.list, h('p', {class: 'hint'}, t('compare.ends')));
  }

  /** The first turns that differ, as plain text with marks, if both say it in the same role. */
  #mark() {
    const [left, right] = this.sides.map(side => side.turns[0]);
    if (!left || !right || left.role !== right.role || left.role === 'tool')
      return;
    const pieces = diffWords(wordsOf(left), wordsOf(right));
    this.sides.forEach((side, i) => {
      const whole = turnView(side.turns[0], {compact: true});
      if (!pieces) {
        side.marked = h('div', {}, h('p', {class: 'hint'}, t('compare.tooLong')), whole);
        return;
      }
      const text = h('div', {class: 'compare-diff', dir: 'auto'}, pieces[i].map(({text: words, only}) => only ? h('mark', {}, words) : words));
      side.marked = h('article', {class: 'turn', dataset: {role: left.role}}, h('header', {class: 'turn-head'},
        h('h4', {class: 'turn-who'}, t(`role.${left.role}`)), pieces[i].some(piece => piece.only) && h('span', {class: 'hint'}, t('compare.differs'))), h('div', {class: 'turn-body'}, text));
    });
  }

  // ---- what is done ----

  /** The other one goes by the same share of its length; only that one leads which the pointer or the focus is in. */
  #scrolled(side) {
    this.#lead ??= side;
    if (!this.together.checked || this.#lead !== side)
      return;
    const other = this.sides[1 - side.index].scroller;
    const room = side.scroller.scrollHeight - side.scroller.clientHeight;
    other.scrollTop = room > 0 ? side.scroller.scrollTop / room * (other.scrollHeight - other.clientHeight) : 0;
  }

  #key(event) {
    if (event.key !== 'Escape')
      return;
    event.preventDefault();
    event.stopPropagation();
    this.onClose();
  }
}
