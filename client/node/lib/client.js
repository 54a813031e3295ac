// SPDX-License-Identifier: MIT
// The verbs. Fields of a request have the names of confab.proto in camel case; index.d.ts has them all.
import { existsSync } from 'node:fs';
import { Connection, checkSettings } from './connection.js';
import { ConfabError, invalid } from './errors.js';
import { Exporting, Reply, Watching } from './streams.js';

const SYSTEM_SOCKET = '/run/confab/confab.sock';

// Where the command confab looks, too: the user's own socket if there is one, then the system's.
function defaultPath() {
  if (process.env.CONFAB_SOCKET) {
    return process.env.CONFAB_SOCKET;
  }
  const folder = process.env.XDG_RUNTIME_DIR;
  const path = `${folder?.startsWith('/') ? folder : `/run/user/${process.getuid()}`}/confab/confab.sock`;
  return !existsSync(path) && existsSync(SYSTEM_SOCKET) ? SYSTEM_SOCKET : path;
}

// Calls stop() when the signal aborts; returns what undoes that.
function onAbort(signal, stop) {
  signal?.addEventListener('abort', stop, { once: true });
  return () => signal?.removeEventListener('abort', stop);
}

const iteratorOf = (source) => {
  if (source instanceof Uint8Array) {
    return [source][Symbol.iterator]();
  }
  const make = source?.[Symbol.asyncIterator] ?? (typeof source === 'object' ? source?.[Symbol.iterator] : undefined);
  if (typeof make !== 'function') {
    throw invalid('import takes a Uint8Array, or an iterable of them such as a stream');
  }
  return make.call(source);
};

// Connects to the daemon: {path, actFor, maxFrame, maxQueued, signal}.
export async function connect(options = {}) {
  const { path = defaultPath(), ...settings } = typeof options === 'string' ? { path: options } : options;
  if (typeof path !== 'string' || path === '' || Buffer.byteLength(path) > 107) {
    throw invalid(`no path of a socket: '${path}'`);
  }
  return new Client(await Connection.open(path, checkSettings(settings)));
}

export class Client {
  #connection;

  // Programs call connect().
  constructor(connection) {
    this.#connection = connection;
  }

  // Name and version of the daemon.
  get server() {
    return this.#connection.server;
  }

  // For whom the daemon takes the requests: {uid, tenant}.
  get owner() {
    return this.#connection.owner;
  }

  // Why the connection is over, or null.
  get error() {
    return this.#connection.over;
  }

  // Hangs up. Requests in flight end with "disconnected"; the daemon cancels those that are not detached.
  async disconnect() {
    this.#connection.end(new ConfabError('disconnected', 'this side closed the connection', true));
    await this.#connection.closed();
  }

  // ---- conversations ----

  open(fields = {}, options = {}) {
    return this.#call('open', fields, options).answer;
  }

  fork(conversation, fields = {}, options = {}) {
    return this.#call('fork', { ...fields, conversation }, options).answer;
  }

  rewind(conversation, fields, options = {}) {
    return this.#call('rewind', { ...fields, conversation }, options).answer;
  }

  // Deletes the conversation for good.
  async close(conversation, options = {}) {
    await this.#call('close', { conversation }, options).answer;
  }

  get(conversation, fields = {}, options = {}) {
    return this.#call('get', { ...fields, conversation }, options).answer;
  }

  list(fields = {}, options = {}) {
    return this.#call('list', fields, options).answer;
  }

  update(conversation, fields, options = {}) {
    return this.#call('update', { ...fields, conversation }, options).answer;
  }

  find(fields, options = {}) {
    return this.#call('find', fields, options).answer;
  }

  carry(conversation, fields = {}, options = {}) {
    return this.#call('carry', { ...fields, conversation }, options).answer;
  }

  warm(conversation, options = {}) {
    return this.#call('warm', { conversation }, options).answer;
  }

  evict(conversation, options = {}) {
    return this.#call('evict', { conversation }, options).answer;
  }

  // Ends what the conversation is doing.
  async cancel(conversation, options = {}) {
    await this.#call('cancel', { conversation }, options).answer;
  }

  publish(conversation, fields = {}, options = {}) {
    return this.#call('publish', { ...fields, conversation }, options).answer;
  }

  // ---- replies and notices ----

  continue(conversation, fields, options = {}) {
    return this.#reply('continue', { ...fields, conversation }, options);
  }

  attach(conversation, fields = {}, options = {}) {
    return this.#reply('attach', { ...fields, conversation }, options);
  }

