#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""circles.py ROOT BUILD: files that need each other in a circle, and floors that call upward, from the
built objects.

A file needs another one if its object has an undefined symbol that the other's defines, so calls,
tables of functions and shared variables all count. Files that can be reached from each other make a
circle; ROOMS says how many files the largest circle of a folder may have (1: there is none). In a
module with floors (table.py) each floor is such a room without a circle, and no file needs a file of a
floor above its own. On a ladder (table.py, too) each file is a floor.
"""
import collections
import glob
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import table

root, build = sys.argv[1:3]

# Two kinds of calls may stand in each other; a state of a grammar makes masks, and masks step it.
ROOMS = {'daemon': 1, 'lib/chat': 2, 'lib/grammar': 2, 'lib/model': 1}
for folder, floors in table.FLOORS.items():
    if os.path.isdir(os.path.join(root, folder)):
        ROOMS.update((f'{folder}/{floor}', 1) for floor in floors)

report = table.Report()


def objects():
    """Source below root: its objects (one for each target and instruction set)."""
    found = collections.defaultdict(list)
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as f:
        entries = json.load(f)
    for entry in entries:
        source = os.path.realpath(os.path.join(entry['directory'], entry['file']))
        if 'output' in entry:
            found[os.path.relpath(source, os.path.realpath(root))].append(
                os.path.join(entry['directory'], entry['output']))
    return found


def symbols(path):
    """Names that an object defines for others, and names that it needs."""
    out = subprocess.run(['nm', '-P', path], text=True, capture_output=True, check=True).stdout
    defines, needs = set(), set()
    for line in out.splitlines():
        name, kind = line.split()[:2]
        if kind in 'Uw':
            needs.add(name)
        elif kind.isupper():
            defines.add(name)
    return defines, needs


def graph(sources):
    """Each source: the sources that it needs, and one name as the reason."""
    defined_by, needs = {}, {}
    for source, paths in sources.items():
        needs[source] = set()
        for path in paths:
            d, n = symbols(path)
            needs[source] |= n
            defined_by.update((name, source) for name in d)
    return {source: {defined_by[name]: name for name in sorted(names)
                     if defined_by.get(name, source) != source} for source, names in needs.items()}


def reachable(edges, start):
    seen, todo = set(), [start]
    while todo:
        for after in edges[todo.pop()]:
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return seen


def circles(edges):
    """Sets of files that all reach each other, two or more."""
    reach = {node: reachable(edges, node) for node in edges}
    found = {frozenset([a] + [b for b in reach[a] if a in reach[b]]) for a in edges if a in reach[a]}
    return sorted(sorted(c) for c in found)


def built_of(sources):
    """Sources with those of their objects that are there."""
    built = {s: [p for p in o if os.path.exists(p)] for s, o in sources.items()}
    for source in sorted(s for s in built if not built[s]):
        report.bad(source, 1, 'has no object: build first')
    return built


def check_room(folder, allowed, known):
    sources = {s: o for s, o in known.items() if s.startswith(folder + '/')}
    edges = graph(built_of(sources))
    for circle in circles(edges):
        if len(circle) > allowed:
            names = ', '.join(f'{os.path.basename(a)} needs {name} of {os.path.basename(b)}'
                              for a in circle for b, name in sorted(edges[a].items()) if b in circle)
            report.bad(circle[0], 1, f'{len(circle)} files in a circle, {allowed} may be: {names}')
    return len(sources)


def check_floors(folder, floors, known):
    built = {s: [p for p in o if os.path.exists(p)] for s, o in known.items()
             if s.startswith(folder + '/') and table.floor_of(s)}
    height = {s: floors.index(table.floor_of(s)[1]) for s in built if table.floor_of(s)[1] in floors}
    for source, needs in graph(built).items():
        for other, name in sorted(needs.items()):
            if source in height and other in height and height[other] > height[source]:
                report.bad(source, 1, f'needs {name} of {other}, a floor above')


def check_ladder(prefix, names, known):
    height = {f'{prefix}{name}.c': i for i, name in enumerate(names)}
    there = {os.path.relpath(p, root) for p in glob.glob(glob.escape(os.path.join(root, prefix)) + '*.c')}
    for source in sorted(there - set(height)):
        report.bad(source, 1, 'has no place on its ladder')
    for source in sorted(set(height) - there):
        report.bad(source, 1, 'is on a ladder, but not there')
    for source, needs in graph(built_of({s: known.get(s, []) for s in there & set(height)})).items():
        for other, name in sorted(needs.items()):
            if height[other] > height[source]:
                report.bad(source, 1, f'needs {name} of {other}, which is above it on the ladder')
    return len(there)


known_objects = objects()
n_files = sum(check_room(f, n, known_objects) for f, n in ROOMS.items())
for module, its_floors in table.FLOORS.items():
    check_floors(module, its_floors, known_objects)
n_files += sum(check_ladder(p, n, known_objects) for p, n in table.LADDERS.items()
               if os.path.isdir(os.path.join(root, os.path.dirname(p))))
report.finish(n_files)
