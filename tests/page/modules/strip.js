// SPDX-License-Identifier: MIT
// What the memory strip makes of the daemon's figures.

const MiB = 1 << 20;
const FULL = {
  budget: 100 * MiB, budget_asked: 100 * MiB, budget_max: 100 * MiB, pool_live_bytes: 60 * MiB, ledger_used: 70 * MiB,
  pool_capacity_blocks: 100, pressure_episodes: 1, tokens_decoded: 100, tokens_prefilled: 1000,
  requests_active: 1, requests_queued: 2, spill_disk_bytes: 5 * MiB,
};
const one = (id, ram, disk = 0) => ({id, name: `conv-${id}`, ram_bytes: ram * MiB, disk_bytes: disk * MiB, residency: 'resident'});
const sum = segments => segments.reduce((all, {share}) => all + share, 0);
const kinds = segments => segments.map(segment => segment.id ?? segment.kind).join(' ');

export async function test_the_pool({load, need}) {
  const {poolSegments} = await load('js/strip.js');
  const segments = poolSegments(FULL, [one(1, 10), one(2, 30), one(3, 0, 9)]);
  need(kinds(segments) === '2 1 others spare free', kinds(segments));
  need(segments.map(({share}) => Math.round(share * 100)).join(' ') === '30 10 20 10 30', `shares: ${segments.map(({share}) => share)}`);
  need(Math.abs(sum(segments) - 1) < 1e-9, 'all of the bar');
  const few = poolSegments(FULL, Array.from({length: 30}, (_, i) => one(i + 1, 1 + i % 3)), 4);
  need(few.length === 7 && few[4].bytes === 48 * MiB, 'the largest ones, the others together');
}

export async function test_shared_memory_is_drawn_smaller({load, need}) {
  const {poolSegments} = await load('js/strip.js');
  const segments = poolSegments(FULL, [one(1, 60), one(2, 60)]);
  need(segments[0].bytes === 60 * MiB && Math.abs(segments[0].share - 0.3) < 1e-9, 'two that share all of it have a half each');
  need(segments[2].share === 0 && Math.abs(sum(segments) - 1) < 1e-9, 'nothing is left for others');
  const over = poolSegments({...FULL, budget: 50 * MiB}, [one(1, 60)]);
  need(Math.abs(sum(over) - 1) < 1e-9 && over.at(-1).share === 0, 'more than the budget fills the bar');
  need(Math.abs(sum(poolSegments({}, [])) - 1) < 1e-9, 'no figures');
}

export async function test_speeds_and_pressure({load, need}) {
  const {speeds, isPressed} = await load('js/strip.js');
  const later = {...FULL, tokens_decoded: 180, tokens_prefilled: 1000};
  need(speeds(FULL, later, 2).decoded === 40 && speeds(FULL, later, 2).prefilled === 0, 'tokens by time');
  for (const [before, now, seconds] of [[null, later, 2], [later, FULL, 2], [FULL, later, 0]])
    need(speeds(before, now, seconds).decoded === 0, 'nothing to compare with');
  need(!isPressed(null, FULL) && !isPressed(FULL, FULL), 'calm');
  need(isPressed(FULL, {...FULL, pressure_episodes: 2}), 'told to be short since');
  need(isPressed(null, {...FULL, budget_asked: MiB}) && isPressed(null, {...FULL, budget: MiB}), 'a smaller budget');
}

export async function test_the_largest({load, need}) {
  const {largest} = await load('js/strip.js');
  const all = Array.from({length: 10000}, (_, i) => one(i + 1, i * 7919 % 10007, i % 3));
  const begin = performance.now();
  const top = largest(all, 50);
  console.log(`strip: the largest of 10,000 in ${(performance.now() - begin).toFixed(1)} ms`);
  const sorted = [...all].sort((a, b) => b.ram_bytes - a.ram_bytes);
  need(top.length === 50 && top.every((conversation, i) => conversation.id === sorted[i].id), 'in order');
  need(largest([one(1, 0), one(2, 0, 3)], 5).map(({id}) => id).join() === '2', 'what holds nothing is not among them');
}

export async function test_discs({load, need}) {
  const {residencyDisc, setResidency} = await load('js/residency.js');
  for (const kind of ['resident', 'partial', 'spilled', 'cold']) {
    const disc = residencyDisc(kind);
    need(disc.dataset.residency === kind && disc.getAttribute('role') === 'img', kind);
    need(disc.getAttribute('aria-label').length > 2 && disc.getAttribute('aria-label') !== `residency.${kind}`, `${kind} has words`);
  }
  need(residencyDisc('something').dataset.residency === 'cold', 'what nobody knows is nowhere');
  need(setResidency(residencyDisc('cold'), 'resident').dataset.residency === 'resident', 'changed');
}

export async function test_the_strip({load, need}) {
  const {Strip} = await load('js/strip.js');
  const {store} = await load('js/store.js');
  const before = {conversations: store.conversations, stats: store.stats};
  const host = document.createElement('div'), frame = document.createElement('div');
  frame.id = 'frame'; // menus are beside what they belong to
  frame.append(host);
  document.body.append(frame);
  const acts = [];
  store.conversations = new Map([[1, one(1, 40, 3)], [2, {...one(2, 20), about: {title: '<b>not bold</b>'}}]]);
  store.stats = FULL;
  new Strip(host, {onAction: (verb, id) => acts.push(`${verb} ${id}`)});
  try {
    store.tell('stats');
    const button = host.querySelector('.strip-bar');
    need(/70.*100/.test(button.getAttribute('aria-label')), `label: ${button.getAttribute('aria-label')}`);
    need(host.querySelectorAll('.strip-segment[data-kind="conversation"]').length === 2, 'a segment for each');
    button.click();
    need(button.getAttribute('aria-expanded') === 'true' && host.querySelectorAll('tbody tr').length === 2, 'a row for each');
    need(!host.querySelector('tbody b') && host.textContent.includes('<b>not bold</b>'), 'titles are text');
    host.querySelector('tbody [aria-haspopup]').click();
    const items = [...document.querySelectorAll('[role="menuitem"]')];
    need(items.length === 4, `an administrator may do all: ${items.length}`);
    items[1].click();
    need(acts.join() === 'evict 1', acts.join());
    button.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));
    need(button.getAttribute('aria-expanded') === 'false', 'Escape closes');
    store.stats = {budget_max: 100 * MiB, tokens_decoded: 1, tokens_prefilled: 1};
    store.tell('stats');
    const own = button.getAttribute('aria-label');
    need(host.querySelector('.strip-pool').hidden && /60/.test(own), `own sums: ${own}`);
  } finally {
    frame.remove();
    Object.assign(store, before);
  }
}
