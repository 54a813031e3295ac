// SPDX-License-Identifier: MIT
// One connection.
//
// 1. A request is in #pending from send() until its final event, whether or not somebody still wants to know.
// 2. Hello is request 1. The first event must be its answer, or an error about the connection.
// 3. A connection ends once, with one reason. All pending requests then end with it, and all later ones.
// 4. Events for requests that are not pending and events of unknown kinds are ignored: a newer daemon may
//    send more. Anything else that is not as docs/protocol.md says ends the connection.
// 5. Once more than maxQueued bytes wait for readers that lag, the socket is not read until half of them are
//    gone. So what a daemon can make this side keep is bounded: maxQueued, and a frame or two.
import net from 'node:net';
import { decodeEvent } from './decode.js';
import { encodeRequest } from './encode.js';
import { ConfabError, broken, invalid } from './errors.js';
import { FrameReader } from './frames.js';
import { VERBS } from './verbs.js';

const VERSION = 1;
const HELLO_ID = 1n;
const OLD_MAX_FRAME = 4 << 20; // that a daemon takes which does not say
const MIN_FRAME = 1024;
const MAX_UNSENT = 64 << 20;
const CHUNK_SIZE = 256 << 10;
// What an event takes besides its bytes, about.
const EVENT_COST = 256;

function connectError(path, error) {
  const options = { cause: error };
  switch (error.code) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ECONNREFUSED':
      return new ConfabError('no_daemon', `no daemon listens on ${path}: ${error.code}`, true, options);
    case 'EACCES':
    case 'EPERM':
      return new ConfabError('permission', `no access to the daemon on ${path}: ${error.code}`, false, options);
    default:
      return new ConfabError('system', `cannot connect to ${path}: ${error.message}`, error.code === 'EAGAIN', options);
  }
}

function errorOf(body) {
  return new ConfabError(body.code || 'unknown', body.message || 'the daemon gave no reason', body.retry ?? false);
}

export class Connection {
  #socket;
  #frames;
  #pending = new Map(); // id to {verb, see(kind, body, size), fail(error)}
  #nextId = HELLO_ID;
  #sendMax = OLD_MAX_FRAME;
  #maxFrame;
  #maxQueued;
  #nQueued = 0;
  #paused = false;
  #reading = false;
  #greeting = null; // until Hello has come: {resolve, reject, wanted}
  #end = null; // ConfabError
  #drains = []; // calls that wait until the socket takes more

  server = '';
  owner = {};

