// SPDX-License-Identifier: MIT
// Which conversations descend from one another. Edges are the ids of parents. A parent that was closed is not there, but its id still
// joins those that were forked from it. No document, no network.
//
// 1. `#children` has, for each id that somebody names as a parent, the ids of its children, ascending; whether the parent is there or not.
// 2. A family's top is the id that is reached by going up: of a conversation without a parent, or of a closed parent.
// 3. `#tops` caches tops. Where an id has one, all that are above it have one, too: so forgetting goes down only while there is one.

/** Ids are never used again and rise, so a parent's is the smaller one; anything else is no parent (and no circle can come of it). */
function parentOf({id, parent}) {
  return parent > 0 && parent < id ? parent : 0;
}

export class Families {
  #parents = new Map();
  #children = new Map();
  #tops = new Map();

  /** These conversations and no others. */
  set(conversations) {
    this.#parents = new Map();
    this.#children = new Map();
    this.#tops = new Map();
    const sorted = [...conversations].sort((a, b) => a.id - b.id);
    for (const conversation of sorted) {
      const parent = parentOf(conversation);
      this.#parents.set(conversation.id, parent);
      if (parent === 0)
        continue;
      const siblings = this.#children.get(parent);
      if (siblings)
        siblings.push(conversation.id);
      else
        this.#children.set(parent, [conversation.id]);
    }
  }

  /** One that is new, or as it is now. */
  put(conversation) {
    const {id} = conversation;
    const parent = parentOf(conversation);
    if (this.#parents.get(id) === parent)
      return;
    this.#forget(id);
    this.#unlink(id);
    this.#parents.set(id, parent);
    if (parent !== 0)
      this.#link(id, parent);
  }

  /** One that was closed: its children stay siblings. */
  remove(id) {
    if (!this.#parents.has(id))
      return;
    this.#forget(id);
    this.#unlink(id);
    this.#parents.delete(id);
  }

  /** The oldest one of the family that has no parent there; the id itself, if it is unknown. */
  rootOf(id) {
    const top = this.#topOf(id);
    if (this.#parents.has(top))
      return top;
    return this.#children.get(top)?.[0] ?? id;
  }

  /** All of its family, parents before their children, siblings by age. */
  membersOf(id) {
    const members = [];
    const pending = [this.#topOf(id)];
    while (pending.length > 0) {
      const next = pending.pop();
      if (this.#parents.has(next))
        members.push(next);
      const children = this.#children.get(next);
      for (let i = (children?.length ?? 0) - 1; i >= 0; i--)
        pending.push(children[i]);
    }
    return members;
  }

  /** Those that were forked from it, oldest first; also of one that was closed. */
  childrenOf(id) {
    return [...this.#children.get(id) ?? []];
  }

  #topOf(id) {
    const passed = [];
    let at = id;
    while (!this.#tops.has(at)) {
      passed.push(at);
      const parent = this.#parents.get(at);
      if (!parent)
        break;
      at = parent;
    }
    const top = this.#tops.get(at) ?? at;
    for (const below of passed)
      this.#tops.set(below, top);
    return top;
  }

  #forget(id) {
    const pending = [id];
    while (pending.length > 0) {
      const next = pending.pop();
      if (this.#tops.delete(next))
        pending.push(...this.#children.get(next) ?? []);
    }
  }

  #link(id, parent) {
    const siblings = this.#children.get(parent) ?? [];
    let at = siblings.length;
    while (at > 0 && siblings[at - 1] > id)
      at--;
    siblings.splice(at, 0, id);
    this.#children.set(parent, siblings);
  }

  #unlink(id) {
    const parent = this.#parents.get(id);
    if (!parent)
      return;
    const siblings = this.#children.get(parent).filter(other => other !== id);
    if (siblings.length > 0)
      this.#children.set(parent, siblings);
    else
      this.#children.delete(parent);
  }
}
