// SPDX-License-Identifier: MIT
// The memory strip: who holds how much of RAM, what is on disk, how fast it goes, who waits, and whether memory is short. It asks for
// nothing: the store tells when there are new figures. A panel above it has the conversations and what can be done with their memory.
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

/** The conversations that hold most memory, at most `most`, the largest first. */
export function largest(conversations, most) {
  const holding = [...conversations].filter(({ram_bytes, disk_bytes}) => ram_bytes > 0 || disk_bytes > 0);
  return holding.sort((a, b) => b.ram_bytes - a.ram_bytes || b.disk_bytes - a.disk_bytes || a.id - b.id).slice(0, most);
}

/**
 * The pool as segments [{kind, id, bytes, share}] that fill the bar: conversations, what others hold, what is kept for the next, what is
 * free. Memory that conversations share counts in full in each; where that is more than there is, they are drawn smaller.
 */
export function poolSegments(stats, conversations, most = SEGMENTS) {
  const live = stats.pool_live_bytes ?? 0;
  const used = Math.max(live, stats.ledger_used ?? 0);
  const whole = Math.max(stats.budget ?? 0, used, 1);
  const top = largest(conversations, most).filter(conversation => conversation.ram_bytes > 0);
  const told = top.reduce((sum, {ram_bytes}) => sum + ram_bytes, 0);
  const scale = told > live ? live / told : 1;
  const segments = top.map(({id, ram_bytes}) => ({kind: 'conversation', id, bytes: ram_bytes, share: ram_bytes * scale / whole}));
  for (const [kind, size] of [['others', live - told * scale], ['spare', used - live], ['free', whole - used]])
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
  return now.budget < now.budget_max || now.budget_asked < now.budget_max ||
    Boolean(before) && now.pressure_episodes > before.pressure_episodes;
}

const perSecond = speed => number(speed < 10 ? Math.round(speed * 10) / 10 : Math.round(speed));
const percent = share => `${Math.min(1, share) * 100}%`;

/** Texts of elements change only where they differ: what is selected or read stays. */
function say(element, text) {
  if (element.textContent !== text)
    element.textContent = text;
}

export class Strip {
  #before = null;
  #at = 0;
  #speeds = speeds(null);
  #pressed = false;
  #segments = new Map();
  #rows = new Map();
  #timer = 0;
  #stays = false;

