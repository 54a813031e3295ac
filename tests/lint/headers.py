#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""headers.py ROOT BUILD: every header compiles alone, and included twice.

The flags are those of a source file of the same folder, from compile_commands.json.
"""
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
import table

root, build = sys.argv[1:3]
report = table.Report()


def commands():
    """Folder below root: working folder, compiler and flags of one of its sources."""
    found = {}
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as f:
        entries = json.load(f)
    for entry in entries:
        source = os.path.realpath(os.path.join(entry['directory'], entry['file']))
        folder = os.path.dirname(os.path.relpath(source, os.path.realpath(root)))
        args = entry.get('arguments') or shlex.split(entry['command'])
        while os.path.basename(args[0]) in ('ccache', 'sccache'):
            args = args[1:]
        flags = [a for a in args[1:] if a.startswith(('-I', '-isystem', '-D', '-f', '-m', '-std', '-W', '-pthread'))
                 and not a.startswith('-fsanitize')]
        found.setdefault(folder, (entry['directory'], args[0], flags))
    return found


def flags_for(header, known):
    folder = os.path.dirname(header)
    while folder not in known and folder:
        folder = os.path.dirname(folder)
    if folder in known:
        return known[folder]
    inside = [f for f in sorted(known) if f.startswith(os.path.dirname(header))]
    return known[inside[0]] if inside else None


def compile_header(header, known):
    command = flags_for(header, known)
    if not command:
        return None  # a folder that this build leaves out
    cwd, compiler, flags = command
    path = os.path.join(os.path.realpath(root), header)
    args = [compiler, *flags, '-Werror', '-fsyntax-only', '-x', 'c', '-']
    result = subprocess.run(args, cwd=cwd, input=f'#include "{path}"\n#include "{path}"\n', text=True,
                            capture_output=True, check=False)
    return result.stderr if result.returncode else ''


known_commands = commands()
headers = table.files(root, ('.h',))
n_compiled = 0
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for path_, errors in zip(headers, pool.map(lambda h: compile_header(h, known_commands), headers)):
        if errors is None:
            print(f'{path_}: not part of this build')
            continue
        n_compiled += 1
        if errors:
            report.bad(path_, 1, f'does not compile alone:\n{errors}')
report.finish(n_compiled)
