// SPDX-License-Identifier: MIT
// Requests as bytes. protobufjs would leave out what it does not know and bend what does not fit; a
// program is told instead, with the name of the field.
import { invalid } from './errors.js';
import { Enum, Long, Ref, Request, Type, WIRE_TYPES, Writer, VARINT, DELIMITED, enumOf, listOf } from './schema.js';

// Fields that are JSON texts may be given as what they stand for.
const JSON_FIELDS = new Set(['jsonSchema', 'tools', 'metadata', 'arguments']);

const isMessage = (value) => typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);

function integerOf(value, low, high, path) {
  if (!Number.isInteger(value) || value < low || value > high) {
    throw invalid(`${path} must be an integer from ${low} to ${high}`);
  }
  return value;
}

// A 64-bit number as a BigInt: from a BigInt, a Number that is exact, or decimal digits.
export function bigOf(value, path) {
  let big = value;
  if (Number.isSafeInteger(value) || (typeof value === 'string' && /^[0-9]{1,20}$/.test(value))) {
    big = BigInt(value);
  }
  if (typeof big !== 'bigint' || big < 0n || big > 0xffffffffffffffffn) {
    throw invalid(`${path} must be a BigInt of 64 bits without sign, a safe integer, or decimal digits`);
  }
  return big;
}

const longOf = (big) => new Long(Number(big & 0xffffffffn) | 0, Number(big >> 32n) | 0, true);

function textOf(value, name, path) {
  const text = JSON_FIELDS.has(name) && typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
  if (typeof text !== 'string') {
    throw invalid(`${path} must be a string`);
  }
  if (/[\0\p{Surrogate}]/u.test(text)) {
    throw invalid(`${path} has a NUL or half a character`);
  }
  return text;
}

function bytesOf(value, path) {
  if (typeof value === 'string') {
    return Buffer.from(value, 'utf8');
  }
  if (!(value instanceof Uint8Array)) {
    throw invalid(`${path} must be a string or a Uint8Array`);
  }
  return value;
}

const scalars = {
  bool(writer, value, path) {
    if (typeof value !== 'boolean') {
      throw invalid(`${path} must be true or false`);
    }
    writer.bool(value);
  },
  float(writer, value, path) {
    if (typeof value !== 'number') {
      throw invalid(`${path} must be a number`);
    }
    writer.float(value);
  },
  int32: (writer, value, path) => writer.int32(integerOf(value, -(2 ** 31), 2 ** 31 - 1, path)),
  uint32: (writer, value, path) => writer.uint32(integerOf(value, 0, 2 ** 32 - 1, path)),
  uint64: (writer, value, path) => writer.uint64(longOf(bigOf(value, path))),
  string: (writer, value, path, name) => writer.string(textOf(value, name, path)),
  bytes: (writer, value, path) => writer.bytes(bytesOf(value, path)),
};

function putEnum(writer, field, value, path) {
  const { numbers } = enumOf(field.resolvedType);
  if (!numbers.has(value)) {
    throw invalid(`${path} must be one of ${[...numbers.keys()].filter((name) => name !== 'unspecified').join(', ')}`);
  }
  writer.uint32((field.id << 3) | VARINT).int32(numbers.get(value));
}

// A conversation by name, by id, or by anything that has one of them, such as a Conversation.
function refOf(value, path) {
  if (typeof value === 'string' && !/^[0-9]+$/.test(value)) {
    return { name: value };
  }
  if (!isMessage(value)) {
    return { id: bigOf(value, path) };
  }
  if (value.id === undefined && value.name === undefined) {
    throw invalid(`${path} must be the name or the id of a conversation`);
  }
  return value.id === undefined ? { name: value.name } : { id: value.id };
}

function putOne(writer, field, value, path) {
  const type = field.resolvedType;
  if (type instanceof Enum) {
    putEnum(writer, field, value, path);
  } else if (type instanceof Type) {
    writer.uint32((field.id << 3) | DELIMITED).fork();
    putMessage(writer, type, type === Ref ? refOf(value, path) : value, path);
    writer.ldelim();
  } else {
    writer.uint32((field.id << 3) | WIRE_TYPES[field.type]);
    scalars[field.type](writer, value, path, field.name);
  }
}

function putList(writer, field, values, path) {
  if (!Array.isArray(values) && !(values instanceof Int32Array)) {
    throw invalid(`${path} must be an array`);
  }
  if (field.packed) {
    writer.uint32((field.id << 3) | DELIMITED).fork();
    values.forEach((value, i) => scalars[field.type](writer, value, `${path}[${i}]`));
    writer.ldelim();
  } else {
    values.forEach((value, i) => putOne(writer, field, value, `${path}[${i}]`));
  }
}

function putField(writer, field, value, path) {
  if (field.repeated) {
    putList(writer, field, value, path);
  } else {
    putOne(writer, field, value, path);
  }
}

function putMessage(writer, type, given, path) {
  const list = listOf(type);
  if (list) {
    putList(writer, list, given, path);
    return;
  }
  if (!isMessage(given)) {
    throw invalid(`${path} must be an object`);
  }
  const chosen = new Map();
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) {
      continue;
    }
    if (!Object.hasOwn(type.fields, name)) {
      throw invalid(`${path} has no field '${name}'`);
    }
    const field = type.fields[name];
    if (field.partOf && chosen.has(field.partOf)) {
      throw invalid(`${path} may have '${chosen.get(field.partOf)}' or '${name}', not both`);
    }
    chosen.set(field.partOf, name);
    putField(writer, field, value, `${path}.${name}`);
  }
}

// The frame of a request: its length and the message. `id` is a BigInt.
export function encodeRequest(id, verb, body) {
  const writer = Writer.create();
  writer.uint32((Request.fields.id.id << 3) | VARINT).uint64(longOf(id));
  putOne(writer, Request.fields[verb], body, verb);
  return Writer.create().bytes(writer.finish()).finish();
}
