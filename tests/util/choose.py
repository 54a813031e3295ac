#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""choose.py tests|targets BUILD PATTERN: which tests a run of tools/check has, or what must be built for them.

PATTERN is a regular expression that all of 'SUITE NAME' matches, such as 'unit kern/pool'.
"""
import json
import os
import re
import subprocess
import sys

kind, build, pattern = sys.argv[1:]


def introspect(what):
    out = subprocess.run(['meson', 'introspect', f'--{what}', build], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)


chosen = [test for test in introspect('tests')
          if any(re.fullmatch(pattern, f'{suite.split(":")[-1]} {test["name"]}') for suite in test['suite'])]
if not chosen:
    sys.exit(f'no test matches {pattern}')
if kind == 'tests':
    # Once each: meson runs a test as often as it is named, and gives up when it has run one twice.
    print('\n'.join(dict.fromkeys(test['name'] for test in chosen)))
else:
    needed = {target for test in chosen for target in test['depends']}
    print('\n'.join(os.path.relpath(name, os.path.realpath(build))
                    for target in introspect('targets') if target['id'] in needed
                    for name in target['filename']))
