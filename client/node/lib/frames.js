// SPDX-License-Identifier: MIT
import { broken } from './errors.js';

// Cuts a stream into frames: a length as a varint of at most 5 bytes, in its shortest form, then so many
// bytes. It keeps one frame at most, besides the chunk that was given last.
export class FrameReader {
  #maxFrame;
  #chunk = Buffer.alloc(0);
  #at = 0;
  #length = 0; // of the frame, as far as its digits are read
  #nDigits = 0;
  #body = null; // of a frame that more than one chunk has
  #filled = 0;

  constructor(maxFrame) {
    this.#maxFrame = maxFrame;
  }

  // Takes what was received. Frames of the chunk before are to be read first; what is left of it is kept.
  push(chunk) {
    this.#chunk = this.#at < this.#chunk.length ? Buffer.concat([this.#chunk.subarray(this.#at), chunk]) : chunk;
    this.#at = 0;
  }

  // True in the middle of a frame.
  get partial() {
    return this.#nDigits > 0 || this.#body !== null || this.#at < this.#chunk.length;
  }

  // The next frame, or null: more has to be received. Throws ConfabError "protocol".
  next() {
    if (this.#body === null) {
      if (!this.#readLength()) {
        return null;
      }
      const end = this.#at + this.#length;
      if (end <= this.#chunk.length) {
        const frame = this.#chunk.subarray(this.#at, end);
        this.#at = end;
        this.#length = 0;
        return frame;
      }
      this.#body = Buffer.allocUnsafe(this.#length);
      this.#filled = 0;
    }
    return this.#fill();
  }

  #readLength() {
    let digit;
    let length = this.#length;
    do {
      if (this.#at === this.#chunk.length) {
        this.#length = length;
        return false;
      }
      digit = this.#chunk[this.#at++];
      length += (digit & 0x7f) * 2 ** (7 * this.#nDigits++);
      if (length > this.#maxFrame) {
        throw broken(`a message of more than the ${this.#maxFrame} bytes that may be sent`);
      }
    } while (digit >= 0x80 && this.#nDigits < 5);
    if (digit >= 0x80 || length === 0 || (digit === 0 && this.#nDigits > 1)) {
      throw broken('a length that is no length');
    }
    this.#length = length;
    this.#nDigits = 0;
    return true;
  }

  #fill() {
    const n = this.#chunk.copy(this.#body, this.#filled, this.#at);
    this.#at += n;
    this.#filled += n;
    if (this.#filled < this.#body.length) {
      return null;
    }
    const frame = this.#body;
    this.#body = null;
    this.#length = 0;
    return frame;
  }
}
