// SPDX-License-Identifier: MIT
// The turns of a family as one tree, and its places on the screen. No document, no network.
//
// 1. A node is a turn that one or several conversations have. A fork has its parent's turns up to fork_pos; what both say of a turn must
//    agree, since either may have been rewound since. A turn that the fork cuts is the fork's own.
// 2. Forks of a closed parent that say the same begin together, up to the smaller of their places.
// 3. Rows go down in time, one for a node, for turns that are folded, or for the end of a conversation (a tip). A chain is drawn straight in
//    one lane; what leaves it stands to the right, between the place where it leaves and the chain's next turn. So no line crosses another.

const FIRST_WORDS = 140;
const FOLD_PATH = 12;
const FOLD_BRANCH = 4;

/** The beginning of what a turn says, on one line. */
export function firstWords(turn) {
  const parts = turn.parts ?? [];
  const part = parts.find(one => one.kind === 'text' && one.text?.trim()) ?? parts.find(one => one.kind === 'call') ?? parts[0];
  const said = part ? (part.kind === 'call' ? `${part.name}(${part.text ?? ''})` : part.text) : turn.results?.[0]?.content ?? turn.text;
  return (said ?? '').slice(0, 2 * FIRST_WORDS).replace(/\s+/g, ' ').trim().slice(0, FIRST_WORDS);
}

class Node {
  children = [];
  /** Ids of conversations that end here. */
  tips = [];
  #words = null;

  constructor(key, owner, turn, parent) {
    Object.assign(this, {key, owner, turn, parent, depth: parent ? parent.depth + 1 : 0, tree: parent ? parent.tree : {ends: []}});
  }

  get role() {
    return this.turn?.role;
  }

  get start() {
    return this.turn?.start ?? 0;
  }

  get end() {
    return this.turn?.end ?? 0;
  }

  get text() {
    this.#words ??= this.turn ? firstWords(this.turn) : '';
    return this.#words;
  }

  /** Ids of conversations that have this turn. */
  get conversations() {
    return this.tree.ends.slice(this.first, this.past);
  }

  has(id) {
    const at = this.tree.at.get(id);
    return at >= this.first && at < this.past;
  }
}

/** Whether two conversations mean the same turn. */
export function same(a, b) {
  return a.role === b.role && a.start === b.start && a.end === b.end && a.text === b.text &&
    (a.created_usec === undefined || b.created_usec === undefined || a.created_usec === b.created_usec);
}

/**
 * One tree of `members`: [{conversation, turns}], the whole family or a part of it. `turns` may begin later than at 0 (`turn` is a
 * turn's number) where the parent has those before. Returns the root, a node without a turn; `turn.turn` is the number in every conversation that has the node.
 */
export function buildTree(members) {
  const root = new Node('root', 0, null, null);
  const tips = new Map();
  const sorted = [...members].sort((a, b) => a.conversation.id - b.conversation.id);
  const there = new Map(sorted.map(member => [member.conversation.id, member.conversation]));
  for (const {conversation, turns} of sorted) {
    const parent = tips.get(conversation.parent);
    const from = parent ? agreed(parent, conversation, turns) : root;
    const tip = addTurns(from, conversation, turns, there);
    tip.tips.push(conversation.id);
    tips.set(conversation.id, tip);
  }
  count(root);
  root.tree.at = new Map(root.tree.ends.map((id, at) => [id, at]));
  return root;
}

/** The last node of the parent's path that the fork has as well. */
function agreed(parentTip, conversation, turns) {
  let at = parentTip;
  const first = turns[0]?.turn ?? 0;
  const past = turns.length > 0 ? first + turns.length : conversation.n_turns ?? Infinity;
  while (at.depth > 0 && (at.end > conversation.fork_pos || at.depth > past))
    at = at.parent;
  let last = at;
  for (let node = at; node.depth > first; node = node.parent)
    if (!same(node.turn, turns[node.depth - 1 - first]))
      last = node.parent;
  return last;
}

/** Adds what is behind `from` and returns the last node. */
function addTurns(from, conversation, turns, there) {
  const {id} = conversation;
  const closed = conversation.parent > 0 && !there.has(conversation.parent);
  let at = from;
  for (const turn of turns) {
    if (turn.turn < from.depth)
      continue;
    const joined = closed && turn.end <= conversation.fork_pos && at.children.find(node => {
      const other = there.get(node.owner);
      return other.parent === conversation.parent && turn.end <= other.fork_pos && same(node.turn, turn);
    });
    if (joined) {
      at = joined;
    } else {
      const node = new Node(`${id}:${turn.turn}`, id, turn, at);
      at.children.push(node);
      at = node;
    }
  }
  return at;
}

/** Numbers the ends of conversations so that those below a node are next to each other. */
function count(root) {
  const {ends} = root.tree;
  const pending = [root];
  const entered = [];
  while (pending.length > 0) {
    const node = pending.pop();
    if (node === null) {
      entered.pop().past = ends.length;
      continue;
    }
    node.first = ends.length;
    ends.push(...node.tips);
    entered.push(node);
    pending.push(null);
    for (let i = node.children.length - 1; i >= 0; i--)
      pending.push(node.children[i]);
  }
}

