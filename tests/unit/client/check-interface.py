#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check-interface.py SOURCE_ROOT LIBCONFAB.so

What libconfab exports is what confab.h declares and libconfab.sym lists.
"""
import pathlib
import re
import subprocess
import sys

root, library = pathlib.Path(sys.argv[1]), sys.argv[2]
bad = []


def differ(what, a, b):
    for name in sorted(a ^ b):
        bad.append(f'{what}: {name}')


header = (root / 'client/confab.h').read_text()
declared = set(re.findall(r'CONFAB_PUBLIC[^;]*?\b(confab_\w+)\(', header))
sym = (root / 'client/libconfab.sym').read_text()
listed = set(re.findall(r'\b(confab_\w+);', sym))
nm = subprocess.run(['nm', '-D', '--defined-only', library], check=True, capture_output=True,
                    text=True).stdout
exported = {line.split()[-1].split('@')[0] for line in nm.splitlines() if ' A ' not in line}
differ('confab.h and libconfab.sym disagree', declared, listed)
differ('libconfab.sym and the library disagree', listed, exported)

print('\n'.join(bad) or 'header and symbols agree')
sys.exit(bool(bad))
