// SPDX-License-Identifier: MIT
// The family of the open conversation, drawn. Each row is an element of a tree (role=tree) with its own piece of the lines, so what is read
// aloud and what is seen are the same thing; only the rows in view are there, and the one that has the focus.
import {errorView} from './dialogs.js';
import {fill, h, perFrame, settled, svg} from './dom.js';
import {when} from './format.js';
import {FamilyTurns} from './family-turns.js';
import {t} from './i18n.js';
import {residencyDisc} from './residency.js';
import {store} from './store.js';
import {buildTree, layoutTree, neighbour} from './tree-model.js';

const ROW = 1.75; // rem
const TIP = 2.75;
const LANE = 18; // px
const NARROWEST = 6;
const GAP = 14;
const PADDING = 8; // px above the first row and below the last one
const MARGIN = 600; // px that are drawn above and below what is seen
const RANK = {resident: 3, partial: 2, spilled: 1, cold: 0};
const RANKS = ['cold', 'spilled', 'partial', 'resident'];
const KEYS = {ArrowUp: 'up', ArrowDown: 'down', ArrowLeft: 'left', ArrowRight: 'right', Home: 'home', End: 'end'};

export class TreeView {
  #turns = new FamilyTurns();
  #id = null;
  #root = null;
  #whole = '';
  #layout = null;
  #open = new Set();
  #active = null;
  #marked = null;
  #rows = new Map();
  #tops = [];
  #load = null;
  #stops = [];

