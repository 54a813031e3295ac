// SPDX-License-Identifier: MIT
// The messages of confab.proto, and what both directions of their translation share.
import { existsSync, readFileSync } from 'node:fs';
import protobuf from 'protobufjs';

// A package has the file beside index.js; a checkout has it where everything else finds it.
const places = ['../confab.proto', '../../../proto/confab.proto'].map((place) => new URL(place, import.meta.url));
const place = places.find((url) => existsSync(url)) ?? places[0];
const scope = protobuf.parse(readFileSync(place, 'utf8')).root.resolveAll().lookup('confab.v1');

export const { Reader, Writer, Enum, Type } = protobuf;
export const { Long } = protobuf.util;
export const Request = scope.lookupType('Request');
export const Event = scope.lookupType('Event');
export const Ref = scope.lookupType('Ref');

export const VARINT = 0;
export const FIXED64 = 1;
export const DELIMITED = 2;
export const FIXED32 = 5;

// Scalars by their wire type. The protocol has no others.
export const WIRE_TYPES = {
  bool: VARINT, int32: VARINT, uint32: VARINT, uint64: VARINT, float: FIXED32, string: DELIMITED, bytes: DELIMITED,
};

// Messages that only hold a list: here they are that list.
const LISTS = { Tags: 'tags', Tokens: 'ids', ToolResults: 'results', Messages: 'messages' };

// The field of a message that is nothing but a list, or undefined.
export function listOf(type) {
  return Object.hasOwn(LISTS, type.name) ? type.fields[LISTS[type.name]] : undefined;
}

// "stop_string" of FINISH_STOP_STRING: without the prefix that the first name of the enum shows.
function makeNames(type) {
  const prefix = Object.keys(type.values)[0].replace(/UNSPECIFIED$/, '');
  const names = new Map();
  for (const [name, number] of Object.entries(type.values)) {
    names.set(number, name.slice(prefix.length).toLowerCase());
  }
  return { names, numbers: new Map([...names].map(([number, name]) => [name, number])) };
}

const enums = new Map();

export function enumOf(type) {
  let known = enums.get(type);
  if (!known) {
    known = makeNames(type);
    enums.set(type, known);
  }
  return known;
}
