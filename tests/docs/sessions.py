#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sessions.py SOURCE BUILD PAGE: what a page shows as a session in a shell happens so.

A session is a block of the language "console": "$ " begins a command, "> " a further line of it, and the other lines are what it prints,
on standard output or standard error. All sessions of a page are one shell, with a daemon and a gateway of its own where a user's own are
found, on the bundled model, whose file is $MODEL. … stands for any words of a line, a line … for any lines.
"""
import os
import re
import subprocess
import sys
import tempfile

source, build = map(os.path.abspath, sys.argv[1:3])
page = sys.argv[3]
LONG = 120  # seconds that nothing should take
MARK = 'confab-session-ends'
MODEL = f'{source}/models/confab-small.q8_0.gguf'


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {page}: {words}')


def read_sessions(text):
    """[line, command, lines that it prints] of all sessions."""
    found, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith('```'):
            inside = line == '```console'
            fresh = False
        elif inside and line.startswith('$ '):
            found.append([number, line[2:], []])
            fresh = True
        elif inside and fresh and line.startswith('> '):
            found[-1][1] += '\n' + line[2:]
        elif inside:
            need(found, f'line {number}: output before the first command')
            fresh = False
            found[-1][2].append(line)
    return found


def pattern(lines):
    """A regular expression for what is to be printed."""
    parts = []
    for line in lines:
        if line.strip() == '…':
            parts.append(r'(?:.*\n)*?')
        else:
            parts.append('.*'.join(re.escape(word) for word in line.rstrip().split('…')) + r'[ ]*\n')
    return ''.join(parts)


class Shell:
    """One bash for all commands; standard input of each is empty."""

    def __init__(self, folder, env):
        self.process = subprocess.Popen(['bash', '--norc', '--noprofile'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, cwd=folder, env=env)

    def run(self, command):
        """What it prints. $? stays what it was for the next one."""
        self.process.stdin.write(f'(exit ${{status:-0}})\n{{ {command}\n}} </dev/null\nstatus=$?\nprintf \'\\n%s\\n\' {MARK}\n')
        self.process.stdin.flush()
        text = ''
        while not text.endswith(f'\n{MARK}\n'):
            line = self.process.stdout.readline()
            need(line, f'the shell ended at: {command}\n{text}')
            text += line
        text = text.removesuffix(f'\n{MARK}\n')
        return text if not text or text.endswith('\n') else text + '\n'

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start(command, answers, folder):
    """A daemon that is there when the command answers does not fail."""
    with open(f'{folder}/log', 'ab') as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    # The one that answers waits until it is there, or has ended.
    while process.poll() is None:
        if subprocess.run(answers, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return process
    with open(f'{folder}/log', encoding='utf-8') as f:
        sys.exit(f'FAILED: {command[0]} did not start:\n{f.read()}')


def play(sessions, folder):
    run = f'{folder}/run/confab'
    os.makedirs(run, 0o700)
    env = {'PATH': f'{build}/client:{build}/client/gateway:{build}/daemon:{build}/tools:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': f'{folder}/home', 'LANG': 'C.UTF-8', 'MODEL': MODEL,
           'XDG_RUNTIME_DIR': f'{folder}/run', 'PYTHONPATH': f'{build}/client/python', 'PYTHONDONTWRITEBYTECODE': '1'}
    os.mkdir(env['HOME'])
    group = subprocess.run(['id', '-gn'], capture_output=True, text=True, check=True).stdout.strip()
    daemons, shell = [], None
    try:
        # Nothing is written behind, so that what ls and tree print does not depend on the time.
        daemons.append(start([f'{build}/daemon/confabd', '--model', MODEL, '--socket', f'{run}/confab.sock', '--state', f'{folder}/state',
                              '--spill-delay', 'never', '--admin-group', group],
                             [f'{build}/client/confab', '--socket', f'{run}/confab.sock', 'model'], folder))
        daemons.append(start([f'{build}/client/gateway/confab-gateway', '--listen', f'{run}/gateway.sock', '--daemon', f'{run}/confab.sock'],
                             ['curl', '-sf', '--unix-socket', f'{run}/gateway.sock', 'http://localhost/health'], folder))
        shell = Shell(env['HOME'], env)
        for number, command, lines in sessions:
            printed = shell.run(command)
            need(re.fullmatch(pattern(lines), printed),
                 f'line {number}: $ {command}\nprints:\n{printed}\nand not:\n' + '\n'.join(lines))
    finally:
        if shell:
            shell.close()
        for process in reversed(daemons):
            process.terminate()
            process.wait(LONG)


def main():
    with open(f'{source}/{page}', encoding='utf-8') as f:
        sessions = read_sessions(f.read())
    need(sessions, 'there is no session in it')
    with tempfile.TemporaryDirectory(prefix='confab-docs-') as folder:
        play(sessions, folder)
    print(f'{page}: {len(sessions)} commands do as it says')


main()
