// SPDX-License-Identifier: MIT
// Which conversations say something else in the place of a turn: those of the family that branch where it begins. Pure.

/**
 * Ids in the order of their making, with that of `conversation` among them; null if it is alone. `members` are the conversations of the family
 * that are there, `start` the position at which the turn begins. A branch that says nothing there yet is none.
 */
export function siblingsAt(conversation, start, members) {
	const found = new Map([[conversation.id, conversation]]);
	const queue = [conversation];
	while (queue.length > 0) {
		const one = queue.pop();
		for (const other of members)
			if (!found.has(other.id) && meetAt(one, other, start)) {
				found.set(other.id, other);
				queue.push(other);
			}
	}
	const ids = [...found.values()].filter(one => one.n_tokens > start).sort((a, b) => a.created_usec - b.created_usec || a.id - b.id).map(one => one.id);
	const at = ids.indexOf(conversation.id);
	return ids.length > 1 && at >= 0 ? {at, ids} : null;
}

/** Whether one was forked from the other just there, or both from the same one (which may be closed). */
function meetAt(a, b, start) {
	const [left, right] = [a, b].map(one => one.fork_pos === start && one.parent);
	return left === b.id || right === a.id || (left > 0 && left === right);
}
