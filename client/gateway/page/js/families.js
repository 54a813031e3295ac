// SPDX-License-Identifier: MIT
// Which conversations descend from one another. One that was closed is not there, but its id still joins those that were forked from it.

export class Families {
	#parents = new Map();
	/** For each id that somebody names as a parent, there or not: those who do, oldest first. */
	#children = new Map();

	/** These conversations and no others. */
	set(conversations) {
		this.#parents.clear();
		this.#children.clear();
		for (const conversation of conversations)
			this.put(conversation);
	}

	/** One that is new, or as it is now. */
	put({id, parent}) {
		this.remove(id);
		// Ids rise and are never used again, so a parent's is the smaller one; anything else is no parent (and no circle can come of it).
		const above = parent > 0 && parent < id ? parent : 0;
		this.#parents.set(id, above);
		if (above === 0)
			return;
		const siblings = this.childrenOf(above);
		siblings.splice(siblings.findLastIndex(other => other < id) + 1, 0, id);
		this.#children.set(above, siblings);
	}

	/** One that was closed: its children stay siblings. */
	remove(id) {
		const siblings = this.childrenOf(this.#parents.get(id));
		siblings.splice(siblings.indexOf(id), 1);
		this.#parents.delete(id);
	}

	/** The oldest one of the family that has no parent there; the id itself, if it is unknown. */
	rootOf(id) {
		const top = this.#top(id);
		return this.#parents.has(top) ? top : this.childrenOf(top)[0] ?? id;
	}

	/** All of its family, parents before their children, siblings by age. */
	membersOf(id) {
		const members = [];
		const pending = [this.#top(id)];
		while (pending.length > 0) {
			const next = pending.pop();
			if (this.#parents.has(next))
				members.push(next);
			pending.push(...this.childrenOf(next).toReversed());
		}
		return members;
	}

	/** Those that were forked from it, oldest first; also of one that was closed. */
	childrenOf(id) {
		return this.#children.get(id) ?? [];
	}

	/** The highest id that is reached by going up: of a conversation without a parent, or of a closed parent. */
	#top(id) {
		let top = id;
		while (this.#parents.get(top))
			top = this.#parents.get(top);
		return top;
	}
}
