#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""format.py ROOT: clang-format 14 would change nothing."""
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import table

root = sys.argv[1]
tool = shutil.which('clang-format-14') or shutil.which('clang-format')
if not tool:
    table.skip('no clang-format')
version = subprocess.run([tool, '--version'], capture_output=True, text=True, check=True).stdout
if not re.search(r'version 14\.', version):
    table.skip(f'{version.strip()} formats differently from version 14')
sources = table.files(root)
result = subprocess.run([tool, '--dry-run', '-Werror', *sources], cwd=root, text=True, capture_output=True,
                        check=False)
print(result.stderr)
print(len(sources), 'files checked')
sys.exit(1 if result.returncode or not sources else 0)
