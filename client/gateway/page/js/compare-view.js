// SPDX-License-Identifier: MIT
// Two branches beside each other: what they have in common as one line, then what each says by itself. In the first turn that differs,
// the words that only one of them has are marked.
import {get} from './api.js';
import {attempt, errorView} from './dialogs.js';
import {button, fill, h} from './dom.js';
import {t} from './i18n.js';
import {residencyDisc} from './residency.js';
import {store} from './store.js';
import {same} from './tree-model.js';
import {turnView} from './turn-view.js';

const PAGE = 40;
const MOST_WORDS = 4000;
const WORDS = /(\s*)([\p{L}\p{N}_]+|\S|$)/gu;

/**
 * What differs between two texts: for each of them pieces {text, only}, which make the text; `only` are words that the other has not in
 * this order. Null if a text has more than 4,000 words.
 */
export function diffWords(a, b) {
  // The last word of each is an empty one.
  const sides = [a, b].map(text => Array.from(text.matchAll(WORDS), ([, space, word]) => ({space, word})));
  if (sides.some(words => words.length > MOST_WORDS + 1))
    return null;
  markCommon(...sides);
  return sides.map(words => {
    const pieces = [];
    const add = (text, only) => {
      if (pieces.at(-1)?.only === only)
        pieces.at(-1).text += text;
      else if (text)
        pieces.push({text, only});
    };
    words.forEach(({space, word, common}, i) => {
      add(space, !common && !words[i - 1]?.common);
      add(word, !common);
    });
    return pieces;
  });
}

/** Marks the words of a longest common sequence. */
function markCommon(a, b) {
  const numbers = new Map([...a, ...b].map(({word}, i) => [word, i]));
  const [left, right] = [a, b].map(words => Int32Array.from(words, ({word}) => numbers.get(word)));
  const width = b.length + 1;
  // Of what follows i in a, and j in b; by i * width + j.
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1, at = i * width + j; j >= 0; j--, at--)
      lengths[at] = left[i] === right[j] ? lengths[at + width + 1] + 1 : Math.max(lengths[at + width], lengths[at + 1]);
  for (let i = 0, j = 0; i < a.length && j < b.length;)
    if (left[i] === right[j])
      a[i++].common = b[j++].common = true;
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])
      i++;
    else
      j++;
}