  watch(fields = {}, options = {}) {
    return new Watching(this.#connection, (queue) => this.#stream('watch', fields, options, queue, (kind, body, size) => {
      if (kind === 'notice') {
        queue.push(body, size);
      }
    }));
  }

  // ---- export and import ----

  export(conversation, fields = {}, options = {}) {
    return this.#file('export', { ...fields, conversation, inStream: true }, options);
  }

  #file(verb, fields, options) {
    const exporting = new Exporting(this.#connection, (queue) => this.#stream(
      verb, fields, options, queue, (kind, body, size) => {
        if (kind === 'exported') {
          exporting.exported = body;
        } else if (body.data?.length > 0) {
          queue.push(body.data, size);
        }
      }));
    return exporting;
  }

  async import(source, fields = {}, options = {}) {
    const iterator = iteratorOf(source);
    const call = this.#call('import', { ...fields, inStream: true }, options);
    try {
      await this.#feed(call, iterator);
    } catch (error) {
      call.cancel();
      await call.answer.catch(() => {});
      throw error;
    } finally {
      // A source may be in the middle of waiting: nobody waits for it.
      Promise.resolve(iterator.return?.()).catch(() => {});
    }
    return call.answer;
  }

  async #feed(call, iterator) {
    const ended = call.answer.then(() => null, () => null);
    for (;;) {
      const step = await Promise.race([iterator.next(), ended]);
      if (step === null) {
        return;
      }
      if (!step.done && !(step.value instanceof Uint8Array)) {
        throw invalid('import takes Uint8Arrays');
      }
      await this.#connection.sendChunks(call.id, step.done ? Buffer.alloc(0) : step.value, step.done);
      if (step.done) {
        return;
      }
    }
  }

  // ---- model and daemon ----

  tokenize(text, fields = {}, options = {}) {
    return this.#call('tokenize', { ...fields, text }, options).answer;
  }

  modelInfo(options = {}) {
    return this.#call('modelInfo', {}, options).answer;
  }

  // The figures by name, as BigInts.
  async stats(options = {}) {
    const { stats } = await this.#call('stats', {}, options).answer;
    const figures = Object.create(null);
    for (const { name, value } of stats) {
      figures[name] = value;
    }
    return figures;
  }

  // All that Stats tells.
  figures(fields = {}, options = {}) {
    return this.#call('stats', fields, options).answer;
  }

  // ---- for administrators ----

  settings(options = {}) {
    return this.#call('settings', {}, options).answer;
  }

  users(fields = {}, options = {}) {
    return this.#call('users', fields, options).answer;
  }

  actOnUser(fields, options = {}) {
    return this.#call('actOnUser', fields, options).answer;
  }

  drain(fields = {}, options = {}) {
    return this.#call('drain', fields, options).answer;
  }

  backup({ withMemory, ...options } = {}) {
    return this.#file('backup', withMemory === undefined ? {} : { withMemory }, options);
  }

  // `options.progress` is called with {doneBytes, totalBytes} as it goes on.
  check(fields = {}, options = {}) {
    return this.#call('check', fields, options).answer;
  }

  // Limits and their use: the own ones, or those of `subject`.
  quota(fields = {}, options = {}) {
    return this.#call('quota', fields, options).answer;
  }

  // ---- requests ----

  // A request with one answer: {id, answer, cancel()}. An abort rejects at once; whether the daemon did what was
  // asked is open then.
  #call(verb, fields, { signal, progress }) {
    let id;
    let undo = () => {};
    const answer = new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      id = this.#connection.send(verb, fields, {
        see: (kind, body) => (kind === 'progress' ? progress?.(body) : resolve(body)),
        fail: reject,
      });
      undo = onAbort(signal, () => {
        this.#connection.cancel(id);
        reject(signal.reason);
      });
    }).finally(() => undo());
    return { id, answer, cancel: () => this.#connection.cancel(id) };
  }

  #reply(verb, fields, options) {
    return new Reply(this.#connection, (queue) => this.#stream(verb, fields, options, queue, (kind, body, size) => {
      queue.push({ type: kind, ...body }, size);
    }));
  }

  // A request with many events. Whatever is wrong is told to the reader of the queue.
  #stream(verb, fields, { signal }, queue, see) {
    let id;
    let undo = () => {};
    const end = (error) => {
      undo();
      queue.end(error);
    };
    try {
      signal?.throwIfAborted();
      id = this.#connection.send(verb, fields, {
        see: (kind, body, size) => {
          see(kind, body, size);
          if (!this.#connection.isPending(id)) {
            end();
          }
        },
        fail: end,
      });
      undo = onAbort(signal, () => {
        this.#connection.cancel(id);
        queue.drop(signal.reason);
      });
    } catch (error) {
      end(error);
    }
    return { cancel: () => this.#connection.cancel(id) };
  }
}