  /** Draws into `host`. onAction(verb, id): warm, evict, pin, unpin, publish, unpublish. onOpen(id): a title was chosen. */
  constructor(host, {onAction = () => {}, onOpen = () => {}} = {}) {
    Object.assign(this, {onAction, onOpen});
    this.pool = h('span', {class: 'strip-pool'});
    this.figures = h('span', {class: 'strip-figures'});
    this.bar = h('button', {type: 'button', class: 'strip-bar', 'aria-expanded': 'false', 'aria-controls': 'strip-panel',
      on: {click: () => this.#toggle()}}, this.pool, this.figures);
    this.panel = h('section', {class: 'strip-panel', id: 'strip-panel', hidden: true, 'aria-label': t('strip.table')});
    this.element = h('div', {class: 'strip', on: {
      pointerenter: event => event.pointerType === 'mouse' && this.#later(() => this.#show(), HOVER_MS),
      pointerleave: () => this.#later(() => this.#stays || this.panel.contains(document.activeElement) || this.#hide(), LEAVE_MS),
      keydown: event => this.#key(event),
    }}, this.panel, this.bar);
    host.append(this.element);
    const soon = settled(() => this.#draw(), 200);
    this.stops = [store.on('stats', () => this.#take()), store.on('conversation', soon), store.on('list', soon)];
    this.outside = event => !this.element.contains(event.target) && !event.target.closest('.menu, dialog') && this.#hide();
    document.addEventListener('pointerdown', this.outside);
    this.#draw();
  }

  destroy() {
    clearTimeout(this.#timer);
    for (const stop of this.stops)
      stop();
    document.removeEventListener('pointerdown', this.outside);
    this.element.remove();
  }

  // ---- figures ----

  #take() {
    const now = store.stats, at = performance.now();
    this.#speeds = speeds(this.#before, now, (at - this.#at) / 1000);
    this.#pressed = store.mayAdminister && isPressed(this.#before, now);
    this.#before = now;
    this.#at = at;
    this.#draw();
  }

  #draw() {
    const figures = this.#figuresOf(store.stats ?? {});
    fill(this.figures, figures.map(({kind, text, title}) => [h('span', {class: 'strip-figure', dataset: {kind}, title}, text), ' ']));
    this.bar.setAttribute('aria-label', figures.map(({label, text}) => label ?? text).join(', '));
    this.pool.hidden = !store.mayAdminister;
    if (store.mayAdminister)
      this.#drawPool();
    if (!this.panel.hidden)
      this.#drawPanel();
  }

  #figuresOf(stats) {
    const full = store.mayAdminister;
    const sum = field => [...store.conversations.values()].reduce((all, conversation) => all + (conversation[field] ?? 0), 0);
    const size = full && {used: bytes(Math.max(stats.ledger_used, stats.pool_live_bytes)), budget: bytes(stats.budget)};
    const [decoded, prefilled] = [this.#speeds.decoded, this.#speeds.prefilled].map(perSecond);
    const {requests_active: active, requests_queued: queued} = stats;
    return [
      full ? {kind: 'used', text: t('strip.used', size), label: t('strip.budget', size)}
        : {kind: 'used', text: t('strip.own', {ram: bytes(sum('ram_bytes'))})},
      {kind: 'disk', text: t('strip.disk', {size: bytes(full ? stats.spill_disk_bytes : sum('disk_bytes'))})},
      (this.#speeds.decoded > 0 || this.#speeds.prefilled > 0) &&
        {kind: 'speed', text: t('tokensPerSecond', {rate: decoded}), title: t('strip.speed', {decoded, prefilled})},
      active > 0 && {kind: 'active', text: t('strip.active', {n: active})},
      queued > 0 && {kind: 'queued', text: t('strip.queued', {n: queued})},
      this.#pressed && {kind: 'pressure', text: t('strip.pressure')},
    ].filter(Boolean);
  }

  #drawPool() {
    const before = this.#segments;
    this.#segments = new Map();
    for (const {kind, id, bytes: size, share} of poolSegments(store.stats, store.conversations.values())) {
      const key = id ?? kind;
      const segment = before.get(key) ?? h('span', {class: 'strip-segment', dataset: {kind}});
      before.delete(key);
      this.#segments.set(key, segment);
      segment.title = t('strip.segment', {title: id === undefined ? t(`strip.${kind}`) : store.titleOf(store.get(id)), size: bytes(size)});
      segment.style.setProperty('inline-size', percent(share));
      segment.hidden = share <= 0;
      const next = this.pool.children[this.#segments.size - 1];
      if (next !== segment)
        this.pool.insertBefore(segment, next ?? null);
    }
    for (const segment of before.values())
      segment.remove();
  }

  // ---- the panel ----

  #toggle() {
    if (!this.panel.hidden && this.#stays) {
      this.#hide();
      return;
    }
    this.#show();
    this.#stays = true;
  }

  #show() {
    clearTimeout(this.#timer);
    if (!this.panel.hidden)
      return;
    this.#rows.clear();
    this.body = h('tbody');
    this.rest = h('p', {class: 'hint'});
    const heads = ['conversation', 'ram', 'files'].map(name => h('th', {scope: 'col'}, t(`strip.${name}`)));
    fill(this.panel, h('table', {class: 'strip-table'}, h('caption', {class: 'unseen'}, t('strip.table')),
      h('thead', {}, h('tr', {}, heads, h('th', {scope: 'col'}, h('span', {class: 'unseen'}, t('strip.actions'))))), this.body), this.rest);
    this.panel.hidden = false;
    this.bar.setAttribute('aria-expanded', 'true');
    this.#drawPanel();
  }

  #hide() {
    clearTimeout(this.#timer);
    this.#stays = false;
    if (this.panel.contains(document.activeElement))
      this.bar.focus();
    this.panel.hidden = true;
    this.bar.setAttribute('aria-expanded', 'false');
  }

  /** Rows stay in the order they had when the panel was opened: what is pointed at does not move. */
  #drawPanel() {
    const all = largest(store.conversations.values(), Infinity);
    for (const [id, row] of this.#rows)
      if (!store.get(id)) {
        row.element.remove();
        this.#rows.delete(id);
      }
    const rest = {n: 0, ram: 0, disk: 0};
    for (const {id, ram_bytes, disk_bytes} of all) {
      if (!this.#rows.has(id) && this.#rows.size < ROWS) {
        this.#rows.set(id, this.#row(id));
        this.body.append(this.#rows.get(id).element);
      } else if (!this.#rows.has(id)) {
        rest.n++;
        rest.ram += ram_bytes;
        rest.disk += disk_bytes;
      }
    }
    const of = {ram: Math.max(1, ...all.map(one => one.ram_bytes)), disk: Math.max(1, ...all.map(one => one.disk_bytes))};
    for (const [id, row] of this.#rows)
      drawRow(row, store.get(id), of);
    const more = rest.n > 0 ? `${t('strip.more', {n: rest.n, ram: bytes(rest.ram), disk: bytes(rest.disk)})} ` : '';
    say(this.rest, this.#rows.size === 0 ? t('strip.none') : more + t('strip.shared'));
  }

  #row(id) {
    const row = {
      disc: residencyDisc('cold'), notes: h('span', {class: 'hint'}),
      title: h('button', {type: 'button', class: 'quiet strip-title', dir: 'auto', on: {click: () => this.onOpen(id)}}),
      menu: h('button', {type: 'button', class: 'quiet', 'aria-haspopup': 'menu', 'aria-expanded': 'false', on: {click: () => {
        this.#stays = true;
        menu(row.menu, this.#items(id));
      }}}, '⋯'),
    };
    const size = kind => {
      const share = h('span', {class: 'strip-share', dataset: {kind}});
      const figure = h('span', {class: 'figures'});
      row[kind] = {share, figure};
      return h('td', {}, h('span', {class: 'strip-size'}, h('span', {class: 'strip-track', 'aria-hidden': 'true'}, share), figure));
    };
    row.element = h('tr', {}, h('th', {scope: 'row'}, h('span', {class: 'strip-name'}, row.disc, row.title, row.notes)),
      size('ram'), size('disk'), h('td', {}, row.menu));
    return row;
  }

  #items(id) {
    const {pinned, n_published: published} = store.get(id) ?? {};
    const item = (verb, hint = verb) => ({label: t(`act.${verb}`), hint: t(`act.${hint}.hint`), run: () => this.onAction(verb, id)});
    return [
      item('warm'), item('evict'), (store.mayAdminister || pinned) && item(pinned ? 'unpin' : 'pin', 'pin'),
      store.mayAdminister && item(published > 0 ? 'unpublish' : 'publish', 'publish'),
    ].filter(Boolean);
  }

  #later(fn, ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(fn, ms);
  }

  #key(event) {
    if (event.key !== 'Escape' || this.panel.hidden)
      return;
    event.preventDefault();
    event.stopPropagation();
    this.#hide();
  }
}

function drawRow(row, conversation, of) {
  const title = store.titleOf(conversation);
  setResidency(row.disc, conversation.residency);
  say(row.title, title);
  row.title.title = title;
  row.menu.setAttribute('aria-label', t('strip.actionsOf', {title}));
  const notes = [conversation.pinned && t('list.pinned'), conversation.n_published > 0 && t('strip.published')];
  say(row.notes, notes.filter(Boolean).join(', '));
  for (const kind of ['ram', 'disk']) {
    const size = conversation[`${kind}_bytes`] ?? 0;
    say(row[kind].figure, bytes(size));
    row[kind].share.style.setProperty('inline-size', percent(size / of[kind]));
  }
}
