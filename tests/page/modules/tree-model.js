// SPDX-License-Identifier: MIT
// The turns of a family as one tree, its places, and where arrows lead.

const ROLES = ['user', 'assistant'];
const LONG = 10;

/** Turns as a daemon makes them: `said` are words, each turn of 10 tokens. */
function turnsOf(said, from = [], role = from.length) {
  const turns = [...from];
  for (const text of said) {
    const start = turns.at(-1)?.end ?? 0;
    turns.push({turn: turns.length, role: ROLES[role++ % 2], start, end: start + LONG, text, created_usec: 1000 + turnsOf.clock++});
  }
  return turns;
}
turnsOf.clock = 0;

function member(id, turns, parent = 0, forkPos = 0) {
  return {conversation: {id, parent, fork_pos: forkPos, n_turns: turns.length}, turns};
}

/** A fork that keeps `keep` turns and says other things. */
function forkOf(from, id, keep, said) {
  return member(id, turnsOf(said, from.turns.slice(0, keep)), from.conversation.id, from.turns[keep - 1]?.end ?? 0);
}

function pathTo(root, id) {
  const path = [];
  let node = root;
  for (;;) {
    const next = node.children.find(child => child.has(id));
    if (!next)
      return path;
    path.push(next.turn);
    node = next;
  }
}

const same = (path, turns) => path.length === turns.length &&
  path.every((turn, i) => turn.text === turns[i].text && turn.end === turns[i].end);
const told = {tip: row => `(${row.tip})`, turn: row => row.node.text, fold: row => `fold ${row.nodes.length}`, root: () => 'root'};
const shown = layout => layout.rows.map(row => '  '.repeat(row.x) + told[row.kind](row)).join('\n');

export async function test_forks_of_forks({load, need}) {
  const {buildTree, layoutTree} = await load('js/tree-model.js');
  const a = member(1, turnsOf(['hello', 'hi', 'more', 'so']));
  const b = forkOf(a, 2, 2, ['other', 'thing', 'end', 'of it']);
  const c = forkOf(b, 3, 3, ['again']);
  const root = buildTree([c, b, a]);
  for (const one of [a, b, c])
    need(same(pathTo(root, one.conversation.id), one.turns), `path of ${one.conversation.id}`);
  need(root.children.length === 1 && root.children[0].children[0].children.length === 2, 'one beginning, two ways');
  need(root.children[0].children[0].conversations.join(' ') === '1 2 3', 'who has a turn');
  need(shown(layoutTree(root, {pathOf: 1})) === ['hello', 'hi', '  other', '    again', '    (3)', '  thing', '  end', '  of it', '  (2)',
    'more', 'so', '(1)'].join('\n'), shown(layoutTree(root, {pathOf: 1})));
  need(shown(layoutTree(root, {pathOf: 3})) === ['hello', 'hi', '  more', '  so', '  (1)', 'other', '  thing', '  end', '  of it', '  (2)',
    'again', '(3)'].join('\n'), shown(layoutTree(root, {pathOf: 3})));
}

export async function test_a_fork_inside_of_a_turn({load, need}) {
  const {buildTree} = await load('js/tree-model.js');
  const a = member(1, turnsOf(['hello', 'a long reply']));
  const b = member(2, [a.turns[0], {...a.turns[1], end: 15, text: 'a long'}], 1, 15);
  const root = buildTree([a, b]);
  need(root.children[0].children.map(node => node.text).join('|') === 'a long reply|a long', 'the turn that is cut is the fork\'s own');
  need(root.children[0].children[1].owner === 2 && root.children[0].conversations.length === 2, 'the turn before is shared');
}

