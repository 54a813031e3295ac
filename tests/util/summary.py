#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""summary.py [--final] RUN=TESTLOG.JSON...: counts the results of meson's test runs.

A program that writes TAP counts by its cases, any other as one. For one run: a line with the
counts, after the end of each failed test's output and the names and reasons of what was skipped; the exit status
says whether one failed.
With --final, over all runs: the names of what failed, then the one line that tools/check promises;
the exit status says whether all is well.
"""
import json
import re
import sys

PASSED = ('OK', 'EXPECTEDFAIL')
SKIPPED = ('SKIP', 'IGNORED')
SHOWN = 40  # lines of a failed test
CASE = re.compile(r'(not )?ok \d+ - (.*?)(?: # SKIP (.*))?$')


class Counts:
    def __init__(self):
        self.n_passed = 0
        self.failed = []  # names
        self.skipped = []  # names with reasons

    def add(self, run, test):
        name = f'{run}: {test["name"]}'
        cases = [m for m in map(CASE.match, (test.get('stdout') or '').splitlines()) if m]
        bad = [m[2] for m in cases if m[1]]
        skipped = [(m[2], m[3]) for m in cases if m[3] is not None]
        fine = test['result'] in PASSED + SKIPPED
        self.failed += [f'{name}: {case}' for case in bad]
        self.skipped += [f'{name}: {case}: {why}' for case, why in skipped]
        if not fine and not bad:
            self.failed.append(name)
        if cases:
            self.n_passed += len(cases) - len(bad) - len(skipped)
        elif test['result'] in SKIPPED:
            self.skipped.append(name)
        elif fine:
            self.n_passed += 1

    def __str__(self):
        return f'{self.n_passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped'


def load(run, path):
    with open(path, encoding='utf-8', errors='replace') as f:
        for line in f:
            if line.strip():
                yield run, json.loads(line)


def show_failure(run, test):
    print(f'--- {run}: {test["name"]}: {test["result"]}')
    text = (test.get('stdout') or '') + '\n' + (test.get('stderr') or '')
    lines = [s for s in text.splitlines() if s.strip() and not s.startswith('ok ')]
    for line in lines[-SHOWN:]:
        print('    ' + line)


def main(args):
    final = args[:1] == ['--final']
    counts = Counts()
    for spec in args[final:]:
        for run, test in load(*spec.split('=', 1)):
            counts.add(run, test)
            if not final and test['result'] not in PASSED + SKIPPED:
                show_failure(run, test)
    if final:
        for name in counts.failed:
            print(f'failed: {name}')
        print(counts)
        return 0 if counts.n_passed and not counts.failed else 1
    for name in counts.skipped:
        print(f'skipped: {name}')
    print(f'{args[0].split("=")[0]}: {counts}')
    return 1 if counts.failed else 0


sys.exit(main(sys.argv[1:]))