/** Turns of a conversation from `from` on. */
function turnsOf(id, from, most, signal) {
  return get(id, {turns: true, parts: true, from_turn: from, max_turns: most}, signal);
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

function wordsOf({parts = [], text = ''}) {
  const said = parts.filter(part => part.kind === 'text').map(part => part.text);
  return said.length > 0 ? said.join('\n\n') : text;
}

export class CompareView {
  #ends = new AbortController();
  #lead = null; // the side that the pointer or the focus is in: the other one scrolls with it

  /** Draws into `host`. onClose() when Close is pressed, onOpen(id) when one of both is to be opened. */
  constructor(host, {onClose, onOpen}) {
    this.onOpen = onOpen;
    this.together = h('input', {type: 'checkbox', checked: true});
    this.title = h('h2', {class: 'compare-title', tabIndex: -1}, t('compare.title'));
    this.which = h('div', {class: 'compare-which', role: 'group', 'aria-label': t('compare.which')});
    this.common = h('details', {class: 'compare-common'});
    this.columns = h('div', {class: 'compare-columns'});
    this.element = h('section', {class: 'compare', 'aria-label': t('compare.title')},
      h('header', {class: 'compare-head'}, this.title,
        h('label', {class: 'compare-together'}, this.together, ' ', t('compare.together')), button(t('close'), onClose)),
      this.which, this.common, this.columns);
    host.append(this.element);
    this.stop = store.on('conversation', id => this.sides.filter(side => side.id === id).forEach(side => this.#drawHead(side)));
  }

  /** Resolves when the beginnings of both branches are there. */
  async show(...ids) {
    this.#lead = null;
    this.sides = ids.map((id, index) => this.#side(id, index));
    fill(this.columns, this.sides.map(side => side.element));
    fill(this.which, this.sides.map(side => side.tab));
    this.#choose(0);
    this.title.focus({preventScroll: true});
    this.element.ariaBusy = 'true';
    try {
      await this.#load(this.#ends.signal);
    } catch (error) {
      if (error.name !== 'ApiError')
        throw error;
      fill(this.columns, errorView(error, button(t('retry'), () => attempt(() => this.show(...ids)))));
    }
    this.element.ariaBusy = 'false';
  }

  destroy() {
    this.#ends.abort();
    this.stop();
    this.element.remove();
  }

  async #load(signal) {
    const [a, b] = await Promise.all(this.sides.map(({id}) => get(id, null, signal)));
    const common = await commonTurns(a, b, signal);
    this.#drawCommon(a.id, common);
    const told = await Promise.all(this.sides.map(({id}) => turnsOf(id, common, PAGE, signal)));
    const first = differing(told.map(({turns}) => turns[0]));
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
    const more = () => attempt(async () => {
      const count = Math.min(PAGE, first);
      const told = await turnsOf(id, first - count, count, this.#ends.signal);
      first -= count;
      turns.prepend(...told.turns.map(turnView));
      earlier.hidden = first === 0;
    });
    const earlier = button(t('compare.earlier'), more, {class: 'quiet'});
    this.common.open = false;
    this.common.ontoggle = () => this.common.open && first === n && n > 0 && more();
    fill(this.common, h('summary', {}, n > 0 ? t('compare.common', {n}) : t('compare.nothing')), n > 0 && [earlier, turns]);
  }

  #side(id, index) {
    const lead = () => {
      this.#lead = side;
    };
    const side = {id, index, head: h('div', {class: 'compare-name'}), list: h('div'), tab: button('', () => this.#choose(index))};
    side.more = button(t('compare.more'), () => attempt(async () =>
      this.#append(side, await turnsOf(id, side.next, PAGE, this.#ends.signal))), {class: 'quiet', hidden: true});
    side.scroller = h('div', {class: 'compare-scroll', tabIndex: 0, role: 'group', on: {
      scroll: () => this.#scrolled(side), pointerenter: lead, focusin: lead,
    }}, side.list, side.more);
    side.element = h('div', {class: 'compare-side', dataset: {side: index}}, side.head, side.scroller);
    this.#drawHead(side);
    return side;
  }

  #drawHead({id, head, tab, scroller}) {
    const conversation = store.get(id);
    const title = store.titleOf(conversation);
    scroller.ariaLabel = tab.textContent = title;
    fill(head, residencyDisc(conversation?.residency), h('h3', {dir: 'auto', title}, title),
      conversation && h('span', {class: 'figures'}, t('tokens', {n: conversation.n_tokens})),
      button(t('compare.open'), () => this.onOpen(id), {class: 'quiet', 'aria-label': `${t('compare.open')}: ${title}`}));
  }

  #append(side, {turns, n_turns: n}, first) {
    side.list.append(...turns.map((turn, i) => i === 0 && first ? first : turnView(turn)));
    side.next += turns.length;
    side.more.hidden = side.next >= n;
  }

  /** Narrow screens have room for one. */
  #choose(index) {
    this.element.dataset.shown = index;
    for (const side of this.sides)
      side.tab.ariaPressed = side.index === index;
  }

  /** The other one goes by the same share of its length. */
  #scrolled(side) {
    this.#lead ??= side;
    if (!this.together.checked || this.#lead !== side)
      return;
    const {scrollTop, scrollHeight, clientHeight} = side.scroller;
    const other = this.sides[1 - side.index].scroller;
    other.scrollTop = scrollTop / Math.max(1, scrollHeight - clientHeight) * (other.scrollHeight - other.clientHeight);
  }
}

/** The first turns that differ, as plain text with marks, if both say it in the same role. */
function differing([left, right]) {
  if (!left || !right || left.role !== right.role || left.role === 'tool')
    return null;
  return diffWords(wordsOf(left), wordsOf(right))?.map(pieces => h('article', {class: 'turn', dataset: {role: left.role}},
    h('header', {class: 'turn-head'}, h('h4', {class: 'turn-who'}, t(`role.${left.role}`)),
      pieces.some(piece => piece.only) && h('span', {class: 'hint'}, t('compare.differs'))),
    h('div', {class: 'turn-body compare-diff', dir: 'auto'}, pieces.map(({text, only}) => only ? h('mark', {}, text) : text))));
}
