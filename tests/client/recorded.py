#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""recorded.py CONFABD SOURCE [--record PACKAGE]: a client of the first day of protocol version 1 is answered as it was.

tests/client/recorded-v1.json has requests as the bytes that such a client sends, and what it reads of the answers: numbers of fields and
values, "*" where a value may be another one. They are sent to the daemon and read here without proto/confab.proto, so a number that is changed on both
sides, which no other test would notice, fails here. What answers have besides is not looked at, as an old client ignores it.

--record makes the file, with the Python package in the folder PACKAGE. It is made once for a version of the protocol, and steps are added to
its end; another bundled model has other tokens, and needs it made anew.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
confabd, source = sys.argv[1:3]
RECORD = os.path.join(source, 'tests', 'client', 'recorded-v1.json')
LONG = 120  # seconds that no answer takes
ERROR, DELTA, PROGRESS = 3, 6, 5  # numbers in Event

# Fields whose values depend on the time, the machine or the user, and words that may be put better.
VARIES = {'uid', 'act_uid', 'seed', 'software', 'path', 'isa', 'fingerprint', 'message', 'cursor', 'ram_bytes', 'disk_bytes', 'value', 'stats',
          'max_frame', 'n_drafted', 'n_accepted', 'busy', 'generating'}
STEPS = [
    ('hello', {'id': 1, 'hello': {'version': 1, 'software': 'recorded 1', 'max_frame': 1 << 20}}),
    ('open, with defaults and notes', {'id': 2, 'open': {'name': 'trip', 'system': 'You are a helpful assistant.', 'sampling': {'temperature': 0},
                                                         'about': {'title': 'A trip', 'tags': {'tags': ['a', 'b']}}}}),
    ('say', {'id': 3, 'continue': {'conversation': {'name': 'trip'}, 'message': 'My name is Nora.', 'max_tokens': 24}}),
    ('fork', {'id': 4, 'fork': {'conversation': {'id': 1}, 'name': 'other'}}),
    ('say at the fork, with a stop string', {'id': 5, 'continue': {'conversation': {'name': 'other'}, 'message': 'What is my name?', 'stop': ['Nora'],
                                                                  'max_tokens': 24, 'expect_revision': 1}}),
    ('rewind', {'id': 6, 'rewind': {'conversation': {'name': 'other'}, 'turns': 2}}),
    ('get with turns', {'id': 7, 'get': {'conversation': {'name': 'trip'}, 'turns': True}}),
    ('update', {'id': 8, 'update': {'conversation': {'name': 'other'}, 'name': 'second', 'overflow': 2}}),
    ('list', {'id': 9, 'list': {'limit': 10}}),
    ('evict', {'id': 10, 'evict': {'conversation': {'name': 'trip'}}}),
    ('warm', {'id': 11, 'warm': {'conversation': {'name': 'trip'}}}),
    ('tokenize', {'id': 12, 'tokenize': {'text': 'Hello there.'}}),
    ('the model', {'id': 13, 'model_info': {}}),
    ('figures', {'id': 14, 'stats': {}}),
    ('find', {'id': 15, 'find': {'messages': [{'role': 1, 'text': 'You are a helpful assistant.'}, {'role': 2, 'text': 'My name is Nora.'}]}}),
    ('a name that is taken', {'id': 16, 'open': {'name': 'trip'}}),
    ('one that is not there', {'id': 17, 'get': {'conversation': {'name': 'nobody'}}}),
    ('attach to the last reply', {'id': 18, 'attach': {'conversation': {'name': 'trip'}}}),
    ('close', {'id': 19, 'close': {'conversation': {'name': 'second'}}}),
]
# A verb and a field that no daemon knows: messages of a client of later days.
LATER = [('a verb of later days', b'\x08\x14' + b'\xfa\x7f\x00'),
         ('a field of later days', b'\x08\x15' + b'\x1a\x0d' + b'\x0a\x05later' + b'\xf8\x7f\x01' + b'\xfa\x7f\x00')]


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


# ---- bytes ----

def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def fields(data):
    """{number: [value, ...]}: numbers as integers, everything with a length as bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
            if key & 7 != 2:
                value = int.from_bytes(value, 'little')
        found.setdefault(key >> 3, []).append(value)
    return found


class Line:
    """A connection: frames."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LONG)
        self.socket.connect(path)
        self.file = self.socket.makefile('rb')

    def send(self, message):
        self.socket.sendall(varint(len(message)) + message)

    def read(self):
        head = b''
        while not head or head[-1] & 0x80:
            byte = self.file.read(1)
            need(byte, 'the daemon hangs up')
            head += byte
        return self.file.read(read_varint(head, 0)[0])

    def close(self):
        self.file.close()
        self.socket.close()


