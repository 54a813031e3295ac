#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts.py ROOT: shell and Python programs parse; those that start with #! may be executed."""
import ast
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import table

root = sys.argv[1]
report = table.Report()
n_checked = 0
for path in table.files(root, ('.py', '.sh', '')):
    full = os.path.join(root, path)
    try:
        text = table.read(root, path)
    except UnicodeDecodeError:
        continue
    first = text.split('\n')[0]
    if not first.startswith('#!') and not path.endswith(('.py', '.sh')):
        continue
    n_checked += 1
    if first.startswith('#!') and not os.access(full, os.X_OK):
        report.bad(path, 1, 'starts with #! but is not executable')
    if path.endswith('.py') or 'python' in first:
        try:
            ast.parse(text, path)
        except SyntaxError as e:
            report.bad(path, e.lineno, e.msg)
    else:
        shell = 'bash' if 'bash' in first or not first.startswith('#!') else 'sh'
        result = subprocess.run([shell, '-n', full], text=True, capture_output=True, check=False)
        if result.returncode:
            report.bad(path, 1, result.stderr.strip())
report.finish(n_checked)
