// SPDX-License-Identifier: MIT
// A daemon that says what a test makes it say.
import { existsSync, readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';
import { makeFolder } from './daemon.js';

const places = ['../node_modules/confab/confab.proto', '../../../proto/confab.proto'];
const place = places.map((name) => fileURLToPath(new URL(name, import.meta.url))).find((name) => existsSync(name));
const scope = protobuf.parse(readFileSync(place, 'utf8')).root.resolveAll().lookup('confab.v1');
const Event = scope.lookupType('Event');
const Request = scope.lookupType('Request');

export const delimited = (message) => Buffer.from(protobuf.Writer.create().bytes(message).finish());
export const eventFrame = (event) => delimited(Event.encode(Event.fromObject(event)).finish());
export const HELLO = eventFrame({ request: 1, hello: { version: 1, software: 'fake 1', maxFrame: 4 << 20 } });

// The requests of a stream that this side's client wrote.
function* requestsOf(bytes) {
  const reader = protobuf.Reader.create(bytes);
  while (reader.pos < reader.len) {
    yield { request: Request.toObject(Request.decodeDelimited(reader), { longs: Number, oneofs: true }), end: reader.pos };
  }
}

// Listens until the test ends; answer(socket, request) is called for each request that is complete.
export async function startFake(t, answer) {
  const socketPath = path.join(await makeFolder(t), 'socket');
  const sockets = new Set();
  const server = net.createServer((socket) => {
    let bytes = Buffer.alloc(0);
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      let end = 0;
      try {
        for (const found of requestsOf(bytes)) {
          end = found.end;
          answer(socket, found.request);
        }
      } catch (error) {
        if (!(error instanceof RangeError)) {
          throw error;
        }
      }
      bytes = bytes.subarray(end);
    });
  });
  await new Promise((resolve) => server.listen(socketPath, resolve));
  t.after(() => {
    server.close();
    sockets.forEach((socket) => socket.destroy());
  });
  return socketPath;
}
