// SPDX-License-Identifier: MIT
// The family of the open conversation, drawn. Each row is an element of a tree (role=tree) with its own piece of the lines, so what is read
// aloud and what is seen are the same; only the rows in view are there, and the one that has the focus.
import {errorView} from './dialogs.js';
import {fill, h, perFrame, settled, svg} from './dom.js';
import {FamilyTurns} from './family-turns.js';
import {when} from './format.js';
import {t} from './i18n.js';
import {residencyDisc} from './residency.js';
import {store} from './store.js';
import {buildTree, layoutTree, neighbour} from './tree-model.js';

const ROW = 1.75, TIP = 2.75; // heights, rem
const LANE = 18, NARROWEST = 6, GAP = 14; // px
const PADDING = 8; // px above the first row and below the last one
const MARGIN = 600; // px that are drawn above and below what is seen
const RANKS = ['cold', 'spilled', 'partial', 'resident'];
const KEYS = {ArrowUp: 'up', ArrowDown: 'down', ArrowLeft: 'left', ArrowRight: 'right', Home: 'home', End: 'end'};

export class TreeView {
  #turns = new FamilyTurns();
  #id = null;
  #root = null;
  #whole = '';
  #layout = layoutTree(buildTree([]));
  #open = new Set();
  #active = null;
  #marked = null;
  #rows = new Map();
  #tops = [];
  #load = null;