export async function test_only_own_turns_are_there({load, need}) {
  const {buildTree} = await load('js/tree-model.js');
  const a = member(1, turnsOf(['1', '2', '3', '4', '5', '6']));
  const b = forkOf(a, 2, 4, ['x', 'y']);
  const root = buildTree([a, {...b, turns: b.turns.slice(3)}]);
  need(same(pathTo(root, 2), b.turns), 'the turns before come from the parent');
  const c = forkOf(a, 3, 4, []);
  need(same(pathTo(buildTree([a, {...c, turns: c.turns.slice(3)}]), 3), c.turns), 'a fork that says nothing yet');
  const empty = buildTree([a, {conversation: {id: 4, parent: 1, fork_pos: 0, n_turns: 0}, turns: []}]);
  need(empty.tips.join() === '4', 'a fork of nothing');
}

export async function test_rewound_since({load, need}) {
  const {buildTree} = await load('js/tree-model.js');
  const before = turnsOf(['1', '2', '3', '4']);
  const b = forkOf(member(1, before), 2, 4, ['5']);
  const a = member(1, turnsOf(['2 anew', '3 anew', '4 anew'], before.slice(0, 1), 1));
  let root = buildTree([a, b]);
  need(same(pathTo(root, 1), a.turns) && same(pathTo(root, 2), b.turns), 'the parent was rewound and went on');
  need(root.children.length === 1 && root.children[0].children.length === 2, 'they part where they differ');
  const short = member(2, before.slice(0, 2), 1, before[3].end);
  root = buildTree([member(1, before), short]);
  need(same(pathTo(root, 2), short.turns), 'the fork was rewound');
  const cut = buildTree([member(1, before.slice(0, 1)), b]);
  need(same(pathTo(cut, 2), b.turns), 'the parent is shorter than the fork\'s place');
}

export async function test_closed_parents({load, need}) {
  const {buildTree, layoutTree} = await load('js/tree-model.js');
  const closed = member(1, turnsOf(['1', '2', '3', '4']));
  const a = forkOf(closed, 2, 4, ['same', 'a']);
  const b = forkOf(closed, 3, 2, ['same', 'b']);
  const c = forkOf(closed, 4, 4, ['same', 'c']);
  const d = forkOf(b, 5, 3, ['d']);
  const root = buildTree([a, b, c, d]);
  for (const one of [a, b, c, d])
    need(same(pathTo(root, one.conversation.id), one.turns), `path of ${one.conversation.id}`);
  need(root.children.length === 1, 'siblings begin together');
  const second = root.children[0].children[0];
  need(second.children.length === 2, 'up to the smaller place');
  need(second.children[0].children[0].children.map(node => node.owner).join(' ') === '2 4', 'equal words behind the place are two turns');
  const apart = buildTree([forkOf(closed, 6, 0, ['x']), forkOf(closed, 7, 0, ['y'])]);
  need(apart.children.length === 2 && layoutTree(apart, {pathOf: 7}).rows[0].kind === 'root', 'nothing in common: a beginning is shown');
}

export async function test_folding({load, need}) {
  const {buildTree, layoutTree} = await load('js/tree-model.js');
  const a = member(1, turnsOf(Array.from({length: 2000}, (_, i) => `turn ${i}`)));
  const b = forkOf(a, 2, 1001, Array.from({length: 9}, (_, i) => `other ${i}`));
  const begin = performance.now();
  const root = buildTree([a, b]);
  const layout = layoutTree(root, {pathOf: 1});
  console.log(`tree: 2,000 turns in ${(performance.now() - begin).toFixed(1)} ms`);
  need(shown(layout) === ['turn 0', 'fold 999', 'turn 1000', '  other 0', '  fold 7', '  other 8', '  (2)', 'turn 1001', 'fold 997',
    'turn 1999', '(1)'].join('\n'), shown(layout));
  const key = layout.rows[4].key;
  const open = layoutTree(root, {pathOf: 1, open: new Set([key])});
  need(open.rows.length === layout.rows.length + 7 && open.rows[4].open, 'opened');
  need(open.rows[5].node.text === 'other 1' && open.index.get(layout.rows[8].key).y === layout.rows[8].y + 7, 'its turns follow it');
}

