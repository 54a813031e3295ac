// SPDX-License-Identifier: MIT
// The turns of a family as one tree, and its places on the screen.
//
// 1. A node is a turn that one or several conversations have: where they say the same from the beginning on, wherever they were forked
//    (either may have been rewound since). A turn that a fork cuts is the fork's own.
// 2. Rows go down in time, one for a node, for turns that are folded, or for the end of a conversation (a tip). A chain is straight in
//    one lane; what leaves it stands to the right, between where it leaves and the chain's next turn. So no line crosses another.

const FIRST_WORDS = 200;

class Node {
	children = [];
	tips = []; // ids of conversations that end here
	conversations = []; // ids of those that have this turn

	constructor(key, owner, turn, parent) {
		Object.assign(this, {key, owner, turn, parent});
	}

	/** The beginning of what the turn says, on one line. */
	get text() {
		const {parts = [], results, text} = this.turn;
		const part = parts.find(one => one.kind === 'text' && one.text?.trim()) ?? parts.find(one => one.kind === 'call') ?? parts[0];
		const said = part?.kind === 'call' ? `${part.name}(${part.text ?? ''})` : part?.text ?? results?.[0]?.content ?? text ?? '';
		return said.slice(0, FIRST_WORDS).replace(/[*`]+/g, '').replace(/\s+/g, ' ').trim();
	}

	has(id) {
		return this.conversations.includes(id);
	}
}

/** Whether two conversations mean the same turn. */
export function same(a, b) {
	return a.role === b.role && a.start === b.start && a.end === b.end && a.text === b.text && a.created_usec === b.created_usec;
}

/**
 * One tree of `members`: [{conversation, turns}], the whole family or a part of it. `turns` may begin later than at 0 (`turn` is a
 * turn's number) where the parent has those before. Returns the root, a node without a turn.
 */
export function buildTree(members) {
	const root = new Node('root', 0, null, null);
	const tips = new Map();
	for (const {conversation: {id, parent}, turns} of members.toSorted((a, b) => a.conversation.id - b.conversation.id)) {
		const first = turns[0]?.turn ?? 0;
		let at = tips.get(parent) ?? root;
		while (at.turn?.turn >= first)
			at = at.parent;
		for (const turn of turns) {
			let next = at.children.find(node => same(node.turn, turn));
			if (!next)
				at.children.push(next = new Node(`${id}:${turn.turn}`, id, turn, at));
			at = next;
		}
		at.tips.push(id);
		tips.set(id, at);
		for (; at; at = at.parent)
			at.conversations.push(id);
	}
	return root;
}

/** What follows a node: nodes, and ends of conversations {tip: id}, by the age of the conversation that brought them. */
function followers(node) {
	const ends = node.tips.map(id => ({tip: id, owner: id, conversations: [id]}));
	return [...node.children, ...ends].sort((a, b) => a.owner - b.owner);
}

/** Which of them goes on in the same lane: the open path, or a turn, or one of the same conversation. */
function straight(node, all, pathOf) {
	const rank = one => (one.conversations.includes(pathOf) ? 4 : 0) + (one.turn ? 2 : 0) + (one.owner === node.owner ? 1 : 0);
	return all.reduce((best, one) => rank(one) > rank(best) ? one : best);
}

/**
 * The places of a tree; the conversation `pathOf` lies straight in lane 0. Long runs of turns are folded, but for those whose key is in
 * `open`. A row: {key, kind: 'root' | 'turn' | 'fold' | 'tip', x: lane, y: its number, place and group.size among its siblings, strong: on
 * the path, conversations: ids of those that pass it, node, tip: id, nodes: those of a fold, open}. An edge leads to `row`: down in `lane`
 * from row `start` to row `end`, or within the row `end` to `toLane`.
 */
export function layoutTree(root, {pathOf, open = new Set(), foldPath = 12, foldBranch = 4} = {}) {
	const layout = {rows: [], edges: [], index: new Map(), lanes: 1, pathOf};

	/** One row more, with the line that leads to it. */
	function place(chain, row) {
		const {lane, group, rows, from} = chain;
		const before = rows.at(-1) ?? from;
		const y = layout.rows.length;
		const conversations = row.tip ? [row.tip] : row.node.conversations;
		Object.assign(row, {x: lane, y, chain, group, place: ++group.size, conversations, strong: conversations.includes(pathOf)});
		if (before)
			layout.edges.push({row, lane: before.x, toLane: lane, start: before === from ? y - 1 : before.y, end: y});
		layout.lanes = Math.max(layout.lanes, lane + 1);
		layout.index.set(row.key, row);
		layout.rows.push(row);
		rows.push(row);
	}

	/** Turns that follow one another without a branch: those between the first and the last may be folded. */
	function placeRun(chain, run) {
		const nodes = run.slice(1, -1);
		const folds = nodes.length >= (run[0]?.has(pathOf) ? foldPath : foldBranch);
		const key = `fold:${nodes[0]?.key}`;
		run.forEach((node, i) => {
			if (folds && i === 1)
				place(chain, {kind: 'fold', key, nodes, node: nodes.at(-1), open: open.has(key)});
			if (!folds || open.has(key) || i === 0 || i === run.length - 1)
				place(chain, {kind: node.turn ? 'turn' : 'root', key: node.key, node});
		});
	}

	/** A chain from `next` to its end; whatever leaves it is placed before what goes on. */
	function placeChain(chain, next) {
		for (;;) {
			const run = [];
			let all = [next];
			while (all.length === 1 && all[0] instanceof Node) {
				run.push(all[0]);
				all = followers(all[0]);
			}
			placeRun(chain, run);
			if (all.length === 1) {
				const {tip} = all[0];
				place(chain, {kind: 'tip', key: `tip:${tip}`, tip, node: run.at(-1)});
				return;
			}
			next = straight(run.at(-1), all, pathOf);
			const from = chain.rows.at(-1);
			const group = {size: 0};
			from.sides = [];
			for (const one of all.filter(other => other !== next)) {
				const side = {lane: chain.lane + 1, group, from, rows: []};
				from.sides.push(side);
				placeChain(side, one);
			}
		}
	}

	const all = followers(root);
	if (all.length > 0)
		placeChain({lane: 0, group: {size: 0}, rows: []}, all.length > 1 ? root : all[0]);
	return layout;
}

/**
 * The key where an arrow leads from `key`, or null: `up` and `down` along the path, `right` into the first branch that leaves here, or
 * else to the next one of the same place, `left` to the one before, or to where it leaves; `home`, and `end` of the open path.
 */
export function neighbour(layout, key, direction) {
	const row = layout.index.get(key);
	if (!row)
		return null;
	const {rows, from} = row.chain;
	const at = rows.indexOf(row);
	const siblings = from?.sides ?? [];
	const place = siblings.indexOf(row.chain);
	const found = {
		up: rows[at - 1] ?? from,
		down: rows[at + 1],
		right: row.sides?.[0].rows[0] ?? siblings[place + 1]?.rows[0],
		left: siblings[place - 1]?.rows[0] ?? from,
		home: layout.rows[0],
		end: layout.index.get(`tip:${layout.pathOf}`) ?? layout.rows.at(-1),
	}[direction];
	return found?.key ?? null;
}