# ---- answers ----

def differs(expected, value, path=''):
    """Where a value is not what was recorded; None: nowhere."""
    if expected == '*':
        return None
    if isinstance(expected, dict) and 'hex' in expected:
        return None if value == bytes.fromhex(expected['hex']) else f'{path}: {value!r} and not {expected["hex"]}'
    if isinstance(expected, dict):
        found = fields(value)
        for number, wanted in expected.items():
            got = found.get(int(number), [])
            if len(got) < len(wanted):
                return f'{path}.{number}: {len(got)} of {len(wanted)} values'
            for one, is_there in zip(wanted, got):
                wrong = differs(one, is_there, f'{path}.{number}')
                if wrong:
                    return wrong
        return None
    value = value.decode() if isinstance(value, bytes) else value
    return None if value == expected else f'{path}: {value!r} and not {expected!r}'


def answers(line, final):
    """(events but for deltas and progress, the text of all deltas), up to an event of the kind that ends it."""
    events, text = [], b''
    while True:
        event = line.read()
        found = fields(event)
        kinds = set(found) - {1}
        if DELTA in kinds:
            text += b''.join(fields(found[DELTA][0]).get(1, []))
        elif PROGRESS not in kinds:
            events.append(event)
        if kinds & {final, ERROR}:
            return events, text.decode()


def replay(line):
    with open(RECORD, encoding='utf-8') as f:
        steps = json.load(f)
    for step in steps:
        line.send(bytes.fromhex(step['request']))
        events, text = answers(line, step['final'])
        need(len(events) == len(step['events']), f'{step["what"]}: {len(events)} events, {len(step["events"])} were recorded')
        for expected, event in zip(step['events'], events):
            wrong = differs(expected, event)
            need(not wrong, f'{step["what"]}: field {wrong}')
        need(text == step['text'], f'{step["what"]}: {text!r} and not {step["text"]!r}')
    print(f'{len(steps)} requests are answered as they were')


# ---- recording ----

def tree(descriptor, data):
    """What is kept of a message."""
    kept = {}
    for number, values in fields(data).items():
        field = descriptor.fields_by_number[number]
        kept[str(number)] = [value_of(field, value) for value in values]
    return kept


def value_of(field, value):
    if field.name in VARIES or field.name.endswith('_usec') or field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return '*'
    if field.type == field.TYPE_MESSAGE:
        return tree(field.message_type, value)
    if field.type == field.TYPE_STRING:
        return value.decode()
    return {'hex': value.hex()} if isinstance(value, bytes) else value


def record(line, package):
    sys.path.insert(0, package)
    from confab import messages  # pylint: disable=import-outside-toplevel
    from google.protobuf import json_format  # pylint: disable=import-outside-toplevel
    requests = [(what, json_format.ParseDict(form, messages.Request(), ignore_unknown_fields=False).SerializeToString()) for what, form in STEPS] + LATER
    kinds = messages.Event.DESCRIPTOR.fields_by_name
    steps = []
    for what, request in requests:
        line.send(request)
        verb = messages.Request.FromString(request).WhichOneof('verb')
        name = {'open': 'conversation', 'fork': 'conversation', 'rewind': 'conversation', 'get': 'conversation', 'update': 'conversation', 'list': 'conversations',
                'evict': 'conversation', 'warm': 'conversation', 'continue': 'done', 'attach': 'done', 'close': 'empty', 'find': 'found', None: 'error'}.get(verb, verb)
        events, text = answers(line, kinds[name].number)
        steps.append({'what': what, 'request': request.hex(), 'final': kinds[name].number,
                      'events': [tree(messages.Event.DESCRIPTOR, event) for event in events], 'text': text})
    with open(RECORD, 'w', encoding='utf-8') as f:
        f.write('[\n' + ',\n'.join(json.dumps(step, ensure_ascii=False) for step in steps) + '\n]\n')


def main():
    with tempfile.TemporaryDirectory(prefix='confab-recorded-') as folder:
        path = f'{folder}/s'
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        ready.bind(f'{folder}/notify')
        ready.settimeout(LONG)
        daemon = subprocess.Popen([confabd, '--model', f'{source}/models/confab-small.q8_0.gguf', '--socket', path, '--state', f'{folder}/state',
                                   '--spill-delay', 'never'], env={**os.environ, 'NOTIFY_SOCKET': f'{folder}/notify'}, stderr=subprocess.DEVNULL)
        try:
            while b'READY=1' not in ready.recv(4096):
                pass
            line = Line(path)
            if sys.argv[3:4] == ['--record']:
                record(line, sys.argv[4])
            else:
                replay(line)
            line.close()
        finally:
            daemon.terminate()
            daemon.wait(LONG)
            ready.close()


main()
