#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tap.py PROGRAM [ARGUMENT...]: runs a cmocka program and passes on its results as TAP.

cmocka can write TAP itself, but for a test that called skip() it writes "not ok", which readers of
TAP take for a failure. Here that becomes "ok ... # SKIP" with the reason, which is the last line
beginning with "SKIP:" that the test has printed. A program that ends without having told why
(a signal, a sanitizer's report, an error in a group's setup, an early exit) bails out. Results are
numbered anew, as a program may run several groups, some of them in children.

Of a cross build, meson gives what runs its programs (MESON_EXE_WRAPPER).
"""
import os
import re
import shlex
import signal
import subprocess
import sys

PLAN = re.compile(r'1\.\.(\d+)$')
RESULT = re.compile(r'(?P<before>.*?)(?P<not>not )?ok \d+ (?P<kind>- |# SKIP )(?P<name>.+)$')


def say(line):
    print(line, flush=True)


def main(args):
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT='TAP')
    n_planned, n_seen, n_failed, reason = 0, 0, 0, ''
    wrapper = shlex.split(os.environ.get('MESON_EXE_WRAPPER', ''))
    with subprocess.Popen(wrapper + args, stdout=subprocess.PIPE, env=env) as program:
        for raw in program.stdout:
            line = raw.decode(errors='replace').rstrip('\n')
            plan, result = PLAN.match(line), RESULT.match(line)
            if plan:
                n_planned += int(plan[1])
            elif result and not line.startswith('#'):
                n_seen += 1
                if result['before']:  # of a test that printed without a newline
                    say('# ' + result['before'])
                if result['kind'] == '- ':
                    n_failed += bool(result['not'])
                    say(f'{result["not"] or ""}ok {n_seen} - {result["name"]}')
                else:
                    say(f'ok {n_seen} - {result["name"]} # SKIP {reason or "without a word"}')
                reason = ''
            else:
                if line.startswith('SKIP:'):
                    reason = line[5:].strip()
                say(line if line.startswith('#') else '# ' + line)
    code, name = program.returncode, os.path.basename(args[0])
    if code < 0:
        say(f'Bail out! {name} was ended by {signal.Signals(-code).name}')
    elif n_seen == 0 and code == 77:
        say(f'1..0 # SKIP {reason}')
        return 0
    elif code > 0 and n_failed == 0:
        say(f'Bail out! {name} ended with status {code}')
    elif n_seen < n_planned:
        say(f'Bail out! {name} ended after {n_seen} of {n_planned} tests')
        code = code or 1
    say(f'1..{n_seen}')
    return abs(code)


sys.exit(main(sys.argv[1:]))
