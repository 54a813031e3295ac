#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sizes.py ROOT: no file over 1500 lines and no function over 100, except with a reason.

The reason is a comment "lint: long because ..." in the file's first 60 lines, or in the function or
the five lines above it. Functions are found by the layout that clang-format gives them.
"""
import re
import sys

sys.dont_write_bytecode = True
import table

MAX_FILE = 1500
MAX_FUNCTION = 100
REASON = 'lint: long because '

root = sys.argv[1]
report = table.Report()


def functions(lines):
    """Index of the first and last line of each function."""
    first, inside, macro = None, False, False
    for i, line in enumerate(lines):
        if macro or line.startswith('#'):
            macro = line.endswith('\\')
            continue
        if inside:
            if line.startswith('}'):
                yield first, i
                inside, first = False, None
        elif re.match(r'[A-Za-z_]', line):
            first = i
        if not inside and first is not None and re.search(r'\)\s*\{$', line):
            inside = True


def check_file(path):
    lines = table.read(root, path).splitlines()
    if len(lines) > MAX_FILE and not any(REASON in s for s in lines[:60]):
        report.bad(path, len(lines), f'more than {MAX_FILE} lines')
    if not path.endswith(('.c', '.h')):
        return
    code = table.code_only('\n'.join(lines)).splitlines()
    for first, last in functions(code):
        n = last - first + 1
        if n > MAX_FUNCTION and not any(REASON in s for s in lines[max(0, first - 5):last]):
            report.bad(path, first + 1, f'a function of {n} lines, more than {MAX_FUNCTION}')


sources = table.files(root, ('.c', '.h', '.py'))
for source in sources:
    check_file(source)
report.finish(len(sources))