/** A family as a daemon makes it: forks of forks, some inside of turns, some conversations rewound since. */
function randomFamily(random, size) {
  const members = [];
  for (let id = 1; id <= size; id++) {
    const parent = members[random(members.length || 1)];
    let turns = [], forkPos = 0;
    if (parent) {
      turns = parent.turns.slice(0, random(parent.turns.length + 1));
      if (turns.length > 0 && random(4) === 0)
        turns.push({...turns.pop(), end: turns.length * LONG + 5, text: `cut by ${id}`});
      forkPos = turns.at(-1)?.end ?? 0;
    }
    if (parent && random(6) === 0)
      turns.splice(random(turns.length + 1));
    turns = turnsOf(Array.from({length: random(12)}, (_, i) => `${id} says ${i}`), turns);
    members.push({conversation: {id, parent: parent?.conversation.id ?? 0, fork_pos: forkPos, n_turns: turns.length}, turns});
  }
  return members;
}

function randomOf(seed) {
  return n => {
    seed = seed * 1103515245 + 12345 & 0x7fffffff;
    return (seed >> 8) % n;
  };
}

/** Lines down in a lane share no part with one another, and none passes through a mark. */
function checkLines(layout, need, words) {
  const taken = new Set(layout.rows.map(row => `${row.x} ${row.y}`));
  need(taken.size === layout.rows.length, `${words}: a place for each`);
  const used = new Set();
  for (const edge of layout.edges) {
    if (edge.lane !== edge.toLane) {
      need(edge.toLane === edge.lane + 1 && edge.end === edge.start + 1, `${words}: branches leave to the next lane`);
      continue;
    }
    for (let y = edge.start; y < edge.end; y++) {
      need(!used.has(`${edge.lane} ${y}`), `${words}: two lines in lane ${edge.lane}, row ${y}`);
      used.add(`${edge.lane} ${y}`);
      need(y === edge.start || !taken.has(`${edge.lane} ${y}`), `${words}: a line through a mark`);
    }
  }
  for (const edge of layout.edges)
    need(edge.lane === edge.toLane || used.has(`${edge.lane} ${edge.start}`), `${words}: a branch leaves a line that is there`);
}

function checkKeys(layout, neighbour, need, words) {
  const reached = new Set([layout.rows[0].key]);
  const pending = [...reached];
  while (pending.length > 0) {
    const key = pending.pop();
    for (const direction of ['up', 'down', 'left', 'right', 'home', 'end']) {
      const next = neighbour(layout, key, direction);
      if (next !== null && !reached.has(next)) {
        need(layout.index.has(next), `${words}: ${direction} of ${key} leads to ${next}`);
        reached.add(next);
        pending.push(next);
      }
    }
  }
  need(reached.size === layout.rows.length, `${words}: ${reached.size} of ${layout.rows.length} rows are reached by arrows`);
}

export async function test_random_families({load, need}) {
  const {buildTree, layoutTree, neighbour} = await load('js/tree-model.js');
  for (let seed = 1; seed <= 60; seed++) {
    const random = randomOf(seed);
    let members = randomFamily(random, 2 + random(14));
    if (seed % 3 === 0)
      members = members.filter((_, i) => i !== random(members.length));
    const root = buildTree(members);
    for (const one of members)
      need(same(pathTo(root, one.conversation.id), one.turns), `seed ${seed}: path of ${one.conversation.id}`);
    const pathOf = members[random(members.length)].conversation.id;
    const layout = layoutTree(root, {pathOf, foldPath: 4, foldBranch: 3});
    const strong = layout.rows.filter(row => row.strong);
    need(strong.every(row => row.x === 0) && strong.at(-1).tip === pathOf, `seed ${seed}: the path is straight in lane 0`);
    need(layout.rows.filter(row => row.kind === 'tip').length === members.length, `seed ${seed}: every conversation ends once`);
    need(layout.rows.every(row => row.place >= 1 && row.place <= row.group.size), `seed ${seed}: places among siblings`);
    checkLines(layout, need, `seed ${seed}`);
    checkKeys(layout, neighbour, need, `seed ${seed}`);
    const again = layoutTree(buildTree([...members].reverse()), {pathOf, foldPath: 4, foldBranch: 3});
    need(shown(again) === shown(layout), `seed ${seed}: the same in any order`);
  }
}

