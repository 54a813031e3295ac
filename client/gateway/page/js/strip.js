// SPDX-License-Identifier: MIT
// The memory strip: who holds how much of RAM, what is on disk, how fast it goes, who waits, and whether memory is short. It asks for nothing: the
// store tells when there are new figures. A panel above it has the conversations and what can be done with their memory.
import {menu} from './dialogs.js';
import {fill, h, settled} from './dom.js';
import {bytes, number} from './format.js';
import {t} from './i18n.js';
import {residencyDisc, setResidency} from './residency.js';
import {store} from './store.js';

const SEGMENTS = 8;
const ROWS = 50;
const HOVER_MS = 500;
const LEAVE_MS = 400;

/** The conversations with the most of `field`, at most `most`, the largest first. */
export function largest(conversations, most, field = 'ram_bytes', second = 'disk_bytes') {
  const order = (a, b) => b[field] - a[field] || b[second] - a[second] || a.id - b.id;
  let found = [];
  for (const conversation of conversations) {
    if (!(conversation[field] > 0 || conversation[second] > 0))
      continue;
    found.push(conversation);
    if (found.length >= 4 * most)
      found = found.sort(order).slice(0, most);
  }
  return found.sort(order).slice(0, most);
}

/**
 * The pool as segments [{kind, id, bytes, share}] that fill the bar: conversations, what others hold, what is kept for the next, what is free. Memory that
 * conversations share counts in full in each; where that is more than there is, they are drawn smaller.
 */
export function poolSegments(stats, conversations, most = SEGMENTS) {
  const live = stats.pool_live_bytes ?? 0;
  const used = Math.max(live, stats.ledger_used ?? 0);
  const whole = Math.max(stats.budget ?? 0, used, 1);
  const top = largest(conversations, most).filter(conversation => conversation.ram_bytes > 0);
  const told = top.reduce((sum, {ram_bytes}) => sum + ram_bytes, 0);
  const scale = told > live ? live / told : 1;
  const segments = top.map(({id, ram_bytes}) => ({kind: 'conversation', id, bytes: ram_bytes, share: ram_bytes * scale / whole}));
  const rest = [['others', live - told * scale], ['spare', used - live], ['free', whole - used]];
  for (const [kind, size] of rest)
    segments.push({kind, bytes: Math.round(size), share: Math.max(0, size) / whole});
  return segments;
}

/** Tokens per second between two polls: {decoded, prefilled}; nothing where the daemon began anew. */
export function speeds(before, now, seconds) {
  const speed = name => before && seconds > 0 && now[name] >= before[name] ? (now[name] - before[name]) / seconds : 0;
  return {decoded: speed('tokens_decoded'), prefilled: speed('tokens_prefilled')};
}

/** Whether memory is short: the budget had to become smaller, or memory was told to be short since `before`. */
export function isPressed(before, now) {
  const largestBudget = now.budget_max ?? 0;
  return now.budget < largestBudget || now.budget_asked < largestBudget ||
    Boolean(before) && now.pressure_episodes > before.pressure_episodes;
}

const perSecond = speed => number(speed < 10 ? Math.round(speed * 10) / 10 : Math.round(speed));
const percent = share => `${Math.max(0, Math.min(1, share)) * 100}%`;

export class Strip {
  #before = null;
  #at = 0;
  #speeds = {decoded: 0, prefilled: 0};
  #pressed = false;
  #segments = new Map();
  #rows = new Map();
  #stops = [];
  #timer = 0;
  #stays = false;

