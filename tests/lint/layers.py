#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""layers.py ROOT: the layer table, from the sources.

1. A module includes its own headers, and the public header of each module in its row.
2. External headers only where the table has them; other <headers> are those of libc.
3. Generated protobuf types: proto/, client/, and in daemon/ the files of methods and replies.
4. Unit, fuzz and fault tests of a module include what the module may, its private headers too.
5. Nobody includes a .c file.
6. A module's meson.build names no dependency outside of its row.
7. Inside a module with floors a file includes headers of its own floor and public ones of the floors
   below; each of its folders is one of its floors.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
import table

# Files of daemon/ that may name generated message types: methods and what they write.
METHOD_FILES = re.compile(r'^daemon/(method|reply|wire)[\w-]*\.[ch]$')
PROTO_TYPE = re.compile(r'\b(Confab__|CONFAB__|confab__)\w+')
TEST_OF = re.compile(r'^tests/(unit|fuzz|fault)/(\w+)/')

root = sys.argv[1]
report = table.Report()


def check_module_include(path, line, mod, target, header, private_ok):
    if target == mod:
        if not private_ok and mod != 'base' and header not in table.PUBLIC.get(mod, [mod + '.h']):
            report.bad(path, line, f'{target}/{header} is private to {target}')
        return
    if target not in table.MAY_USE[mod]:
        report.bad(path, line, f'{mod} may not use {target}')
    elif target != 'base' and header not in table.PUBLIC.get(target, [target + '.h']):
        report.bad(path, line, f'{target}/{header} is private to {target}')


def check_floor_include(path, line, target, header):
    """@header of the module @target, included by a file of that module."""
    folder = f'lib/{target}'
    other = table.floor_of(f'{folder}/{header}')
    if folder not in table.FLOORS or not other:
        return
    floors, own = table.FLOORS[folder], table.floor_of(path)
    if not own:
        report.bad(path, line, f'{header} is of a floor of {folder}: nothing below the floors includes it')
    elif own[1] in floors and other[1] in floors and own[1] != other[1]:
        if floors.index(other[1]) > floors.index(own[1]):
            report.bad(path, line, f'the floor {own[1]} may not use {other[1]}, which is above')
        elif header != f'{other[1]}/{other[1]}.h':
            report.bad(path, line, f'{header} is private to the floor {other[1]}')


def check_system_include(path, line, mod, header):
    for pattern, name, allowed in table.EXTERNAL:
        if re.match(pattern, header):
            kept_to = table.KEPT_TO.get((mod, name))
            if mod not in allowed or (kept_to and not path.startswith(kept_to)):
                report.bad(path, line, f'{mod} may not use {name} (<{header}>)')
            return
    if not table.SYSTEM.match(header):
        report.bad(path, line, f'<{header}> is no header of libc: add it to tests/lint/table.py')


def check_file(path):
    text = table.read(root, path)
    test = TEST_OF.match(path)
    mod = table.module_of(path) or (test and test[2] in table.MAY_USE and test[2]) or None
    floor = table.floor_of(path)
    if floor and not floor[1]:
        report.bad(path, 1, f'is in no floor of {floor[0]}: add its folder to tests/lint/table.py')
    for n, line in enumerate(text.splitlines(), 1):
        m = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if not m:
            continue
        if m[2].endswith('.c'):
            report.bad(path, n, 'a .c file is included')
        if mod is None:
            continue
        parts = m[2].split('/')
        if m[1] == '<' and not test:
            check_system_include(path, n, mod, m[2])
        elif m[1] == '"' and len(parts) > 1 and parts[0] in table.MAY_USE:
            check_module_include(path, n, mod, parts[0], '/'.join(parts[1:]), True)
            if parts[0] == mod and not test:
                check_floor_include(path, n, mod, '/'.join(parts[1:]))
    if path.startswith('daemon/') and not METHOD_FILES.match(path):
        for n, line in enumerate(table.code_only(text).splitlines(), 1):
            m = PROTO_TYPE.search(line)
            if m:
                report.bad(path, n, f'{m[0]}: protobuf types belong into the method files')


def check_build(mod, path):
    text = re.sub(r'#.*', '', table.read(root, path))
    for n, line in enumerate(text.splitlines(), 1):
        for used in re.findall(r'\bdep_(\w+)', line):
            if used in table.MAY_USE and used != mod and used not in table.MAY_USE[mod]:
                report.bad(path, n, f'{mod} may not depend on {used}')


sources = table.files(root)
for source in sources:
    check_file(source)
for module in table.MAY_USE:
    for build in (f'lib/{module}/meson.build', f'{module}/meson.build'):
        if os.path.exists(os.path.join(root, build)):
            check_build(module, build)
report.finish(len(sources))
