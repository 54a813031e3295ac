#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""with-postgres.py PROGRAM...: runs cmocka programs, one after another, beside one PostgreSQL server, as one test.
with-postgres.py -- PROGRAM ARGUMENT...: runs any one program beside it, whose exit status is the result.

They find the server by CONFAB_TEST_POSTGRESQL, for libpq; each makes schemas of its own. Their results are one stream
of TAP, in which test-store-conv's test_x is "conv: test_x". tap.py runs each, so what it says there of a program that
died, or ended without having told why, is a failed test here.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import postgres

TAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tap.py')
RESULT = re.compile(r'(?P<not>not )?ok \d+ - (?P<name>.*)$')
# What a test says that has nothing to do with a server: it is no test here, and so not one that was skipped.
OF_FILE = 'of a file'
PLAN = re.compile(r'1\.\.\d+( # SKIP (?P<reason>.*))?$')


def say(line):
    print(line, flush=True)


class Stream:
    def __init__(self):
        self.n_seen, self.n_failed = 0, 0

    def result(self, ok, name):
        self.n_seen += 1
        self.n_failed += not ok
        say(f'{"" if ok else "not "}ok {self.n_seen} - {name}')

    def run(self, program, env):
        label = os.path.basename(program).removeprefix('test-store-')
        n_failed = self.n_failed
        with subprocess.Popen([sys.executable, TAP, program], stdout=subprocess.PIPE, env=env) as process:
            for raw in process.stdout:
                line = raw.decode(errors='replace').rstrip('\n')
                result, plan = RESULT.match(line), PLAN.match(line)
                if result and result['name'].endswith(f'# SKIP {OF_FILE}'):
                    say(f'# {label}: {result["name"]}')
                elif result:
                    self.result(not result['not'], f'{label}: {result["name"]}')
                elif plan and plan['reason'] is not None:
                    self.result(True, f'{label} # SKIP {plan["reason"]}')
                elif line.startswith('Bail out! '):
                    self.result(False, f'{label}: {line.removeprefix("Bail out! ")}')
                elif not plan:
                    say(line if line.startswith('#') else '# ' + line)
        if process.returncode and self.n_failed == n_failed:
            self.result(False, f'{label}: ended with status {process.returncode}')


def run_one(command):
    if not postgres.find():
        say('SKIP: PostgreSQL is not installed')
        return 77
    with postgres.Postgres() as server:
        return subprocess.run(command, env=dict(os.environ, CONFAB_TEST_POSTGRESQL=server.uri()), check=False).returncode


def main(programs):
    if programs[:1] == ['--']:
        return run_one(programs[1:])
    if not postgres.find():
        say('1..0 # SKIP PostgreSQL is not installed')
        return 0
    stream = Stream()
    try:
        with postgres.Postgres() as server:
            for program in programs:
                stream.run(program, dict(os.environ, CONFAB_TEST_POSTGRESQL=server.uri()))
    except postgres.PostgresError as e:
        sys.stderr.write(f'{e}\n')
        say('Bail out! the PostgreSQL server failed')
        return 1
    say(f'1..{stream.n_seen}')
    return 1 if stream.n_failed else 0


sys.exit(main(sys.argv[1:]))
