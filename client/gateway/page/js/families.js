// SPDX-License-Identifier: MIT
// Which conversations descend from one another. Edges are the ids of parents. A parent that was closed is not there, but its id still
// joins those that were forked from it. No document, no network.

/** Ids are never used again and rise, so a parent's is the smaller one; anything else is no parent (and no circle can come of it). */
function parentOf({id, parent}) {
  return parent > 0 && parent < id ? parent : 0;
}

export class Families {
  #parents = new Map();
  /** For each id that somebody names as a parent, there or not: those who do, oldest first. */
  #children = new Map();

  /** These conversations and no others. */
  set(conversations) {
    this.#parents.clear();
    this.#children.clear();
    for (const conversation of [...conversations].sort((a, b) => a.id - b.id))
      this.put(conversation);
  }

  /** One that is new, or as it is now. */
  put(conversation) {
    const {id} = conversation;
    const parent = parentOf(conversation);
    if (this.#parents.get(id) === parent)
      return;
    if (this.#parents.has(id))
      this.remove(id);
    this.#parents.set(id, parent);
    if (parent === 0)
      return;
    const siblings = this.#children.get(parent) ?? [];
    let at = siblings.length;
    while (at > 0 && siblings[at - 1] > id)
      at--;
    if (at === siblings.length)
      siblings.push(id);
    else
      siblings.splice(at, 0, id);
    this.#children.set(parent, siblings);
  }

  /** One that was closed: its children stay siblings. */
  remove(id) {
    const parent = this.#parents.get(id);
    this.#parents.delete(id);
    if (!parent)
      return;
    const siblings = this.#children.get(parent).filter(other => other !== id);
    if (siblings.length > 0)
      this.#children.set(parent, siblings);
    else
      this.#children.delete(parent);
  }

  /** The oldest one of the family that has no parent there; the id itself, if it is unknown. */
  rootOf(id) {
    const top = this.#top(id);
    return this.#parents.has(top) ? top : this.#children.get(top)?.[0] ?? id;
  }

  /** All of its family, parents before their children, siblings by age. */
  membersOf(id) {
    const members = [];
    const pending = [this.#top(id)];
    while (pending.length > 0) {
      const next = pending.pop();
      if (this.#parents.has(next))
        members.push(next);
      pending.push(...this.childrenOf(next).reverse());
    }
    return members;
  }

  /** Those that were forked from it, oldest first; also of one that was closed. */
  childrenOf(id) {
    return [...this.#children.get(id) ?? []];
  }

  /** The highest id that is reached by going up: of a conversation without a parent, or of a closed parent. */
  #top(id) {
    let top = id;
    while (this.#parents.get(top))
      top = this.#parents.get(top);
    return top;
  }
}
