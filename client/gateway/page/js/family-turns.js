// SPDX-License-Identifier: MIT
// The turns of a family, as far as they are needed: of a fork those from the place on where it leaves, and one before it, to see that
// both still agree there. What was read stays until its conversation changes.
import {call, conversationPath} from './api.js';
import {store} from './store.js';
import {same} from './tree-model.js';

const PAGE = 200;
const AT_ONCE = 6;

export class FamilyTurns {
  /** Whether anything was read; the reader puts it back. */
  changed = false;
  /** id → {revision, turns}; the turns begin with the first one that was needed. */
  #known = new Map();
  #running = 0;
  #waiting = [];

  /**
   * Reads what is missing of these conversations; parents that are among them come first. Resolves to [{conversation, turns}], without
   * those that are there no longer.
   */
  async load(ids, {signal} = {}) {
    const begun = new Map(ids.map(id => [id, null]));
    const begin = id => {
      if (!begun.get(id))
        begun.set(id, this.#loadOne(id, begun, begin, signal));
      return begun.get(id);
    };
    await Promise.all(ids.map(begin));
    return ids.filter(id => this.#known.has(id) && store.get(id))
      .map(id => ({conversation: store.get(id), turns: this.#known.get(id).turns}));
  }

  /** What was read of other families is worth nothing. */
  forget() {
    this.#known.clear();
  }

  async #loadOne(id, wanted, begin, signal) {
    const conversation = store.get(id);
    if (!conversation)
      return;
    const parent = wanted.has(conversation.parent) ? conversation.parent : 0;
    if (parent)
      await begin(parent);
    if (this.#known.get(id)?.revision === conversation.revision && this.#fits(id, parent))
      return;
    this.changed = true;
    if (this.#running >= AT_ONCE)
      await new Promise(resolve => this.#waiting.push(resolve));
    this.#running++;
    try {
      await this.#read(conversation, parent, signal);
    } catch (error) {
      if (error.code !== 'not_found')
        throw error;
      this.#known.delete(id);
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  async #read(conversation, parent, signal) {
    const {id} = conversation;
    // What follows is mostly a turn or two more: the last one that is known says whether the rest still holds.
    const known = this.#known.get(id)?.turns ?? [];
    if (known.length > 0) {
      const more = await this.#pages(id, known.at(-1).turn, signal);
      if (more.turns.length > 0 && same(more.turns[0], known.at(-1))) {
        this.#known.set(id, {revision: more.revision, turns: [...known.slice(0, -1), ...more.turns]});
        if (this.#fits(id, parent))
          return;
      }
    }
    const from = Math.min(this.#leaves(conversation, parent), conversation.n_turns) - 1;
    this.#known.set(id, await this.#pages(id, Math.max(0, from), signal));
    if (!this.#fits(id, parent))
      this.#known.set(id, await this.#pages(id, 0, signal));
  }

  async #pages(id, from, signal) {
    const turns = [];
    for (;;) {
      const query = {turns: true, parts: true, from_turn: from + turns.length, max_turns: PAGE};
      const told = await call('GET', conversationPath(id), {query, signal});
      turns.push(...told.turns);
      if (told.turns.length < PAGE)
        return {revision: told.revision, turns};
    }
  }

  /** The turns of the next conversation above, from `parent` on, whose first one is `wanted`. */
  #above(parent, wanted) {
    for (let at = parent; at && this.#known.has(at); at = store.get(at)?.parent) {
      const {turns} = this.#known.get(at);
      if (turns.length > 0 && wanted(turns[0]))
        return turns;
    }
    return [];
  }

  /** How many turns a fork had from its parent, by its parent's turns as they are now. */
  #leaves({fork_pos: position}, parent) {
    const turns = this.#above(parent, first => first.turn === 0 || first.end <= position);
    const own = turns.findIndex(turn => turn.end > position);
    return (turns[0]?.turn ?? 0) + (own < 0 ? turns.length : own);
  }

  /** Whether the turns that are known begin at 0, or with one that the parent has as well. */
  #fits(id, parent) {
    const first = this.#known.get(id).turns[0];
    if (!first || first.turn === 0)
      return true;
    const turns = this.#above(parent, their => their.turn <= first.turn);
    const theirs = turns[first.turn - turns[0]?.turn];
    return Boolean(theirs) && same(theirs, first);
  }
}