/** What follows a node: nodes and ends, {id, node} or {id, tip}, by the age of the conversation that brought it. */
function followers(node) {
  const all = node.children.map(child => ({id: child.owner, node: child}));
  all.push(...node.tips.map(id => ({id, tip: id})));
  return all.sort((a, b) => a.id - b.id);
}

/** Which of them goes on in the same lane. */
function straight(node, all, pathOf) {
  const path = all.find(one => one.tip === pathOf || one.node?.has(pathOf));
  return path ?? all.find(one => one.node && one.id === node.owner) ?? all.find(one => one.node) ?? all.find(one => one.id === node.owner) ?? all[0];
}

/**
 * The places of a tree: `rows`, top to bottom, and `edges`. `pathOf` is the conversation that lies straight in lane 0. Runs of turns without a
 * branch are folded, but for those whose fold's key is in `open`.
 * A row: {key, kind: 'root' | 'turn' | 'fold' | 'tip', x: lane, y: number of the row, level, strong: on the path, node, tip: id, nodes: those of a fold,
 * open, place, group: {size}}. An edge: {from, to: keys, lane, toLane, start, end: y, strong}: down in `lane`, or from `lane` to `toLane` within the row `end`.
 */
export function layoutTree(root, {pathOf, open = new Set(), foldPath = FOLD_PATH, foldBranch = FOLD_BRANCH} = {}) {
  const layout = {rows: [], edges: [], index: new Map(), lanes: 1, pathOf};
  const context = {layout, open, pathOf, foldPath, foldBranch};
  const trunk = {lane: 0, level: 1, group: {size: 0}, from: null, strong: true, rows: []};
  const all = followers(root);
  const pending = [{chain: trunk, next: all.length > 1 ? {node: root} : all[0]}];
  while (pending.length > 0) {
    const task = pending.pop();
    if (task.next)
      runOn(context, task, pending);
  }
  layout.height = layout.rows.length;
  return layout;
}

/** Places a chain up to where it branches, or to its end; what follows is put on the stack. */
function runOn(context, {chain, next}, pending) {
  const run = [];
  let at = next, all = [];
  while (at?.node) {
    run.push(at.node);
    all = followers(at.node);
    if (all.length > 1)
      break;
    [at] = all;
  }
  placeRun(context, chain, run);
  if (!at.node) {
    place(context, chain, {kind: 'tip', key: `tip:${at.tip}`, tip: at.tip, node: run.at(-1) ?? null, strong: at.tip === context.pathOf});
    return;
  }
  const main = straight(at.node, all, context.pathOf);
  const from = chain.rows.at(-1);
  const group = {size: 0};
  pending.push({chain, next: main});
  const sides = all.filter(one => one !== main).map((one, index) => ({
    chain: {lane: chain.lane + 1, level: chain.level + 1, group, from, index, strong: false, rows: []}, next: one,
  }));
  from.sides = sides.map(side => side.chain);
  pending.push(...sides.reverse());
}

function placeRun(context, chain, run) {
  const inner = run.slice(1, -1);
  const strong = run[0]?.has(context.pathOf) ?? false;
  const fold = inner.length >= (strong ? context.foldPath : context.foldBranch) && {kind: 'fold', key: `fold:${inner[0].key}`, nodes: inner};
  run.forEach((node, i) => {
    const kind = node.turn ? 'turn' : 'root';
    if (fold && i === 1)
      place(context, chain, {...fold, node: inner.at(-1), strong, open: context.open.has(fold.key)});
    if (!fold || i === 0 || i === run.length - 1 || context.open.has(fold.key))
      place(context, chain, {kind, key: node.key, node, strong});
  });
}

/** One row more, with the line that leads to it. */
function place({layout}, chain, row) {
  const before = chain.rows.at(-1);
  const y = layout.rows.length;
  Object.assign(row, {x: chain.lane, y, level: chain.level, chain, place: ++chain.group.size, group: chain.group, number: chain.rows.length});
  layout.rows.push(row);
  layout.index.set(row.key, row);
  layout.lanes = Math.max(layout.lanes, chain.lane + 1);
  if (before)
    layout.edges.push({from: before.key, to: row.key, lane: chain.lane, toLane: chain.lane, start: before.y, end: y, strong: row.strong});
  else if (chain.from)
    layout.edges.push({from: chain.from.key, to: row.key, lane: chain.lane - 1, toLane: chain.lane, start: y - 1, end: y, strong: false});
  chain.rows.push(row);
}

/**
 * The key where an arrow leads from `key`, or null: `up` and `down` along the path, `right` into the first branch that leaves here, or else to the next
 * branch of the same place, `left` back: to the branch before, or to where the branch leaves. `home`, `end`: the beginning, and the end of the open path.
 */
export function neighbour(layout, key, direction) {
  const row = layout.index.get(key);
  if (!row)
    return null;
  const {chain} = row;
  const siblings = chain.from?.sides ?? [];
  const found = {
    up: () => chain.rows[row.number - 1] ?? chain.from,
    down: () => chain.rows[row.number + 1],
    right: () => row.sides?.[0].rows[0] ?? siblings[chain.index + 1]?.rows[0],
    left: () => siblings[chain.index - 1]?.rows[0] ?? chain.from,
    home: () => layout.rows[0],
    end: () => layout.index.get(`tip:${layout.pathOf}`) ?? layout.rows.at(-1),
  }[direction]();
  return found?.key ?? null;
}
