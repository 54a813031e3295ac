// SPDX-License-Identifier: MIT
// Events from bytes that anybody may have sent.
//
// protobufjs' own decoders neither compare wire types nor look at UTF-8, and they make as many objects
// as two bytes each can ask for. This one reads the same tables, and keeps these rules:
//
// 1. What is no message of confab.proto throws. Nothing else happens.
// 2. A frame becomes at most one object for each 12 bytes of the largest frame that was allowed, or one item
//    of a list of other things for each 4 (packed numbers are free): no daemon needs more.
// 3. 64-bit numbers are BigInts, enums are names in lower case ("unknown": of a newer daemon), bytes are
//    Buffers. A field that was not sent is not there, but lists are always there.
import { broken } from './errors.js';
import { Enum, Event, Reader, Type, DELIMITED, VARINT, WIRE_TYPES, enumOf, listOf } from './schema.js';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const scalars = {
  bool: (reader) => reader.bool(),
  float: (reader) => reader.float(),
  int32: (reader) => reader.int32(),
  uint32: (reader) => reader.uint32(),
  uint64(reader) {
    const { high, low } = reader.uint64();
    return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
  },
  string: (reader) => utf8.decode(reader.bytes()),
  bytes: (reader) => reader.bytes(),
};

// Rule 2, in units of 4 bytes.
const COSTS = { message: 3, item: 1 };

function charge(budget, cost) {
  budget.left -= cost;
  if (budget.left < 0) {
    throw new Error('it has too many parts');
  }
}

function readOne(reader, field, wire, budget) {
  const type = field.resolvedType;
  const wanted = type instanceof Type ? DELIMITED : type instanceof Enum ? VARINT : WIRE_TYPES[field.type];
  if (wire !== wanted) {
    throw new Error(`field '${field.name}' is of another type`);
  }
  if (type instanceof Type) {
    const size = reader.uint32();
    return readMessage(reader, type, reader.pos + size, budget);
  }
  if (type instanceof Enum) {
    return enumOf(type).names.get(reader.int32()) ?? 'unknown';
  }
  return scalars[field.type](reader);
}

// Numbers may come packed or one by one.
function readList(reader, field, wire, budget, list) {
  if (wire !== DELIMITED || field.resolvedType || WIRE_TYPES[field.type] === DELIMITED) {
    if (!(field.resolvedType instanceof Type)) {
      charge(budget, COSTS.item);
    }
    list.push(readOne(reader, field, wire, budget));
    return;
  }
  const size = reader.uint32();
  const end = reader.pos + size;
  if (end > reader.len) {
    throw new Error('a list is cut off');
  }
  while (reader.pos < end) {
    list.push(scalars[field.type](reader));
  }
  if (reader.pos !== end) {
    throw new Error('a number is cut off');
  }
}

function setField(message, type, field, value) {
  for (const other of field.partOf?.oneof ?? []) {
    if (other !== field.name && Object.hasOwn(message, other)) {
      delete message[other];
    }
  }
  message[field.name] = value;
}

function readMessage(reader, type, end, budget) {
  if (end > reader.len) {
    throw new Error('a part of it is cut off');
  }
  charge(budget, COSTS.message);
  const message = {};
  for (const field of type.fieldsArray) {
    if (field.repeated) {
      message[field.name] = [];
    }
  }
  while (reader.pos < end) {
    const tag = reader.uint32();
    const wire = tag & 7;
    const field = type.fieldsById[tag >>> 3];
    if (tag >>> 3 === 0 || wire === 3 || wire === 4) {
      throw new Error('it has a group or a field without a number');
    }
    if (!field) {
      reader.skipType(wire);
    } else if (field.repeated) {
      readList(reader, field, wire, budget, message[field.name]);
    } else {
      setField(message, type, field, readOne(reader, field, wire, budget));
    }
  }
  if (reader.pos !== end) {
    throw new Error('a part of it is longer than the whole');
  }
  const list = listOf(type);
  return list ? message[list.name] : message;
}

// An event: {request, kind, body}. The kind is null if this client does not know it. Throws ConfabError
// "protocol".
export function decodeEvent(frame, maxFrame) {
  let event;
  try {
    event = readMessage(Reader.create(frame), Event, frame.length, { left: Math.floor(maxFrame / 4) + 16 });
  } catch (error) {
    throw broken(error.message);
  }
  const kind = Event.oneofs.kind.oneof.find((name) => event[name] !== undefined) ?? null;
  return { request: event.request ?? 0n, kind, body: kind === null ? null : event[kind] };
}
