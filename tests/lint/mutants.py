#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutants.py ROOT BUILD: each mutant of tests/mutants still fits the code, and its suites exist."""
import json
import os
import pathlib
import sys

sys.dont_write_bytecode = True
import table

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../util'))
import mutant

root, build = sys.argv[1:3]
report = table.Report()
tests = pathlib.Path(build, 'meson-info/intro-tests.json')
names = {test['name'] for test in json.loads(tests.read_text(encoding='utf-8'))} if tests.exists() else None
mutants, broken = mutant.load(root)
for path, what in broken:
    report.bad(path, 1, what)
for m in mutants:
    try:
        m.plant(root)
    except mutant.Broken as e:
        report.bad(m.path, 1, str(e))
    for suite in m.suites:
        if names is not None and suite not in names:
            report.bad(m.path, 1, f'there is no test {suite}')
report.finish(len(mutants) + len(broken))