  /** Draws into `host`. onAction(verb, id): warm, evict, pin, unpin, publish, unpublish. onOpen(id): a title was chosen. */
  constructor(host, {onAction = () => {}, onOpen = () => {}} = {}) {
    Object.assign(this, {host, onAction, onOpen});
    this.pool = h('span', {class: 'strip-pool'});
    this.figures = h('span', {class: 'strip-figures'});
    this.bar = h('button', {type: 'button', class: 'strip-bar', 'aria-expanded': 'false', 'aria-controls': 'strip-panel',
      on: {click: () => this.#toggle()}}, this.pool, this.figures);
    this.panel = h('section', {class: 'strip-panel', id: 'strip-panel', hidden: true, 'aria-label': t('strip.table'), tabIndex: -1});
    this.element = h('div', {class: 'strip', on: {
      pointerenter: event => event.pointerType === 'mouse' && this.#later(() => this.#show(), HOVER_MS),
      pointerleave: event => event.pointerType === 'mouse' && this.#left(),
      keydown: event => this.#key(event),
    }}, this.panel, this.bar);
    host.append(this.element);
    const soon = settled(() => this.#draw(), 200);
    this.#stops = [store.on('stats', () => this.#take()), store.on('conversation', soon), store.on('list', soon)];
    this.outside = event => !this.element.contains(event.target) && !event.target.closest('.menu, dialog') && this.#hide();
    document.addEventListener('pointerdown', this.outside);
    this.#draw();
  }

  destroy() {
    clearTimeout(this.#timer);
    for (const stop of this.#stops)
      stop();
    document.removeEventListener('pointerdown', this.outside);
    this.element.remove();
  }

  // ---- figures ----

  #take() {
    const now = store.stats, at = performance.now();
    if (!now)
      return;
    this.#speeds = speeds(this.#before, now, (at - this.#at) / 1000);
    this.#pressed = store.mayAdminister && isPressed(this.#before, now);
    this.#before = now;
    this.#at = at;
    this.#draw();
  }

  #draw() {
    const stats = store.stats ?? {};
    const figures = this.#figuresOf(stats);
    fill(this.figures, figures.map(({kind, text, title}) => [h('span', {class: 'strip-figure', dataset: {kind}, title}, text), ' ']));
    const label = figures.map(({label: words, text}) => words ?? text).join(', ');
    if (this.bar.getAttribute('aria-label') !== label)
      this.bar.setAttribute('aria-label', label);
    this.pool.hidden = !store.mayAdminister;
    if (store.mayAdminister)
      this.#drawPool(stats);
    if (!this.panel.hidden)
      this.#drawPanel();
  }

  #figuresOf(stats) {
    const full = store.mayAdminister;
    const sum = field => [...store.conversations.values()].reduce((all, conversation) => all + (conversation[field] ?? 0), 0);
    const {decoded, prefilled} = this.#speeds;
    const figures = [];
    if (full) {
      const size = {used: bytes(Math.max(stats.ledger_used, stats.pool_live_bytes ?? 0)), budget: bytes(stats.budget)};
      figures.push({kind: 'used', text: t('strip.used', size), label: t('strip.budget', size)});
    } else {
      figures.push({kind: 'used', text: t('strip.own', {ram: bytes(sum('ram_bytes'))})});
    }
    figures.push({kind: 'disk', text: t('strip.disk', {size: bytes(full ? stats.spill_disk_bytes : sum('disk_bytes'))})});
    if (decoded > 0 || prefilled > 0)
      figures.push({kind: 'speed', text: t('strip.speed', {rate: perSecond(decoded)}),
        title: t('strip.speed.title', {decoded: perSecond(decoded), prefilled: perSecond(prefilled)})});
    if (stats.requests_active > 0)
      figures.push({kind: 'active', text: t('strip.active', {n: stats.requests_active})});
    if (stats.requests_queued > 0)
      figures.push({kind: 'queued', text: t('strip.queued', {n: stats.requests_queued})});
    if (this.#pressed)
      figures.push({kind: 'pressure', text: t('strip.pressure')});
    return figures;
  }

  #drawPool(stats) {
    const seen = new Set();
    let before = null;
    for (const {kind, id, bytes: size, share} of poolSegments(stats, store.conversations.values())) {
      const key = id ?? kind;
      seen.add(key);
      let segment = this.#segments.get(key);
      if (!segment) {
        segment = h('span', {class: 'strip-segment', dataset: {kind}});
        this.#segments.set(key, segment);
      }
      const name = {conversation: () => store.titleOf(store.get(id)), others: () => t('strip.rest'), spare: () => t('strip.spare'), free: () => t('strip.free')};
      segment.title = t('strip.segment', {title: name[kind](), size: bytes(size)});
      segment.style.setProperty('inline-size', percent(share));
      segment.hidden = share <= 0;
      const next = before ? before.nextSibling : this.pool.firstChild;
      if (next !== segment)
        this.pool.insertBefore(segment, next);
      before = segment;
    }
    for (const [key, segment] of this.#segments)
      if (!seen.has(key)) {
        segment.remove();
        this.#segments.delete(key);
      }
  }

  // ---- the panel ----

  #toggle() {
    if (this.panel.hidden || !this.#stays) {
      this.#stays = true;
      this.#show();
    } else {
      this.#hide();
    }
  }

  #show() {
    clearTimeout(this.#timer);
    if (!this.panel.hidden)
      return;
    this.#rows.clear();
    this.body = h('tbody');
    this.rest = h('p', {class: 'hint'});
    fill(this.panel, h('table', {class: 'strip-table'},
      h('caption', {class: 'unseen'}, t('strip.table')),
      h('thead', {}, h('tr', {}, ['strip.conversation', 'strip.ram', 'strip.disk.column'].map(key => h('th', {scope: 'col'}, t(key))),
        h('th', {scope: 'col'}, h('span', {class: 'unseen'}, t('strip.actions'))))), this.body), this.rest);
    this.panel.hidden = false;
    this.bar.setAttribute('aria-expanded', 'true');
    this.#drawPanel();
  }

  #hide() {
    clearTimeout(this.#timer);
    this.#stays = false;
    if (this.panel.hidden)
      return;
    const focused = this.panel.contains(document.activeElement);
    this.panel.hidden = true;
    this.bar.setAttribute('aria-expanded', 'false');
    if (focused)
      this.bar.focus();
  }

  /** Rows stay in the order they had when the panel was opened: what is pointed at does not move. */
  #drawPanel() {
    const top = largest(store.conversations.values(), ROWS);
    for (const [id, row] of this.#rows)
      if (!store.get(id)) {
        row.element.remove();
        this.#rows.delete(id);
      }
    for (const {id} of top)
      if (!this.#rows.has(id) && this.#rows.size < ROWS) {
        const row = this.#row(id);
        this.#rows.set(id, row);
        this.body.append(row.element);
      }
    const of = {ram: Math.max(1, ...top.map(one => one.ram_bytes)), disk: Math.max(1, ...top.map(one => one.disk_bytes))};
    for (const [id, row] of this.#rows)
      this.#drawRow(row, store.get(id), of);
    this.#drawRest();
  }

  #drawRest() {
    let n = 0, ram = 0, disk = 0;
    for (const conversation of store.conversations.values())
      if (!this.#rows.has(conversation.id) && (conversation.ram_bytes > 0 || conversation.disk_bytes > 0)) {
        n++;
        ram += conversation.ram_bytes;
        disk += conversation.disk_bytes;
      }
    const words = this.#rows.size === 0 ? t('strip.none') : [n > 0 && t('strip.more', {n, ram: bytes(ram), disk: bytes(disk)}), t('strip.shared')]
      .filter(Boolean).join(' ');
    if (this.rest.textContent !== words)
      this.rest.textContent = words;
  }

  #row(id) {
    const row = {disc: residencyDisc('cold'), notes: h('span', {class: 'hint'}), ram: bar('ram'), disk: bar('disk')};
    row.title = h('button', {type: 'button', class: 'quiet strip-title', dir: 'auto', on: {click: () => this.onOpen(id)}});
    row.menu = h('button', {type: 'button', class: 'quiet', 'aria-haspopup': 'menu', 'aria-expanded': 'false', on: {click: () => {
      this.#stays = true;
      menu(row.menu, this.#items(id));
    }}}, '⋯');
    row.element = h('tr', {}, h('th', {scope: 'row'}, h('span', {class: 'strip-name'}, row.disc, row.title, row.notes)),
      h('td', {}, row.ram.element), h('td', {}, row.disk.element), h('td', {}, row.menu));
    return row;
  }

  #drawRow(row, conversation, of) {
    const title = store.titleOf(conversation);
    setResidency(row.disc, conversation.residency);
    row.ram.draw(conversation.ram_bytes, of.ram);
    row.disk.draw(conversation.disk_bytes, of.disk);
    const notes = [conversation.pinned && t('list.pinned'), conversation.n_published > 0 && t('strip.published')].filter(Boolean).join(', ');
    if (row.title.textContent !== title) {
      row.title.textContent = title;
      row.title.title = title;
      row.menu.setAttribute('aria-label', t('strip.actionsOf', {title}));
    }
    if (row.notes.textContent !== notes)
      row.notes.textContent = notes;
  }

  #items(id) {
    const conversation = store.get(id);
    const item = (verb, hint = `act.${verb}.hint`) => ({label: t(`act.${verb}`), hint: t(hint), run: () => this.onAction(verb, id)});
    const items = [item('warm'), item('evict')];
    if (store.mayAdminister || conversation?.pinned)
      items.push(item(conversation?.pinned ? 'unpin' : 'pin', 'act.pin.hint'));
    if (store.mayAdminister)
      items.push(item(conversation?.n_published > 0 ? 'unpublish' : 'publish', 'act.publish.hint'));
    return items;
  }

  // ---- pointer, keys ----

  #later(fn, ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(fn, ms);
  }

  /** What was opened by the pointer alone goes with it. */
  #left() {
    this.#later(() => {
      if (!this.#stays && !this.panel.contains(document.activeElement))
        this.#hide();
    }, LEAVE_MS);
  }

  #key(event) {
    if (event.key !== 'Escape' || this.panel.hidden)
      return;
    event.preventDefault();
    event.stopPropagation();
    this.#hide();
  }
}

/** A size with its share of the largest one, as a bar. */
function bar(kind) {
  const part = h('span', {class: 'strip-share'});
  const size = h('span', {class: 'figures'});
  return {
    element: h('span', {class: 'strip-size', dataset: {kind}}, h('span', {class: 'strip-track', 'aria-hidden': 'true'}, part), size),
    draw: (n, of) => {
      const words = bytes(n ?? 0);
      if (size.textContent !== words)
        size.textContent = words;
      part.style.setProperty('inline-size', percent((n ?? 0) / of));
    },
  };
}