  /**
   * Draws into `host`. onOpen(id, turn), onCompare(idA, idB), onFork(id, turn): a turn is its number in that conversation; a fork keeps the turn. A
   * turn is undefined where a conversation has none.
   */
  constructor(host, {onOpen, onCompare, onFork}) {
    Object.assign(this, {onOpen, onCompare, onFork});
    this.said = h('p', {class: 'tree-said', role: 'status'});
    this.list = h('ul', {class: 'tree-rows', role: 'tree', 'aria-label': t('tree.title'), 'aria-multiselectable': 'true', on: {
      keydown: event => this.#key(event), click: event => this.#click(event), focusin: event => this.#focused(event),
    }});
    this.scroller = h('div', {class: 'tree-scroll', on: {scroll: perFrame(() => this.#draw())}}, this.list);
    this.failed = h('div');
    this.element = h('div', {class: 'tree'}, this.scroller, this.failed, this.said, h('p', {class: 'tree-keys hint'}, t('tree.keys')));
    host.append(this.element);
    const soon = settled(() => this.#follow(), 60);
    this.#stops = [
      store.on('list', () => this.#id !== null && soon()),
      store.on('conversation', id => this.#concerns(id) && soon()),
    ];
    this.sizes = new ResizeObserver(perFrame(() => this.#place()));
    this.sizes.observe(this.scroller);
  }

  /** The family of a conversation, its end in view; null shows nothing. Resolves when all of it is drawn. */
  async show(id) {
    const related = id !== null && this.#id !== null && store.families.rootOf(id) === store.families.rootOf(this.#id);
    this.#id = id;
    if (!related) {
      this.#root = null;
      this.#turns.forget();
      this.#open.clear();
      this.#marked = null;
      this.#say();
    }
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
    for (const stop of this.#stops)
      stop();
    this.sizes.disconnect();
    this.element.remove();
  }

  // ---- what is known ----

  #concerns(id) {
    return this.#id !== null && (this.#rows.has(`tip:${id}`) || this.#layout?.index.has(`tip:${id}`) ||
      store.families.rootOf(id) === store.families.rootOf(this.#id));
  }

  async #follow() {
    this.#load?.abort();
    const id = this.#id;
    if (id === null || !store.get(id))
      return;
    const load = this.#load = new AbortController();
    fill(this.failed);
    this.list.setAttribute('aria-busy', 'true');
    try {
      // First the open path alone, which is mostly little; then all that leaves it.
      if (!this.#root)
        await this.#take(ancestors(id), load.signal);
      await this.#take(store.families.membersOf(id).filter(other => other === id || !store.hidden?.has(other)), load.signal);
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
    if (this.#turns.changed || whole !== this.#whole) {
      this.#turns.changed = false;
      this.#whole = whole;
      this.#root = buildTree(members);
      this.#lay();
    } else {
      this.#draw();
    }
  }

  // ---- places ----

  /** New places; what was at the top of the view, or has the focus, stays where it was. */
  #lay(anchor = this.#anchor()) {
    this.#layout = this.#root && layoutTree(this.#root, {pathOf: this.#id, open: this.#open});
    const rows = this.#layout?.rows ?? [];
    if (!this.#layout?.index.has(this.#active))
      this.#active = rows.length > 0 ? neighbour(this.#layout, rows[0].key, 'end') : null;
    this.#place(anchor);
  }

  #anchor() {
    const {scrollTop, clientHeight} = this.scroller;
    const rows = this.#layout?.rows ?? [];
    const seen = row => row && this.#tops[row.y] >= scrollTop - 1 && this.#tops[row.y + 1] <= scrollTop + clientHeight + 1;
    const active = this.#layout?.index.get(this.#active);
    const row = seen(active) ? active : rows.find(seen);
    return row && {key: row.key, offset: this.#tops[row.y] - scrollTop};
  }

  #place(anchor = this.#anchor()) {
    const rows = this.#layout?.rows ?? [];
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.#tops = [PADDING];
    for (const row of rows)
      this.#tops.push(this.#tops.at(-1) + Math.round((row.kind === 'tip' ? TIP : ROW) * rem));
    this.list.style.setProperty('block-size', `${this.#tops.at(-1) + PADDING}px`);
    const lanes = this.#layout?.lanes ?? 1;
    this.lane = Math.max(NARROWEST, Math.min(LANE, this.scroller.clientWidth * 0.4 / lanes));
    const kept = anchor && this.#layout?.index.get(anchor.key);
    if (kept)
      this.scroller.scrollTop = this.#tops[kept.y] - anchor.offset;
    if (kept && anchor.key === this.#active)
      this.#reveal(kept);
    else if (!kept && this.#active !== null)
      this.#reveal(this.#layout.index.get(this.#active), 'end');
    this.#draw();
  }

  #reveal(row, where) {
    const top = this.#tops[row.y], bottom = this.#tops[row.y + 1];
    const {scrollTop, clientHeight} = this.scroller;
    if (where === 'end' || bottom + PADDING > scrollTop + clientHeight)
      this.scroller.scrollTop = bottom + PADDING - clientHeight;
    else if (top - PADDING < scrollTop)
      this.scroller.scrollTop = top - PADDING;
  }

  // ---- drawing ----

  /** The rows in view, in their order; elements that stay are not touched but for what changed. */
  #draw() {
    const rows = this.#layout?.rows ?? [];
    const {scrollTop, clientHeight} = this.scroller;
    const wanted = rows.filter(row => row.key === this.#active ||
      (this.#tops[row.y + 1] > scrollTop - MARGIN && this.#tops[row.y] < scrollTop + clientHeight + MARGIN));
    const keys = new Set(wanted.map(row => row.key));
    const focus = this.list.contains(document.activeElement) ? document.activeElement.closest('li').dataset.key : null;
    for (const [key, view] of this.#rows)
      if (!keys.has(key)) {
        view.element.remove();
        this.#rows.delete(key);
      }
    const lines = this.#linesOf(wanted);
    let before = null;
    for (const row of wanted) {
      const element = this.#drawRow(row, lines.get(row.y));
      const next = before ? before.nextSibling : this.list.firstChild;
      if (next !== element)
        this.list.insertBefore(element, next);
      before = element;
    }
    if (focus !== null && !this.list.contains(document.activeElement))
      this.#rows.get(this.#active)?.element.focus({preventScroll: true});
  }

  #drawRow(row, lines) {
    let view = this.#rows.get(row.key);
    if (!view) {
      view = {element: h('li', {role: 'treeitem', class: 'tree-row', dataset: {key: row.key, kind: row.kind}}), lines: h('span'), body: h('span')};
      view.element.append(view.lines, view.body);
      this.#rows.set(row.key, view);
    }
    this.#attributes(view.element, row);
    const height = this.#tops[row.y + 1] - this.#tops[row.y];
    const shape = [this.lane, height, row.x, row.kind, row.node?.role, row.strong, row.open, ...lines].join();
    if (shape !== view.shape) {
      view.shape = shape;
      const drawn = this.#drawLines(row, lines, height);
      view.lines.replaceWith(drawn);
      view.lines = drawn;
    }
    const content = this.#content(row);
    if (content.join('\n') !== view.content) {
      view.content = content.join('\n');
      const body = this.#body(row);
      view.body.replaceWith(body);
      view.body = body;
    }
    return view.element;
  }

  #attributes(element, row) {
    const conversation = row.kind === 'tip' ? store.get(row.tip) : null;
    const attributes = {
      'aria-level': row.level, 'aria-posinset': row.place, 'aria-setsize': row.group.size,
      'aria-selected': String(this.#marked !== null && row.tip === this.#marked),
      'aria-current': row.tip !== undefined && row.tip === this.#id ? 'true' : null,
      'aria-expanded': row.kind === 'fold' ? String(row.open) : null,
      'aria-label': row.kind === 'tip' ? null : this.#label(row), tabindex: row.key === this.#active ? '0' : '-1',
      'data-strong': row.strong ? '' : null, 'data-writing': conversation?.generating ? '' : null, 'data-role': row.node?.role ?? null,
    };
    for (const [name, value] of Object.entries(attributes))
      if (value === null)
        element.removeAttribute(name);
      else if (element.getAttribute(name) !== String(value))
        element.setAttribute(name, value);
    element.style.setProperty('inset-block-start', `${this.#tops[row.y]}px`);
    element.style.setProperty('--tree-at', `${(row.x + 0.6) * this.lane}px`);
  }

  #label(row) {
    if (row.kind === 'tip') {
      const conversation = store.get(row.tip);
      return [store.titleOf(conversation), t(`residency.${conversation?.residency ?? 'cold'}`), conversation?.generating && t('tree.writing')]
        .filter(Boolean).join(', ');
    }
    if (row.kind === 'fold')
      return t('turns', {n: row.nodes.length});
    return row.kind === 'root' ? t('tree.beginning') : `${t(`role.${row.node.role}`)}: ${row.node.text || t('tree.wordless')}`;
  }

  /** What a row's text depends on. */
  #content(row) {
    if (row.kind !== 'tip')
      return [this.#label(row)];
    const conversation = store.get(row.tip);
    return [this.#label(row), conversation?.n_tokens, conversation?.updated_usec, this.#marked === row.tip, this.#id === row.tip,
      this.#root.tree.ends.length > 1];
  }

  #body(row) {
    if (row.kind === 'tip')
      return this.#tipBody(row);
    const text = row.kind === 'turn' ? row.node.text || t('tree.wordless') : this.#label(row);
    return h('span', {class: 'tree-text', dir: 'auto', title: text}, text);
  }

  #tipBody(row) {
    const conversation = store.get(row.tip);
    const title = store.titleOf(conversation);
    const hint = conversation && [title, t('turns', {n: conversation.n_turns}), t('tokens', {n: conversation.n_tokens}), when(conversation.updated_usec)];
    const other = this.#id !== row.tip && this.#root.tree.ends.length > 1;
    return h('span', {class: 'tree-tip'},
      h('span', {class: 'tree-title', dir: 'auto', title: hint?.join(' · ')}, title), ' ',
      residencyDisc(conversation?.residency), ' ',
      conversation?.generating && h('span', {class: 'tree-writing'}, t('tree.writing')), ' ',
      this.#marked === row.tip && h('span', {class: 'tree-mark'}, t('tree.marked')), ' ',
      other && h('button', {type: 'button', class: 'quiet tree-compare', tabIndex: -1, on: {click: event => {
        event.stopPropagation();
        this.#compare(row.tip);
      }}}, t('tree.compare')));
  }

  // ---- lines ----

  /** For each row that is drawn, its pieces of lines: [lane, other lane, from top, to bottom, residency, strong] as texts. */
  #linesOf(wanted) {
    const pieces = new Map(wanted.map(row => [row.y, []]));
    const first = wanted[0]?.y, last = wanted.at(-1)?.y;
    for (const edge of this.#layout?.edges ?? []) {
      if (edge.end < first || edge.start > last)
        continue;
      const row = this.#layout.index.get(edge.to);
      const kind = this.#residencyOf(row);
      if (edge.lane !== edge.toLane)
        pieces.get(edge.end)?.push(`fork ${edge.lane} ${kind}`);
      else
        for (let y = Math.max(edge.start, first); y <= Math.min(edge.end, last); y++)
          pieces.get(y)?.push(`${y === edge.start ? 'below' : y === edge.end ? 'above' : 'through'} ${edge.lane} ${kind}${edge.strong ? ' strong' : ''}`);
    }
    return pieces;
  }

  /** Of the conversations that have a row, what the best kept of them says: the memory of turns is shared. */
  #residencyOf(row) {
    const ids = row.kind === 'tip' ? [row.tip] : row.node.conversations;
    let best = 0;
    for (const id of ids) {
      best = Math.max(best, RANK[store.get(id)?.residency] ?? 0);
      if (best === 3)
        break;
    }
    return RANKS[best];
  }

  #drawLines(row, lines, height) {
    const x = lane => (lane + 0.6) * this.lane;
    const middle = height / 2;
    const paths = lines.map(line => {
      const [piece, lane, residency, strong] = line.split(' ');
      const at = x(Number(lane));
      const d = {
        below: `M${at} ${middle}V${height}`, above: `M${at} 0V${middle}`, through: `M${at} 0V${height}`,
        fork: `M${at} 0Q${at} ${middle} ${at + this.lane} ${middle}`,
      }[piece];
      return svg('path', {class: strong ? 'tree-line strong' : 'tree-line', 'data-residency': residency, d});
    }).sort((a, b) => a.classList.contains('strong') - b.classList.contains('strong'));
    // Nothing is to the right of a row's own mark, so its text may begin there.
    const width = x(row.x) + GAP;
    return svg('svg', {class: 'tree-lines', 'aria-hidden': 'true', width, height, viewBox: `0 0 ${width} ${height}`},
      paths, mark(row, x(row.x), middle));
  }

  // ---- what is done ----

  /** The conversation and the turn that a row stands for. */
  #meant(row) {
    const {node} = row;
    const id = row.tip ?? (node.has(this.#id) ? this.#id : node.owner);
    return {id: id || this.#id, turn: node?.turn?.turn};
  }

  #enter(row) {
    if (row.kind === 'fold') {
      if (!this.#open.delete(row.key))
        this.#open.add(row.key);
      this.#lay();
      return;
    }
    const {id, turn} = this.#meant(row);
    this.onOpen(id, turn);
  }

  #compare(id) {
    const other = this.#marked ?? this.#id;
    if (id === other)
      return;
    this.#marked = null;
    this.#say();
    this.#draw();
    this.onCompare(other, id);
  }

  #markOrCompare(id) {
    if (this.#marked !== null && this.#marked !== id) {
      this.#compare(id);
      return;
    }
    this.#marked = this.#marked === id ? null : id;
    this.#say();
    this.#draw();
  }

  #say() {
    this.said.textContent = this.#marked === null ? '' : t('tree.isMarked', {title: store.titleOf(store.get(this.#marked))});
  }

  #activate(key) {
    const before = this.#rows.get(this.#active);
    before?.element.setAttribute('tabindex', '-1');
    this.#active = key;
    this.#reveal(this.#layout.index.get(key));
    this.#draw();
    this.#rows.get(key).element.focus({preventScroll: true});
  }

  #focused(event) {
    const key = event.target.closest('li')?.dataset.key;
    if (!key || key === this.#active)
      return;
    this.#rows.get(this.#active)?.element.setAttribute('tabindex', '-1');
    this.#active = key;
    this.#rows.get(key)?.element.setAttribute('tabindex', '0');
  }

  #click(event) {
    const row = this.#layout?.index.get(event.target.closest('li')?.dataset.key);
    if (!row)
      return;
    this.#activate(row.key);
    this.#enter(row);
  }

  #key(event) {
    const row = this.#layout?.index.get(this.#active);
    if (!row || event.ctrlKey || event.altKey || event.metaKey)
      return;
    const {id, turn} = this.#meant(row);
    const sides = getComputedStyle(this.list).direction === 'rtl' ? {ArrowLeft: 'right', ArrowRight: 'left'} : {};
    const direction = sides[event.key] ?? KEYS[event.key];
    if (direction) {
      const next = neighbour(this.#layout, row.key, direction);
      if (next !== null)
        this.#activate(next);
    } else if (event.key === 'Enter' || event.key === ' ') {
      this.#enter(row);
    } else if (event.key === 'c') {
      this.#markOrCompare(id);
    } else if (event.key === 'f' && turn !== undefined) {
      this.onFork(id, turn);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}

/** A conversation and those above it that are there, the oldest first. */
function ancestors(id) {
  const path = [];
  for (let at = id; store.get(at) && (at === id || !store.hidden?.has(at)); at = store.get(at).parent)
    path.unshift(at);
  return path;
}

/** The mark of a row: square for the user, round for the assistant, small for the rest; the end of a conversation has its disc. */
function mark(row, x, y) {
  const name = row.strong ? 'tree-node strong' : 'tree-node';
  if (row.kind === 'fold')
    return [svg('rect', {class: 'tree-hole', x: x - 4, y: y - 9, width: 8, height: 18}),
      [-5, 0, 5].map(offset => svg('circle', {class: `${name} dot`, cx: x, cy: y + offset, r: 1.5}))];
  if (row.kind === 'tip')
    return svg('circle', {class: 'tree-hole', cx: x, cy: y, r: 5});
  if (row.kind === 'turn' && row.node.role === 'user')
    return svg('rect', {class: name, x: x - 4, y: y - 4, width: 8, height: 8, rx: 1.5});
  return svg('circle', {class: name, cx: x, cy: y, r: row.kind === 'turn' && row.node.role === 'assistant' ? 4.25 : 2.5});
}
