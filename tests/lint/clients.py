#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""clients.py ROOT: what the Node client and tools/check-clients say twice is the same in both places; no npm is needed.

- tools/clients/versions.json has an entry for each part, and exact versions only.
- client/node/index.d.ts has every message, field and enum value of the protocol, and client/node/lib/client.js and
  verbs.js every verb.
"""
import json
import os
import pathlib
import re
import sys

sys.dont_write_bytecode = True
import table

root = sys.argv[1]
report = table.Report()
VERSIONS = 'tools/clients/versions.json'
PARTS = 'tools/clients/parts'
TYPES = 'client/node/index.d.ts'

# Messages that have no type of their own there: frames, and lists, which are arrays.
NOT_TYPES = {'Hello', 'Ref', 'Request', 'Event', 'Error', 'Chunk', 'Empty', 'Tags', 'Tokens', 'ToolResults', 'Messages',
             'ModelInfo', 'Settings', 'Backup', 'Close', 'Warm', 'Evict', 'Cancel'}
# What the client fills in itself: the first argument of a verb, and how files travel.
FILLED_IN = {'conversation', 'inStream', 'text'}


def camel(name):
    return re.sub(r'_(\w)', lambda match: match[1].upper(), name)


def without_comments(text):
    return re.sub(r'//[^\n]*|/\*.*?\*/', '', text, flags=re.S)


def check_versions():
    parts = sorted(path.name for path in pathlib.Path(root, PARTS).iterdir())
    versions = json.loads(table.read(root, VERSIONS))
    for name in sorted(set(parts) ^ set(versions)):
        report.bad(VERSIONS, 1, f"'{name}' is not in both this file and {PARTS}")
    for name in parts:
        if not os.access(os.path.join(root, PARTS, name), os.X_OK):
            report.bad(f'{PARTS}/{name}', 1, 'is not executable')
    for part, packages in versions.items():
        for package, version in packages.items():
            if not re.fullmatch(r'\d+\.\d+\.\d+(-[\w.]+)?', version):
                report.bad(VERSIONS, 1, f"{part}: '{version}' of {package} is not one version")


def blocks(text, opening):
    """Names and insides of blocks; blocks within them (oneof) are flattened."""
    for match in re.finditer(opening + r'\s+(\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}', text):
        yield match[1], match[2]


def check_message(name, fields, interfaces):
    request = f'{name}Fields' in interfaces
    have = interfaces.get(f'{name}Fields' if request else name)
    if have is None:
        report.bad(TYPES, 1, f'no interface of {name}')
        return
    for field in fields:
        # Find.conversation is not its first argument.
        if not re.search(rf'^\s*{field}\??:', have, re.M) and not (request and field in FILLED_IN and name != 'Find'):
            report.bad(TYPES, 1, f"{name} has no '{field}'")


def check_types(proto):
    text = table.read(root, TYPES)
    interfaces = {}
    for match in re.finditer(r'export interface (\w+)(?:<[^{]*>)?(?: extends (\w+))? \{(.*?)^\}', text, re.M | re.S):
        interfaces[match[1]] = match[3] + interfaces.get(match[2], '')
    for name, inside in blocks(proto, 'message'):
        if name not in NOT_TYPES:
            check_message(name, [camel(field) for field in re.findall(r'(\w+)\s*=\s*\d+', inside)], interfaces)
    for name, inside in blocks(proto, 'enum'):
        values = re.findall(r'(\w+)\s*=\s*\d+', inside)
        prefix = values[0].removesuffix('UNSPECIFIED')
        union = re.search(rf'export type {name} =(.*?);', text, re.S)
        for value in values:
            if not union or f"'{value.removeprefix(prefix).lower()}'" not in union[1]:
                report.bad(TYPES, 1, f'{name} has no {value}')


def check_verbs(proto):
    request = next(inside for name, inside in blocks(proto, 'message') if name == 'Request')
    for verb in [camel(name) for name in re.findall(r'\w+ (\w+) = \d+', request.partition('oneof')[2])]:
        if verb in ('hello', 'chunk'):
            continue
        for path, pattern in ((TYPES, rf'^  {verb}\('), ('client/node/lib/client.js', rf'^  (async )?{verb}\('),
                              ('client/node/lib/verbs.js', rf'^  {verb}:')):
            if not re.search(pattern, table.read(root, path), re.M):
                report.bad(path, 1, f"no verb '{verb}'")


check_versions()
protocol = without_comments(table.read(root, 'proto/confab.proto'))
check_types(protocol)
check_verbs(protocol)
report.finish(5)
