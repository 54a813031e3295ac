#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""summary.py [--final] RUN=TESTLOG.JSON...: counts the results of meson's test runs.

For one run: a line with the counts, after the end of each failed test's output and the names of
what was skipped. With --final, over all runs: the names of what failed, then the one line that
tools/check promises; the exit status says whether all is well.
"""
import json
import sys

PASSED = ('OK', 'EXPECTEDFAIL')
SKIPPED = ('SKIP', 'IGNORED')
SHOWN = 40  # lines of a failed test


def load(run, path):
    with open(path, encoding='utf-8', errors='replace') as f:
        for line in f:
            if line.strip():
                yield run, json.loads(line)


def show_failure(run, test):
    print(f'--- {run}: {test["name"]}: {test["result"]}')
    text = (test.get('stdout') or '') + '\n' + (test.get('stderr') or '')
    lines = [s for s in text.splitlines() if s.strip() and '[ RUN ' not in s and '[       OK ' not in s]
    for line in lines[-SHOWN:]:
        print('    ' + line)


def main(args):
    final = args[:1] == ['--final']
    tests = [t for spec in args[final:] for t in load(*spec.split('=', 1))]
    passed = [t for t in tests if t[1]['result'] in PASSED]
    skipped = [t for t in tests if t[1]['result'] in SKIPPED]
    failed = [t for t in tests if t not in passed and t not in skipped]
    counts = f'{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped'
    if not final:
        for run, test in failed:
            show_failure(run, test)
        for run, test in skipped:
            print(f'skipped: {run}: {test["name"]}')
        print(f'{args[0].split("=")[0]}: {counts}')
        return 0
    for run, test in failed:
        print(f'failed: {run}: {test["name"]}')
    print(counts)
    return 0 if passed and not failed else 1


sys.exit(main(sys.argv[1:]))
