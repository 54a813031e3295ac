// SPDX-License-Identifier: MIT
// The turns of a family, as far as they are needed: of a fork those from the place on where it leaves, and one before it, to see that
// both still agree there. What was read stays until its conversation changes.
import {call, conversationPath} from './api.js';
import {store} from './store.js';
import {same} from './tree-model.js';

const PAGE = 200;
const AT_ONCE = 6;

export class FamilyTurns {
  /** id → {revision, turns}; the turns begin with the first one that was needed. */
  #known = new Map();
  /** Whether anything was read; the reader puts it back. */
  changed = false;
  #running = 0;
  #waiting = [];

  /**
   * Reads what is missing of these conversations; parents that are among them come first. Resolves to [{conversation, turns}], without those that
   * are there no longer.
   */
  async load(ids, {signal} = {}) {
    const wanted = new Set(ids);
    const begun = new Map();
    const begin = id => {
      if (!begun.has(id))
        begun.set(id, this.#loadOne(id, wanted, begin, signal));
      return begun.get(id);
    };
    await Promise.all(ids.map(begin));
    return ids.filter(id => this.#known.has(id) && store.get(id)).map(id => ({conversation: store.get(id), turns: this.#known.get(id).turns}));
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
    const known = this.#known.get(id);
    if (known && known.revision === conversation.revision && this.#fits(id, parent))
      return;
    this.changed = true;
    await this.#enter();
    try {
      await this.#read(conversation, parent, known, signal);
    } catch (error) {
      if (error.code !== 'not_found')
        throw error;
      this.#known.delete(id);
    } finally {
      this.#leave();
    }
  }

  async #read(conversation, parent, known, signal) {
    const {id} = conversation;
    // What follows is mostly a turn or two more: the last one that is known says whether the rest still holds.
    const last = known?.turns.at(-1);
    if (last) {
      const more = await this.#pages(id, last.turn, signal);
      if (more.turns.length > 0 && same(more.turns[0], last)) {
        this.#known.set(id, {revision: more.revision, turns: [...known.turns.slice(0, -1), ...more.turns]});
        if (this.#fits(id, parent))
          return;
      }
    }
    const from = Math.max(0, Math.min(this.#leaves(conversation, parent), conversation.n_turns) - 1);
    this.#known.set(id, await this.#pages(id, from, signal));
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

  /** The number of turns that a fork had from its parent, by its parent's turns as they are now. */
  #leaves({fork_pos}, parent) {
    for (let at = parent; at && this.#known.has(at); at = store.get(at)?.parent) {
      const {turns} = this.#known.get(at);
      if (turns.length === 0 || (turns[0].turn > 0 && turns[0].end > fork_pos))
        continue;
      const own = turns.findIndex(turn => turn.end > fork_pos);
      return turns[0].turn + (own < 0 ? turns.length : own);
    }
    return 0;
  }

  /** Whether the turns that are known begin at 0, or with one that the parent has as well. */
  #fits(id, parent) {
    const first = this.#known.get(id).turns[0];
    if (!first || first.turn === 0)
      return true;
    for (let at = parent; at && this.#known.has(at); at = store.get(at)?.parent) {
      const {turns} = this.#known.get(at);
      if (turns.length === 0 || turns[0].turn > first.turn)
        continue;
      const theirs = turns[first.turn - turns[0].turn];
      return Boolean(theirs) && same(theirs, first);
    }
    return false;
  }

  async #enter() {
    if (this.#running >= AT_ONCE)
      await new Promise(resolve => this.#waiting.push(resolve));
    else
      this.#running++;
  }

  #leave() {
    const next = this.#waiting.shift();
    if (next)
      next();
    else
      this.#running--;
  }
}