  // Connects and exchanges Hello.
  static open(path, { actFor, maxFrame, maxQueued, signal }) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const socket = net.connect({ path });
      const abort = () => {
        socket.destroy();
        reject(signal.reason);
      };
      const settle = (settled) => (value) => {
        signal?.removeEventListener('abort', abort);
        settled(value);
      };
      const refused = (error) => settle(reject)(connectError(path, error));
      signal?.addEventListener('abort', abort, { once: true });
      socket.once('error', refused);
      socket.once('connect', () => {
        socket.off('error', refused);
        const connection = new Connection(socket, maxFrame, maxQueued);
        connection.#greet(actFor, settle(resolve), settle(reject));
      });
    });
  }

  constructor(socket, maxFrame, maxQueued) {
    this.#socket = socket;
    this.#maxFrame = maxFrame;
    this.#maxQueued = maxQueued;
    this.#frames = new FrameReader(maxFrame);
    socket.on('data', (chunk) => {
      this.#frames.push(chunk);
      this.#readFrames();
    });
    socket.on('end', () => this.#hungUp());
    socket.on('error', (error) => this.end(new ConfabError('disconnected', `the connection broke: ${error.message}`, true)));
    socket.on('close', () => this.#hungUp());
    socket.on('drain', () => this.#wakeSenders());
  }

  get over() {
    return this.#end;
  }

  // The connection ends, for this reason unless there was one before.
  end(error) {
    if (this.#end) {
      return;
    }
    this.#end = error;
    this.#socket.destroy();
    this.#greeting?.reject(error);
    this.#greeting = null;
    for (const [id, pending] of [...this.#pending]) {
      this.#pending.delete(id);
      pending.fail(this.#endError());
    }
    this.#wakeSenders();
  }

  // Resolves when the socket is closed.
  closed() {
    return new Promise((resolve) => {
      if (this.#socket.closed) {
        resolve();
      } else {
        this.#socket.once('close', () => resolve());
      }
    });
  }

  // ---- sending ----

  // Sends a request. `pending.see(kind, body, size)` gets its events, the last of which is its result;
  // `pending.fail(error)` is called instead of that. Returns its id. Throws ConfabError.
  send(verb, body, pending) {
    const id = this.#nextId;
    this.#write(id, verb, body);
    this.#nextId++;
    this.#pending.set(id, { ...pending, verb });
    return id;
  }

  // Asks the daemon to end a request early, if it has not ended.
  cancel(id) {
    if (!this.#end && this.#pending.has(id)) {
      try {
        this.send('cancel', { request: id }, { see() {}, fail() {} });
      } catch (error) {
        this.end(error); // so the request ends in any case
      }
    }
  }

  isPending(id) {
    return this.#pending.has(id);
  }

  // Sends bytes of an import, in pieces that the daemon takes, as fast as the socket does. Ends early if the
  // import has.
  async sendChunks(id, data, last) {
    const size = Math.min(CHUNK_SIZE, this.#sendMax - 64);
    for (let at = 0; at < data.length || (last && at === 0); at += size) {
      while (this.#socket.writableNeedDrain && !this.#end) {
        await new Promise((resolve) => this.#drains.push(resolve));
      }
      if (!this.isPending(id)) {
        return;
      }
      this.#write(id, 'chunk', { data: data.subarray(at, at + size), last: last && at + size >= data.length });
    }
  }

  #write(id, verb, body) {
    if (this.#end) {
      throw this.#endError();
    }
    const frame = encodeRequest(id, verb, body);
    if (frame.length > this.#sendMax) {
      throw new ConfabError('limit', `a request of ${frame.length} bytes is larger than the ${this.#sendMax} that the daemon takes`);
    }
    if (this.#socket.writableLength + frame.length > MAX_UNSENT) {
      throw new ConfabError('limit', 'too much waits to be sent: the daemon does not read', true);
    }
    this.#socket.write(frame);
  }

  #wakeSenders() {
    for (const resolve of this.#drains.splice(0)) {
      resolve();
    }
  }

  // For each request one of its own, so that stacks and changes do not mix.
  #endError() {
    return new ConfabError(this.#end.code, this.#end.message, this.#end.retry, { cause: this.#end });
  }

  // ---- greeting ----

  #greet(actFor, resolve, reject) {
    this.#greeting = { wanted: actFor, resolve, reject };
    const hello = { version: VERSION, software: 'confab-node', maxFrame: this.#maxFrame, actUid: actFor?.uid, tenant: actFor?.tenant };
    try {
      this.#write(HELLO_ID, 'hello', hello);
      this.#nextId = HELLO_ID + 1n;
    } catch (error) {
      this.end(error);
    }
  }

  #seeHello({ request, kind, body }) {
    if (kind === 'error' && (request === 0n || request === HELLO_ID)) {
      throw errorOf(body);
    }
    if (kind !== 'hello' || request !== HELLO_ID) {
      throw broken('it did not begin with Hello');
    }
    if (body.version !== VERSION) {
      throw new ConfabError('unsupported', `the daemon speaks protocol version ${body.version}, not ${VERSION}`);
    }
    const { wanted, resolve } = this.#greeting;
    if (wanted && ((wanted.uid !== undefined && body.actUid !== wanted.uid) || body.tenant !== wanted.tenant)) {
      throw new ConfabError('unsupported', 'the daemon does not act for other owners');
    }
    if (body.maxFrame !== undefined && body.maxFrame < MIN_FRAME) {
      throw broken(`it takes messages of ${body.maxFrame} bytes only`);
    }
    this.#sendMax = body.maxFrame ?? OLD_MAX_FRAME;
    this.server = body.software || 'confabd';
    this.owner = { uid: body.actUid, tenant: body.tenant };
    this.#greeting = null;
    resolve(this);
  }

  // ---- receiving ----

  #hungUp() {
    const where = this.#frames.partial ? 'broke off in the middle of a message' : 'closed the connection';
    this.end(new ConfabError('disconnected', `the daemon ${this.#greeting ? 'hung up before it greeted' : where}`, true));
  }

  // Readers may be called in between, and may bring us here again: only the outermost call reads.
  #readFrames() {
    if (this.#reading) {
      return;
    }
    this.#reading = true;
    try {
      let frame;
      while (!this.#paused && !this.#end && (frame = this.#frames.next()) !== null) {
        this.#seeFrame(frame);
      }
    } catch (error) {
      this.end(error instanceof ConfabError ? error : broken(String(error)));
    } finally {
      this.#reading = false;
    }
  }

  #seeFrame(frame) {
    const event = decodeEvent(frame, this.#maxFrame);
    if (this.#greeting) {
      this.#seeHello(event);
      return;
    }
    if (event.request === 0n && event.kind === 'error') {
      throw errorOf(event.body);
    }
    const pending = this.#pending.get(event.request);
    if (pending && event.kind !== null) {
      this.#seeEvent(event, pending, frame.length + EVENT_COST);
    }
  }

  #seeEvent({ request, kind, body }, pending, size) {
    const { before, result } = VERBS[pending.verb];
    if (kind !== 'error' && kind !== result && !before.includes(kind)) {
      throw broken(`it gave '${kind}' as an answer to '${pending.verb}'`);
    }
    if (kind === 'error' || kind === result) {
      this.#pending.delete(request);
    }
    if (kind === 'error') {
      pending.fail(errorOf(body));
    } else {
      pending.see(kind, body, size);
    }
  }

  // ---- flow (rule 5) ----

  hold(size) {
    this.#nQueued += size;
    if (this.#nQueued > this.#maxQueued && !this.#paused) {
      this.#paused = true;
      this.#socket.pause();
    }
  }

  release(size) {
    this.#nQueued -= size;
    if (this.#paused && this.#nQueued <= this.#maxQueued / 2) {
      this.#paused = false;
      setImmediate(() => {
        this.#readFrames();
        if (!this.#paused && !this.#end) {
          this.#socket.resume();
        }
      });
    }
  }
}

// The settings of a connection, as they should be. Throws ConfabError "invalid".
export function checkSettings({ actFor, maxFrame = 16 << 20, maxQueued = 4 << 20, signal, ...others }) {
  if (Object.keys(others).length > 0) {
    throw invalid(`connect() has no setting '${Object.keys(others)[0]}'`);
  }
  if (!Number.isInteger(maxFrame) || maxFrame < MIN_FRAME || maxFrame > 2 ** 30) {
    throw invalid(`maxFrame must be an integer from ${MIN_FRAME} to ${2 ** 30}`);
  }
  if (!Number.isInteger(maxQueued) || maxQueued < 1) {
    throw invalid('maxQueued must be a positive integer');
  }
  // A typing error here must not make requests those of somebody else.
  if (actFor !== undefined && (typeof actFor !== 'object' || actFor === null || Object.keys(actFor).length === 0
      || Object.keys(actFor).some((name) => name !== 'uid' && name !== 'tenant'))) {
    throw invalid('actFor must be {uid, tenant}, either or both');
  }
  return { actFor, maxFrame, maxQueued, signal };
}