export async function test_arrows({load, need}) {
  const {buildTree, layoutTree, neighbour} = await load('js/tree-model.js');
  const a = member(1, turnsOf(['hello', 'hi', 'more', 'so']));
  const layout = layoutTree(buildTree([a, forkOf(a, 2, 2, ['b', 'bb']), forkOf(a, 3, 2, ['c'])]), {pathOf: 1});
  const go = (key, ...directions) => directions.reduce((at, direction) => neighbour(layout, at, direction), key);
  need(go('1:0', 'down') === '1:1' && go('1:0', 'down', 'down') === '1:2', 'down along the path, past the branches');
  need(go('1:2', 'up') === '1:1' && go('1:0', 'up') === null && go('1:0', 'left') === null, 'up');
  need(go('1:1', 'right') === '2:2' && go('1:1', 'right', 'right') === '3:2' && go('3:2', 'right') === null, 'right from branch to branch');
  need(go('3:2', 'left') === '2:2' && go('2:2', 'left') === '1:1' && go('2:3', 'up', 'up') === '1:1', 'left back');
  need(go('2:2', 'end') === 'tip:1' && go('tip:1', 'home') === '1:0' && go('tip:1', 'down') === null, 'home and end');
  need(neighbour(layout, 'nothing', 'up') === null, 'unknown');
}

export async function test_a_large_family({load, need}) {
  const {buildTree, layoutTree} = await load('js/tree-model.js');
  const random = randomOf(7);
  const members = [member(1, turnsOf(Array.from({length: 1000}, (_, i) => `turn ${i}`)))];
  for (let id = 2; id <= 200; id++) {
    const from = members[random(members.length)];
    members.push(forkOf(from, id, 1 + random(from.turns.length), Array.from({length: 20}, (_, i) => `${id} says ${i}`)));
  }
  let begin = performance.now();
  const root = buildTree(members);
  const build = performance.now() - begin;
  begin = performance.now();
  const layout = layoutTree(root, {pathOf: 120});
  const placed = performance.now() - begin;
  console.log(`tree: 200 branches, ${layout.rows.length} rows: built in ${build.toFixed(1)} ms, placed in ${placed.toFixed(1)} ms`);
  need(root.children[0].conversations.length === 200, 'all begin with the same turn');
}

export async function test_words_that_differ({load, need}) {
  const {diffWords} = await load('js/compare-view.js');
  const marked = pieces => pieces.map(({text, only}) => only ? `[${text}]` : text).join('');
  const texts = (a, b) => diffWords(a, b)?.map(marked).join(' | ');
  need(texts('the red boat', 'the blue boat') === 'the [red] boat | the [blue] boat', texts('the red boat', 'the blue boat'));
  need(texts('a b', 'a b') === 'a b | a b' && texts('', 'new words') === ' | [new words]', 'equal; nothing');
  need(texts('one two three four', 'three') === '[one two] three [four] | three', texts('one two three four', 'three'));
  need(texts('Grüße, 世界!', 'Grüße, Welt!') === 'Grüße, [世界]! | Grüße, [Welt]!', 'other scripts');
  const long = Array.from({length: 1500}, (_, i) => `w${i * 7919 % 5003}`);
  const begin = performance.now();
  const [left, right] = diffWords(long.join(' '), [...long].reverse().join(' '));
  console.log(`compare: 1,500 words in ${(performance.now() - begin).toFixed(0)} ms`);
  need(left.map(({text}) => text).join('') === long.join(' ') && right.length > 1, 'pieces make the text');
  need(diffWords(`${long.join(' ')} more`, 'x') === null, 'too long');
}
