// SPDX-License-Identifier: MIT
// Two branches beside each other: what they have in common as one line, then what each says by itself. In the first turn that differs,
// the words that only one of them has are marked.
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
const PIECES = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;

/**
 * What differs between two texts: for each of them pieces {text, only}, which make the text; `only` are words that the other has not in
 * this order. Null if a text has more than 4,000 words.
 */
export function diffWords(a, b) {
  const texts = [a, b].map(text => text.match(PIECES) ?? []);
  const at = texts.map(pieces => [...pieces.keys()].filter(i => /\S/.test(pieces[i])));
  if (at.some(words => words.length > MOST_WORDS))
    return null;
  const numbers = new Map();
  const numberOf = word => numbers.get(word) ?? numbers.set(word, numbers.size).size - 1;
  const common = longestCommon(...texts.map((pieces, side) => Int32Array.from(at[side], i => numberOf(pieces[i]))));
  return texts.map((pieces, side) => joined(pieces, new Set(common.map(pair => at[side][pair[side]]))));
}

/** Pairs of indices of a longest common sequence. */
function longestCommon(a, b) {
  let first = 0, aEnd = a.length, bEnd = b.length;
  while (first < aEnd && first < bEnd && a[first] === b[first])
    first++;
  while (aEnd > first && bEnd > first && a[aEnd - 1] === b[bEnd - 1])
    aEnd--, bEnd--;
  const width = bEnd - first + 1;
  const lengths = new Uint16Array((aEnd - first + 1) * width);
  const at = (i, j) => (i - first) * width + j - first;
  for (let i = aEnd - 1; i >= first; i--)
    for (let j = bEnd - 1, k = at(i, j); j >= first; j--, k--)
      lengths[k] = a[i] === b[j] ? lengths[k + width + 1] + 1 : Math.max(lengths[k + width], lengths[k + 1]);
  const pairs = Array.from({length: first}, (_, i) => [i, i]);
  for (let i = first, j = first; i < aEnd && j < bEnd;)
    if (a[i] === b[j])
      pairs.push([i++, j++]);
    else if (lengths[at(i + 1, j)] >= lengths[at(i, j + 1)])
      i++;
    else
      j++;
  for (let i = aEnd; i < a.length; i++)
    pairs.push([i, bEnd + i - aEnd]);
  return pairs;
}

/** Neighbouring pieces of the same kind as one; space between two words that are marked is marked with them. */
function joined(pieces, common) {
  const only = pieces.map((piece, i) => /\S/.test(piece) && !common.has(i));
  const found = [];
  pieces.forEach((text, i) => {
    const marked = only[i] || (!/\S/.test(text) && only[i - 1] && only[i + 1] === true);
    if (found.at(-1)?.only === marked)
      found.at(-1).text += text;
    else
      found.push({text, only: marked});
  });
  return found;
}

/** Turns of a conversation from `from` on. */
function turnsOf(id, from, most, signal) {
  return call('GET', conversationPath(id), {query: {turns: true, parts: true, from_turn: from, max_turns: most}, signal});
}

