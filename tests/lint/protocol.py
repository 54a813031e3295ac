#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""protocol.py ROOT [--record]: numbers of the protocol mean for ever what they mean today (docs/protocol.md, "Versions").

tests/lint/protocol.txt is the record of version 1: a line for each field of a message and each value of an enum, with its number and
type. What is recorded has to be in proto/confab.proto as it is recorded: an old client sends these numbers. A field that is no longer used stays there,
or its number is `reserved`. What is new has to be recorded, by --record, which only adds lines: whoever changes one does so by
hand, and breaks clients.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
import table

root = sys.argv[1]
PROTO, RECORD = 'proto/confab.proto', 'tests/lint/protocol.txt'
TOKEN = re.compile(r'"[^"]*"|\w+(?:\.\w+)*|[{}=;,\[\]]')


def read_proto(text):
    """{'Message.field': 'optional uint64 = 3'}, and {'Message': numbers that are reserved}."""
    words = TOKEN.findall(re.sub(r'//[^\n]*|/\*.*?\*/', '', text, flags=re.S))
    found, reserved, scope, i = {}, {}, [], 0
    while i < len(words):
        word = words[i]
        if word in ('message', 'enum', 'oneof'):
            scope.append((word, words[i + 1]))
            i += 3
        elif word == '}':
            scope.pop()
            i += 1
        elif word == ';':
            i += 1
        else:
            end = words.index(';', i)
            statement, i = words[i:end], end + 1
            owner = '.'.join(name for kind, name in scope if kind != 'oneof')
            if word == 'reserved':
                reserved.setdefault(owner, set()).update(int(n) for n in statement if n.isdigit())
            elif '=' in statement and scope:
                at = statement.index('=')
                kind = ' '.join(statement[:at - 1]) or 'value'
                if scope[-1][0] == 'oneof':
                    kind = f'oneof {kind}'
                found[f'{owner}.{statement[at - 1]}'] = f'{kind} = {statement[at + 1]}'
    return found, reserved


def read_record():
    path = os.path.join(root, RECORD)
    lines = table.read(root, RECORD).splitlines() if os.path.exists(path) else []
    return dict(line.split(': ', 1) for line in lines if line and not line.startswith('#'))


def main():
    report = table.Report()
    found, reserved = read_proto(table.read(root, PROTO))
    recorded = read_record()
    if '--record' in sys.argv[2:]:
        with open(os.path.join(root, RECORD), 'w', encoding='utf-8') as f:
            f.write('# Version 1 of the protocol, for tests/lint/protocol.py. A line is never changed.\n')
            f.writelines(f'{name}: {what}\n' for name, what in sorted({**found, **recorded}.items()))
        return
    for name, what in recorded.items():
        owner, number = name.rpartition('.')[0], int(what.rsplit(' ', 1)[1])
        if name not in found and number not in reserved.get(owner, ()):
            report.bad(PROTO, 1, f'{name} is gone: say `reserved {number};` in {owner}, or leave it')
        elif name in found and found[name] != what:
            report.bad(PROTO, 1, f'{name} was "{what}" and is "{found[name]}": old clients send it as it was')
    taken = {(name.rpartition('.')[0], what.rsplit(' ', 1)[1]): name for name, what in recorded.items()}
    for name, what in found.items():
        owner, number = name.rpartition('.')[0], what.rsplit(' ', 1)[1]
        if name not in recorded and (owner, number) in taken:
            report.bad(PROTO, 1, f'{name} has the number of {taken[owner, number]}')
        elif name not in recorded:
            report.bad(PROTO, 1, f'{name} is not recorded: python3 tests/lint/protocol.py . --record')
    report.finish(len(found))


main()
