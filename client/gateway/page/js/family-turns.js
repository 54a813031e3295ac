// SPDX-License-Identifier: MIT
// The turns of a family. A fork has its parent's up to where it leaves, and one that changed has most of what it had: only what follows
// is asked for, and one turn before it. If that one still agrees, so does what is before it.
import {get} from './api.js';
import {store} from './store.js';
import {same} from './tree-model.js';

const PAGE = 200;
const AT_ONCE = 6;

/**
 * [{conversation, turns}] of these ids, without those that are there no longer; parents come before their forks. `known` keeps by
 * id what was read, until that conversation changes.
 */
export async function loadTurns(ids, known, signal) {
	const begun = new Map();
	const rest = ids.values();
	const work = async () => {
		for (const id of rest) {
			begun.set(id, loadOne(id, begun.get(store.get(id)?.parent), known, signal));
			await begun.get(id);
		}
	};
	await Promise.all(Array.from({length: AT_ONCE}, work));
	signal.throwIfAborted();
	return ids.filter(id => known.has(id) && store.get(id)).map(id => ({conversation: store.get(id), turns: known.get(id).turns}));
}

async function loadOne(id, parentRead, known, signal) {
	await parentRead;
	const conversation = store.get(id);
	if (!conversation || known.get(id)?.revision === conversation.revision)
		return;
	const {revision, parent, fork_pos: leaves, n_turns: n} = conversation;
	const before = known.get(id)?.turns ?? known.get(parent)?.turns.filter(turn => turn.end <= leaves) ?? [];
	const from = Math.max(0, Math.min(before.length, n) - 1);
	try {
		let turns = await turnsFrom(id, from, signal);
		if (from > 0)
			turns = turns[0] && same(turns[0], before[from]) ? [...before.slice(0, from), ...turns] : await turnsFrom(id, 0, signal);
		known.set(id, {revision, turns});
	} catch (error) {
		if (error.code !== 'not_found')
			throw error;
		known.delete(id);
	}
}

async function turnsFrom(id, from, signal) {
	const turns = [];
	for (;;) {
		const told = await get(id, {turns: true, parts: true, from_turn: from + turns.length, max_turns: PAGE}, signal);
		turns.push(...told.turns);
		if (told.turns.length < PAGE)
			return turns;
	}
}