/** How many turns two conversations have in common, by asking for few: what agrees at one agrees before it. */
async function commonTurns(a, b, signal) {
  let low = 0, high = Math.min(a.n_turns, b.n_turns);
  while (low < high) {
    const at = low + high >> 1;
    const [left, right] = await Promise.all([a, b].map(({id}) => turnsOf(id, at, 1, signal)));
    if (left.turns[0] && right.turns[0] && same(left.turns[0], right.turns[0]))
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
  #ends = new AbortController();
  #lead = null;

  /** Draws into `host`. onClose() when Escape or Close is pressed, onOpen(id) when one of both is to be opened. */
  constructor(host, {onClose, onOpen}) {
    Object.assign(this, {onClose, onOpen});
    this.together = h('input', {type: 'checkbox', checked: true});
    this.title = h('h2', {class: 'compare-title', tabIndex: -1}, t('compare.title'));
    this.which = h('div', {class: 'compare-which', role: 'group', 'aria-label': t('compare.which')});
    this.common = h('details', {class: 'compare-common'});
    this.columns = h('div', {class: 'compare-columns'});
    this.element = h('section', {class: 'compare', 'aria-label': t('compare.title'), on: {keydown: event => this.#key(event)}},
      h('header', {class: 'compare-head'}, this.title,
        h('label', {class: 'compare-together'}, this.together, ' ', t('compare.together')),
        h('button', {type: 'button', on: {click: () => this.onClose()}}, t('close'))),
      this.which, this.common, this.columns);
    host.append(this.element);
    this.stop = store.on('conversation', id => this.sides?.filter(side => side.id === id).forEach(side => this.#drawHead(side)));
  }

  /** Resolves when the beginnings of both branches are there. */
  async show(idA, idB) {
    this.#ends.abort();
    this.#ends = new AbortController();
    this.#lead = null;
    this.sides = [idA, idB].map((id, index) => this.#side(id, index));
    fill(this.columns, this.sides.map(side => side.element));
    fill(this.which, this.sides.map(side => side.tab));
    this.#choose(0);
    this.title.focus({preventScroll: true});
    this.element.setAttribute('aria-busy', 'true');
    try {
      await this.#load(idA, idB, this.#ends.signal);
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
    this.#ends.abort();
    this.stop();
    this.element.remove();
  }

  async #load(idA, idB, signal) {
    const [a, b] = await Promise.all([idA, idB].map(id => call('GET', conversationPath(id), {signal})));
    const common = await commonTurns(a, b, signal);
    this.#drawCommon(idA, common);
    const told = await Promise.all(this.sides.map(({id}) => turnsOf(id, common, PAGE, signal)));
    const first = this.#differing(told.map(({turns}) => turns[0]));
    this.sides.forEach((side, i) => {
      side.next = common;
      this.#append(side, told[i], first?.[i]);
      if (told[i].turns.length === 0)
        fill(side.list, h('p', {class: 'hint'}, t('compare.ends')));
    });
  }

  /** The beginning of both, read backwards when it is opened. */
  #drawCommon(id, n) {
    let first = n;
    const turns = h('div');
    const earlier = h('button', {type: 'button', class: 'quiet', on: {click: () => attempt(more)}}, t('compare.earlier'));
    const more = async () => {
      const count = Math.min(PAGE, first);
      const told = await turnsOf(id, first - count, count, this.#ends.signal);
      first -= count;
      turns.prepend(...told.turns.map(turn => turnView(turn, {compact: true})));
      earlier.hidden = first === 0;
    };
    this.common.open = false;
    this.common.ontoggle = () => this.common.open && first === n && n > 0 && attempt(more);
    fill(this.common, h('summary', {}, n > 0 ? t('compare.common', {n}) : t('compare.nothing')), n > 0 && [earlier, turns]);
  }

  #side(id, index) {
    const side = {id, index, next: 0};
    side.head = h('div', {class: 'compare-name'});
    side.list = h('div');
    const more = async () => this.#append(side, await turnsOf(id, side.next, PAGE, this.#ends.signal));
    side.more = h('button', {type: 'button', class: 'quiet', hidden: true, on: {click: () => attempt(more)}}, t('compare.more'));
    const lead = () => {
      this.#lead = side;
    };
    side.scroller = h('div', {class: 'compare-scroll', tabIndex: 0, role: 'group', on: {
      scroll: () => this.#scrolled(side), pointerenter: lead, pointerdown: lead, focusin: lead,
    }}, side.list, side.more);
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
    fill(side.head, residencyDisc(conversation?.residency), h('h3', {dir: 'auto', title}, title),
      conversation && h('span', {class: 'figures'}, t('tokens', {n: conversation.n_tokens})),
      h('button', {type: 'button', class: 'quiet', 'aria-label': `${t('compare.open')}: ${title}`, on: {click: () => this.onOpen(side.id)}},
        t('compare.open')));
  }

  #append(side, told, first) {
    side.list.append(...told.turns.map((turn, i) => i === 0 && first ? first : turnView(turn, {compact: true})));
    side.next += told.turns.length;
    side.more.hidden = side.next >= told.n_turns;
  }

  /** The first turns that differ, as plain text with marks, if both say it in the same role. */
  #differing([left, right]) {
    if (!left || !right || left.role !== right.role || left.role === 'tool')
      return null;
    const pieces = diffWords(wordsOf(left), wordsOf(right));
    return pieces?.map(side => h('article', {class: 'turn', dataset: {role: left.role}},
      h('header', {class: 'turn-head'}, h('h4', {class: 'turn-who'}, t(`role.${left.role}`)),
        side.some(piece => piece.only) && h('span', {class: 'hint'}, t('compare.differs'))),
      h('div', {class: 'turn-body compare-diff', dir: 'auto'}, side.map(({text, only}) => only ? h('mark', {}, text) : text))));
  }

  /** Narrow screens have room for one. */
  #choose(index) {
    this.element.dataset.shown = index;
    for (const side of this.sides)
      side.tab.setAttribute('aria-pressed', String(side.index === index));
  }

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
