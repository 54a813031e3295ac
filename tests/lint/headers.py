#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""headers.py ROOT BUILD: every header compiles alone, and included twice.

The flags are those of the source files of the same folder, from compile_commands.json; one of them
has to do.
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
    """Folder below root: the (working folder, compiler, flags) that its sources are compiled with."""
    found = {}
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as f:
        entries = json.load(f)
    for entry in entries:
        source = os.path.realpath(os.path.join(entry['directory'], entry['file']))
        folder = os.path.dirname(os.path.relpath(source, os.path.realpath(root)))
        args = entry.get('arguments') or shlex.split(entry['command'])
        while os.path.basename(args[0]) in ('ccache', 'sccache'):
            args = args[1:]
        flags = tuple(a for a in args[1:]
                      if a.startswith(('-I', '-isystem', '-D', '-f', '-m', '-std', '-W', '-pthread'))
                      and not a.startswith(('-fsanitize', '-fdiagnostics-color')))
        found.setdefault(folder, {})[(entry['directory'], args[0], flags)] = True
    return {folder: list(ways) for folder, ways in found.items()}


def ways_for(header, known):
    folder = os.path.dirname(header)
    # sources of another architecture
    if folder not in known and any(f.endswith('.c') for f in os.listdir(os.path.join(root, folder))):
        return []
    while folder not in known and folder:
        folder = os.path.dirname(folder)
    if folder in known:
        return known[folder]
    inside = [f for f in sorted(known) if f.startswith(os.path.dirname(header))]
    return known[inside[0]] if inside else []


def compile_header(header, known):
    """What is wrong, '' if nothing; None for a header of a folder that this build leaves out."""
    path, errors = os.path.join(os.path.realpath(root), header), None
    # several ways: the sources of one folder may be for different instruction sets
    for cwd, compiler, flags in ways_for(header, known):
        args = [compiler, *flags, '-Werror', '-fsyntax-only', '-x', 'c', '-']
        result = subprocess.run(args, cwd=cwd, input=f'#include "{path}"\n#include "{path}"\n', text=True,
                                capture_output=True, check=False)
        if result.returncode == 0:
            return ''
        errors = errors or result.stderr
    return errors


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
