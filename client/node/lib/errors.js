// SPDX-License-Identifier: MIT

// Whatever fails, except an abort, which rejects with the reason of its AbortSignal.
//   code     stable: those of docs/protocol.md, and "no_daemon", "disconnected" and "protocol" of this side
//   message  one sentence for people
//   retry    the same request may succeed later, without anybody changing it
export class ConfabError extends Error {
  constructor(code, message, retry = false, options = undefined) {
    super(message, options);
    this.name = 'ConfabError';
    this.code = code;
    this.retry = retry;
  }
}

export function invalid(message) {
  return new ConfabError('invalid', message);
}

export function broken(message) {
  return new ConfabError('protocol', `the daemon sent what cannot be read: ${message}`, true);
}
