#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check-interface.py SOURCE_ROOT LIBCONFAB.so CONFAB

What libconfab exports is what confab.h declares and libconfab.sym lists, and
the man page knows every verb and every option that --help does.
"""
import pathlib
import re
import subprocess
import sys

root, library, program = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
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


def options_of(*args):
    text = subprocess.run([program, *args, '--help'], check=True, capture_output=True,
                          text=True).stdout
    return text, set(re.findall(r'^  (?:-[a-zA-Z], |    )(--[a-z-]+)', text, re.M))


page = (root / 'docs/confab.1').read_text().replace('\\-', '-').replace('\\(aq', "'")
text, options = options_of()
verbs = re.findall(r'^  ([a-z]+)', text.split('Options of every command')[0], re.M)
if len(verbs) < 15:
    bad.append('--help lists too few verbs')
for verb in verbs:
    if not re.search(rf'^\.B {verb}\b', page, re.M):
        bad.append(f'confab.1 lacks the verb {verb}')
    options |= options_of(verb)[1]
for option in sorted(options):
    if option not in page:
        bad.append(f'confab.1 lacks {option}')
for option in sorted(set(re.findall(r'--[a-z][a-z-]+', page)) - options):
    bad.append(f'confab.1 has {option}, which does not exist')

print('\n'.join(bad) or 'header, symbols and man page agree')
sys.exit(bool(bad))
