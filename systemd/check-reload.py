#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check-reload.py UNIT: a reload first tests the settings that the daemon was started with.

systemd runs the commands of ExecReload= in turn, and the reload fails with the first that does.
"""
import sys

with open(sys.argv[1], encoding='utf-8') as f:
    lines = [line.strip().partition('=') for line in f if not line.startswith('#')]
start = [value for name, _, value in lines if name == 'ExecStart']
reloads = [value for name, _, value in lines if name == 'ExecReload']
if len(start) != 1 or reloads[:1] != [start[0] + ' --check-settings'] or not reloads[1:] or 'HUP' not in reloads[1]:
    print(f'ExecStart={start}, ExecReload={reloads}')
    sys.exit(1)
