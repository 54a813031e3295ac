#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""javascript.py ROOT: JavaScript files parse, as far as there is a node to ask."""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import table

root = sys.argv[1]
report = table.Report()
node = shutil.which('node')
if not node:
    table.skip('no node here: nobody looks whether JavaScript parses')
paths = table.files(root, ('.js',))
for path in paths:
    result = subprocess.run([node, '--check', os.path.join(root, path)], text=True, capture_output=True, check=False)
    if result.returncode:
        report.bad(path, 1, result.stderr.strip())
report.finish(len(paths))
