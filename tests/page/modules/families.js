// SPDX-License-Identifier: MIT
// Which conversations descend from one another.

const one = (id, parent = 0) => ({id, parent});
const list = ids => ids.join(' ');

export async function test_a_family({load, need}) {
  const {Families} = await load('js/families.js');
  const families = new Families();
  families.set([one(4, 2), one(1), one(2, 1), one(3, 1), one(5), one(6, 4)]);
  need(list(families.membersOf(6)) === '1 2 4 6 3', `members: ${families.membersOf(6)}`);
  need(families.rootOf(6) === 1 && families.rootOf(1) === 1 && families.rootOf(5) === 5, 'roots');
  need(list(families.childrenOf(1)) === '2 3' && list(families.childrenOf(6)) === '', 'children');
  need(list(families.membersOf(5)) === '5', 'alone');
  need(families.rootOf(99) === 99 && list(families.membersOf(99)) === '', 'unknown');
}

export async function test_a_closed_parent_joins_its_children({load, need}) {
  const {Families} = await load('js/families.js');
  const families = new Families();
  families.set([one(8, 7), one(9, 7), one(11, 9), one(10)]);
  need(families.rootOf(11) === 8 && families.rootOf(9) === 8, 'the oldest stands for the family');
  need(list(families.membersOf(8)) === '8 9 11', `members: ${families.membersOf(8)}`);
  need(list(families.childrenOf(7)) === '8 9', 'children of a closed one');
  families.put(one(7, 0));
  need(families.rootOf(11) === 7 && list(families.membersOf(11)) === '7 8 9 11', 'the parent comes late');
  families.put(one(3));
  families.put({id: 7, parent: 3});
  need(families.rootOf(11) === 3 && list(families.membersOf(3)) === '3 7 8 9 11', 'the parent has a parent');
  families.remove(7);
  need(families.rootOf(3) === 3 && list(families.membersOf(3)) === '3', 'the line is cut');
  need(families.rootOf(8) === 8 && list(families.membersOf(11)) === '8 9 11', 'what was below stays together');
  families.remove(8);
  need(families.rootOf(11) === 9 && list(families.membersOf(11)) === '9 11', 'the next oldest');
  families.remove(8);
}

export async function test_what_cannot_be({load, need}) {
  const {Families} = await load('js/families.js');
  const families = new Families();
  families.set([one(1, 2), one(2, 1), one(3, 3), one(4, undefined), one(5, null)]);
  need(families.rootOf(1) === 1 && families.rootOf(2) === 1, 'a parent is older than its child: no circle');
  need(families.rootOf(3) === 3 && families.rootOf(4) === 4 && families.rootOf(5) === 5, 'no parents');
}

/** The slow and plain way. */
function reference(there, id) {
  const top = at => there.get(at) ? top(there.get(at)) : at;
  return [...there.keys()].filter(other => top(other) === top(id)).sort((a, b) => a - b);
}

export async function test_random_changes({load, need}) {
  const {Families} = await load('js/families.js');
  const families = new Families();
  const there = new Map();
  let seed = 1;
  const random = n => {
    seed = seed * 1103515245 + 12345 & 0x7fffffff;
    return (seed >> 8) % n;
  };
  families.set([]);
  for (let step = 0; step < 3000; step++) {
    const id = 1 + random(60);
    if (random(3) === 0) {
      there.delete(id);
      families.remove(id);
    } else {
      const parent = random(2) ? random(id) : 0;
      there.set(id, parent);
      families.put({id, parent});
    }
    const asked = [...there.keys()][random(there.size)] ?? id;
    const members = families.membersOf(asked).sort((a, b) => a - b);
    need(list(members) === list(reference(there, asked)), `step ${step}: family of ${asked}: ${members}`);
    need(!there.has(asked) || members.includes(families.rootOf(asked)), `step ${step}: the root is one of them`);
  }
}

export async function test_ten_thousand({load, need}) {
  const {Families} = await load('js/families.js');
  const all = Array.from({length: 10000}, (_, i) => ({id: i + 1, parent: i % 4 === 0 ? 0 : 1 + Math.floor(i / 3)}));
  const chain = Array.from({length: 10000}, (_, i) => one(i + 1, i));
  const families = new Families();
  let begin = performance.now();
  families.set(all);
  const set = performance.now() - begin;
  begin = performance.now();
  for (const {id} of all)
    families.rootOf(id);
  const roots = performance.now() - begin;
  begin = performance.now();
  families.set([]);
  for (const conversation of chain.reverse()) {
    families.put(conversation);
    families.rootOf(conversation.id);
  }
  const put = performance.now() - begin;
  console.log(`families: set ${set.toFixed(1)} ms, all roots ${roots.toFixed(1)} ms, put of a chain from its end ${put.toFixed(0)} ms`);
  need(families.membersOf(10000).length === 10000 && families.rootOf(10000) === 1, 'a chain of 10,000');
}