  /**
   * Draws into `host`. onOpen(id, turn), onCompare(idA, idB), onFork(id, turn): a turn is its number in that conversation, undefined
   * where it has none; a fork keeps the turn.
   */
  constructor(host, {onOpen, onCompare, onFork}) {
    Object.assign(this, {onOpen, onCompare, onFork});
    this.said = h('p', {class: 'tree-said hint', role: 'status'});
    this.list = h('ul', {class: 'tree-rows', role: 'tree', 'aria-label': t('tree.title'), 'aria-multiselectable': 'true', on: {
      keydown: event => this.#key(event), click: event => this.#click(event), focusin: event => this.#focused(event),
    }});
    this.scroller = h('div', {class: 'tree-scroll', on: {scroll: perFrame(() => this.#draw())}}, this.list);
    this.failed = h('div');
    this.element = h('div', {class: 'tree'}, this.scroller, this.failed, this.said, h('p', {class: 'tree-keys hint'}, t('tree.keys')));
    host.append(this.element);
    const soon = settled(() => this.#follow(), 60);
    this.stops = [store.on('list', soon), store.on('conversation', id => this.#concerns(id) && soon())];
    this.sizes = new ResizeObserver(perFrame(() => this.#place()));
    this.sizes.observe(this.scroller);
  }

  /** The family of a conversation, its end in view; null shows nothing. Resolves when all of it is drawn. */
  async show(id) {
    if (id === null || this.#id === null || store.families.rootOf(id) !== store.families.rootOf(this.#id)) {
      this.#root = null;
      this.#turns.forget();
      this.#open.clear();
      this.#mark(null);
    }
    this.#id = id;
    // Where a branch was chosen here, its row stays under the pointer.
    const row = this.#root && this.#layout.index.get(this.#active);
    const stays = Boolean(row) && (row.tip === undefined ? row.node.has(id) : row.tip === id);
    if (!stays)
      this.#active = null;
    this.#lay(stays ? undefined : null);
    await this.#follow();
  }

  /** Reads what has changed and draws it; focus and place stay. */
  refresh() {
    return this.#follow();
  }

  destroy() {
    this.#id = null;
    this.#load?.abort();
    for (const stop of this.stops)
      stop();
    this.sizes.disconnect();
    this.element.remove();
  }

  // ---- what is known ----

  #concerns(id) {
    return this.#id !== null && (this.#layout.index.has(`tip:${id}`) || store.families.rootOf(id) === store.families.rootOf(this.#id));
  }

  async #follow() {
    this.#load?.abort();
    const id = this.#id;
    if (!store.get(id))
      return;
    const load = this.#load = new AbortController();
    fill(this.failed);
    this.list.setAttribute('aria-busy', 'true');
    try {
      // First the open path alone, which is mostly little; then all that leaves it.
      if (!this.#root)
        await this.#take(ancestors(id), load.signal);
      await this.#take(store.families.membersOf(id).filter(other => other === id || !store.hidden.has(other)), load.signal);
    } catch (error) {
      if (error.name === 'AbortError' || load !== this.#load)
        return;
      if (error.name !== 'ApiError')
        throw error;
      fill(this.failed, errorView(error, h('button', {type: 'button', on: {click: () => this.#follow()}}, t('retry'))));
    }
    if (load === this.#load)
      this.list.setAttribute('aria-busy', 'false');
  }

  async #take(ids, signal) {
    const members = await this.#turns.load(ids, {signal});
    if (signal.aborted)
      return;
    const whole = members.map(member => member.conversation.id).join();
    if (this.#root && !this.#turns.changed && whole === this.#whole) {
      this.#draw();
      return;
    }
    this.#turns.changed = false;
    this.#whole = whole;
    this.#root = buildTree(members);
    this.#lay();
  }

  // ---- places ----

  /** New places; what has the focus, or was at the top of the view, stays where it was. */
  #lay(anchor = this.#anchor()) {
    this.#layout = layoutTree(this.#root ?? buildTree([]), {pathOf: this.#id, open: this.#open});
    if (!this.#layout.index.has(this.#active))
      this.#active = neighbour(this.#layout, this.#layout.rows[0]?.key, 'end');
    this.#place(anchor);
  }

  #anchor() {
    const {scrollTop, clientHeight} = this.scroller;
    const seen = row => row && this.#tops[row.y] >= scrollTop && this.#tops[row.y + 1] <= scrollTop + clientHeight;
    const active = this.#layout.index.get(this.#active);
    const row = seen(active) ? active : this.#layout.rows.find(seen);
    return row && {key: row.key, offset: this.#tops[row.y] - scrollTop};
  }

  #place(anchor = this.#anchor()) {
    const {rows, index, lanes} = this.#layout;
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.#tops = [PADDING];
    for (const row of rows)
      this.#tops.push(this.#tops.at(-1) + Math.round((row.kind === 'tip' ? TIP : ROW) * rem));
    this.list.style.setProperty('block-size', `${this.#tops.at(-1) + PADDING}px`);
    this.lane = Math.max(NARROWEST, Math.min(LANE, this.scroller.clientWidth * 0.4 / lanes));
    const kept = anchor && index.get(anchor.key);
    if (kept)
      this.scroller.scrollTop = this.#tops[kept.y] - anchor.offset;
    if (rows.length > 0 && (!kept || kept.key === this.#active))
      this.#reveal(index.get(this.#active));
    this.#draw();
  }

  #reveal(row) {
    const top = this.#tops[row.y] - PADDING, bottom = this.#tops[row.y + 1] + PADDING;
    this.scroller.scrollTop = Math.max(Math.min(this.scroller.scrollTop, top), bottom - this.scroller.clientHeight);
  }

  // ---- drawing ----

  /** The rows in view, in their order; elements that stay are not touched but for what changed. */
  #draw() {
    const {scrollTop, clientHeight} = this.scroller;
    const wanted = this.#layout.rows.filter(row => row.key === this.#active ||
      (this.#tops[row.y + 1] > scrollTop - MARGIN && this.#tops[row.y] < scrollTop + clientHeight + MARGIN));
    const keys = new Set(wanted.map(row => row.key));
    const focused = this.list.contains(document.activeElement);
    for (const [key, {element}] of this.#rows)
      if (!keys.has(key)) {
        element.remove();
        this.#rows.delete(key);
      }
    const lines = this.#linesOf(wanted);
    let next = this.list.firstChild;
    for (const row of wanted) {
      const element = this.#drawRow(row, lines.get(row.y));
      if (element === next)
        next = next.nextSibling;
      else
        this.list.insertBefore(element, next);
    }
    if (focused && !this.list.contains(document.activeElement))
      this.#rows.get(this.#active)?.element.focus({preventScroll: true});
  }

  #drawRow(row, lines) {
    const view = this.#rows.get(row.key) ??
      {element: h('li', {role: 'treeitem', class: 'tree-row', dataset: {key: row.key, kind: row.kind}})};
    const {element} = view;
    this.#rows.set(row.key, view);
    const conversation = store.get(row.tip);
    this.#attributes(element, row, conversation);
    const height = this.#tops[row.y + 1] - this.#tops[row.y];
    const label = this.#label(row, conversation);
    const state = [this.lane, height, row.x, row.strong, ...lines, label, conversation?.residency, conversation?.generating,
      conversation?.n_tokens, row.tip === this.#marked, row.tip === this.#id, this.#whole.includes(',')].join('\n');
    if (state !== view.state) {
      view.state = state;
      const text = row.kind === 'turn' ? row.node.text || t('tree.wordless') : label;
      fill(element, this.#drawLines(row, lines, height), row.kind === 'tip' ? this.#tip(row, conversation)
        : h('span', {class: 'tree-text', dir: 'auto', title: text}, text));
    }
    return element;
  }

  #attributes(element, row, conversation) {
    const attributes = {
      'aria-level': row.level, 'aria-posinset': row.place, 'aria-setsize': row.group.size,
      'aria-selected': String(row.tip !== undefined && row.tip === this.#marked),
      'aria-current': row.tip !== undefined && row.tip === this.#id ? 'true' : null,
      'aria-expanded': row.kind === 'fold' ? String(row.open) : null,
      'aria-label': row.kind === 'tip' ? null : this.#label(row),
      'data-strong': row.strong ? '' : null, 'data-writing': conversation?.generating ? '' : null, 'data-role': row.node?.role ?? null,
      tabindex: row.key === this.#active ? 0 : -1,
    };
    for (const [name, value] of Object.entries(attributes))
      if (value === null)
        element.removeAttribute(name);
      else if (element.getAttribute(name) !== String(value))
        element.setAttribute(name, value);
    element.style.setProperty('inset-block-start', `${this.#tops[row.y]}px`);
    element.style.setProperty('--tree-at', `${this.#x(row.x)}px`);
  }

  #label(row, conversation) {
    return {
      tip: () => store.titleOf(conversation), fold: () => t('turns', {n: row.nodes.length}), root: () => t('tree.beginning'),
      turn: () => `${t(`role.${row.node.role}`)}: ${row.node.text || t('tree.wordless')}`,
    }[row.kind]();
  }

  #tip(row, conversation) {
    const title = store.titleOf(conversation);
    const hint = conversation && [title, t('turns', {n: conversation.n_turns}), t('tokens', {n: conversation.n_tokens}),
      when(conversation.updated_usec)].join(' · ');
    return h('span', {class: 'tree-tip'},
      h('span', {class: 'tree-title', dir: 'auto', title: hint}, title), ' ', residencyDisc(conversation?.residency), ' ',
      conversation?.generating && [h('span', {class: 'hint'}, t('tree.writing')), ' '],
      this.#marked === row.tip && [h('span', {class: 'hint'}, t('tree.marked')), ' '],
      row.tip !== this.#id && this.#whole.includes(',') &&
        h('button', {type: 'button', class: 'quiet tree-compare', tabIndex: -1}, t('tree.compare')));
  }

  // ---- lines ----

  #x(lane) {
    return (lane + 0.6) * this.lane;
  }

  /** For each row that is drawn, its pieces of lines: "KIND LANE RESIDENCY strong". */
  #linesOf(wanted) {
    const pieces = new Map(wanted.map(row => [row.y, []]));
    const first = wanted[0]?.y, last = wanted.at(-1)?.y;
    for (const edge of this.#layout.edges) {
      if (edge.end < first || edge.start > last)
        continue;
      const rest = `${edge.lane} ${this.#residencyOf(this.#layout.index.get(edge.to))}${edge.strong ? ' strong' : ''}`;
      if (edge.lane !== edge.toLane)
        pieces.get(edge.end)?.push(`fork ${rest}`);
      else
        for (let y = Math.max(edge.start, first); y <= Math.min(edge.end, last); y++)
          pieces.get(y)?.push(`${y === edge.start ? 'below' : y === edge.end ? 'above' : 'through'} ${rest}`);
    }
    return pieces;
  }

  /** Where the best kept of the conversations that have a row is: they share the memory of their turns. */
  #residencyOf(row) {
    const ids = row.kind === 'tip' ? [row.tip] : row.node.conversations;
    return RANKS[Math.max(0, ...ids.map(id => RANKS.indexOf(store.get(id)?.residency)))];
  }

  #drawLines(row, lines, height) {
    const middle = height / 2;
    // What is strong comes last, so it lies above.
    const paths = lines.map(line => line.split(' ')).sort((a, b) => a.length - b.length).map(([kind, lane, residency, strong = '']) => {
      const at = this.#x(Number(lane));
      const d = {
        below: `M${at} ${middle}V${height}`, above: `M${at} 0V${middle}`, through: `M${at} 0V${height}`,
        fork: `M${at} 0Q${at} ${middle} ${at + this.lane} ${middle}`,
      }[kind];
      return svg('path', {class: `tree-line ${strong}`, 'data-residency': residency, d});
    });
    // Nothing is to the right of a row's own mark, so its text may begin there.
    const width = this.#x(row.x) + GAP;
    return svg('svg', {class: 'tree-lines', 'aria-hidden': 'true', width, height, viewBox: `0 0 ${width} ${height}`},
      paths, mark(row, this.#x(row.x), middle));
  }

  // ---- what is done ----

  /** The conversation and the turn that a row stands for. */
  #meant({node, tip}) {
    return {id: tip ?? (node.has(this.#id) ? this.#id : node.owner), turn: node?.turn?.turn};
  }

  #enter(row) {
    const {id, turn} = this.#meant(row);
    if (row.kind !== 'fold') {
      this.onOpen(id, turn);
      return;
    }
    if (!this.#open.delete(row.key))
      this.#open.add(row.key);
    this.#lay();
  }

  #compare(id) {
    const other = this.#marked ?? this.#id;
    if (id === other)
      return;
    this.#mark(null);
    this.onCompare(other, id);
  }

  #mark(id) {
    this.#marked = id;
    this.said.textContent = id === null ? '' : t('tree.isMarked', {title: store.titleOf(store.get(id))});
    this.#draw();
  }

  #activate(key) {
    this.#active = key;
    this.#reveal(this.#layout.index.get(key));
    this.#draw();
    this.#rows.get(key).element.focus({preventScroll: true});
  }

  #focused(event) {
    const key = event.target.closest('li')?.dataset.key;
    if (key && key !== this.#active) {
      this.#active = key;
      this.#draw();
    }
  }

  #click(event) {
    const row = this.#layout.index.get(event.target.closest('li')?.dataset.key);
    if (!row)
      return;
    this.#activate(row.key);
    if (event.target.closest('button'))
      this.#compare(row.tip);
    else
      this.#enter(row);
  }

  #key(event) {
    const row = this.#layout.index.get(this.#active);
    if (!row || event.ctrlKey || event.altKey || event.metaKey)
      return;
    const {id, turn} = this.#meant(row);
    const swapped = getComputedStyle(this.list).direction === 'rtl' ? {ArrowLeft: 'right', ArrowRight: 'left'} : {};
    const direction = swapped[event.key] ?? KEYS[event.key];
    if (direction)
      this.#activate(neighbour(this.#layout, row.key, direction) ?? row.key);
    else if (event.key === 'Enter' || event.key === ' ')
      this.#enter(row);
    else if (event.key === 'c' && this.#marked !== null && this.#marked !== id)
      this.#compare(id);
    else if (event.key === 'c')
      this.#mark(this.#marked === null ? id : null);
    else if (event.key === 'f' && turn !== undefined)
      this.onFork(id, turn);
    else
      return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** A conversation and those above it that are there, the oldest first. */
function ancestors(id) {
  const path = [];
  for (let at = id; store.get(at) && (at === id || !store.hidden.has(at)); at = store.get(at).parent)
    path.unshift(at);
  return path;
}

/** The mark of a row: square for the user, round for the assistant, small for the rest; the end of a conversation has its disc. */
function mark({kind, node, strong}, x, y) {
  const name = strong ? 'tree-node strong' : 'tree-node';
  if (kind === 'tip')
    return svg('circle', {class: 'tree-hole', cx: x, cy: y, r: 5});
  if (kind === 'fold')
    return [svg('rect', {class: 'tree-hole', x: x - 4, y: y - 9, width: 8, height: 18}),
      [-5, 0, 5].map(offset => svg('circle', {class: `${name} dot`, cx: x, cy: y + offset, r: 1.5}))];
  if (node.role === 'user')
    return svg('rect', {class: name, x: x - 4, y: y - 4, width: 8, height: 8, rx: 1.5});
  return svg('circle', {class: name, cx: x, cy: y, r: node.role === 'assistant' ? 4.25 : 2.5});
}
