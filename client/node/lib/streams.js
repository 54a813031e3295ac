// SPDX-License-Identifier: MIT
// What a program reads a request's events from. Each may be iterated once, with `for await` or next(). Who
// leaves the loop early cancels the request.

// Events between the connection and a reader that may lag. flow.hold(n) and flow.release(n) are told how much
// waits here, so that the connection can stop reading.
export class Queue {
  #flow;
  #items = [];
  #waiting = []; // calls of next() without an item
  #end = null; // {error} or {}: nothing more comes
  #dropped = false;

  constructor(flow) {
    this.#flow = flow;
  }

  push(value, size) {
    if (this.#end || this.#dropped) {
      return;
    }
    if (this.#waiting.length > 0) {
      this.#waiting.shift().resolve({ value, done: false });
      return;
    }
    this.#items.push({ value, size });
    this.#flow.hold(size);
  }

  // Nothing more comes; readers get what waits first. Only the first end counts.
  end(error = null) {
    if (this.#end) {
      return;
    }
    this.#end = { error };
    for (const { resolve, reject } of this.#waiting.splice(0)) {
      this.#settle(resolve, reject);
    }
  }

  // The end now: what waits is forgotten.
  drop(error = null) {
    this.#dropped = true;
    for (const { size } of this.#items.splice(0)) {
      this.#flow.release(size);
    }
    this.end(error);
  }

  next() {
    if (this.#items.length > 0) {
      const { value, size } = this.#items.shift();
      this.#flow.release(size);
      return Promise.resolve({ value, done: false });
    }
    return new Promise((resolve, reject) => {
      if (this.#end) {
        this.#settle(resolve, reject);
      } else {
        this.#waiting.push({ resolve, reject });
      }
    });
  }

  // An error is told once, as a generator would.
  #settle(resolve, reject) {
    const { error } = this.#end;
    this.#end = { error: null };
    if (error) {
      reject(error);
    } else {
      resolve({ value: undefined, done: true });
    }
  }
}

class Stream {
  #queue;
  #request;

  // `request`: what sends the request: given the queue, it returns {cancel()}.
  constructor(flow, send) {
    this.#queue = new Queue(flow);
    this.#request = send(this.#queue);
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  next() {
    return this.#queue.next();
  }

  // What `break` and `return` in a loop call: the request is cancelled, and nothing more is told of it.
  async return(value) {
    this.#request.cancel();
    this.#queue.drop();
    return { value, done: true };
  }

  // Ask the daemon to end the request early; go on reading to see how it ends.
  cancel() {
    this.#request.cancel();
  }
}

// The events of `continue` and `attach`: {type: 'accepted' | 'progress' | 'delta' | 'done', ...}.
export class Reply extends Stream {
  // Read to the end: the last event.
  async done() {
    let last;
    for await (const event of this) {
      last = event;
    }
    return last;
  }

  // Read to the end: all text of the reply, without reasoning and calls.
  async text() {
    let text = '';
    for await (const event of this) {
      if (event.type === 'delta') {
        text += event.text ?? '';
        text += event.parts.map((part) => (part.kind === 'text' ? part.text ?? '' : '')).join('');
      }
    }
    return text;
  }
}

// The bytes of an exported conversation, as Buffers. `exported` has size and nMemoryTokens once all were read.
export class Exporting extends Stream {
  exported = undefined;
}

// The notices of `watch`.
export class Watching extends Stream {}
