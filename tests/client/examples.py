#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples.py MESON BUILD SOURCE CONFABD PYTHON COMPILER...: what is installed for programs, as they would use it.

The examples of libconfab are compiled by the line at the top of each file, with warnings as errors, and run on a
daemon. The Python package is imported from where it is installed (PYTHON: the interpreter; "-": there is no package).
"""
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile

meson, build, source, confabd, python = sys.argv[1:6]
compiler = sys.argv[6:]
MODEL = os.path.join(source, 'models/confab-small.q8_0.gguf')
TIMEOUT = 120
if not os.path.exists(MODEL):
    print(f'SKIP: no {MODEL}')
    sys.exit(77)


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


def run(*command, status=0, **how):
    done = subprocess.run(command, text=True, capture_output=True, timeout=TIMEOUT, check=False, **how)
    need(done.returncode == status, f'{command}: status {done.returncode}, not {status}:\n{done.stdout}{done.stderr}')
    return done.stdout, done.stderr


def find(folder, name):
    found = [os.path.join(here, name) for here, _, names in os.walk(folder) if name in names]
    need(len(found) == 1, f'{name} is installed {len(found)} times')
    return found[0]


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.root = os.path.join(folder, 'root')
        self.path = os.path.join(folder, 'socket')
        run(meson, 'install', '-C', build, '--no-rebuild', '--destdir', self.root)
        for name in ('confab.proto', 'protocol.md', 'one-shot.c'):
            find(self.root, name)
        pc = find(self.root, 'confab.pc')
        # pkg-config as if the folder were the machine's root: paths get it in front.
        self.env = {**os.environ, 'PKG_CONFIG_SYSROOT_DIR': self.root, 'PKG_CONFIG_PATH': os.path.dirname(pc),
                    'LD_LIBRARY_PATH': os.path.dirname(os.path.dirname(pc))}

    def compile(self, name):
        shutil.copy(find(self.root, name + '.c'), self.folder)
        with open(os.path.join(self.folder, name + '.c'), encoding='utf-8') as f:
            line = re.search(r'^ \*\s+cc (-o .*)$', f.read(), re.M)
        need(line and f' {name}.c ' in line[1], f'{name}.c does not say how it is compiled')
        strict = shlex.join([*compiler, '-Wall', '-Wextra', '-Wshadow', '-Wstrict-prototypes', '-Werror'])
        run('sh', '-c', f'{strict} {line[1]}', cwd=self.folder, env=self.env)

    def say(self, name, *args, status=0):
        return run(os.path.join(self.folder, name), self.path, *args, status=status, env=self.env)

    def check(self):
        for name in ('one-shot', 'event-loop', 'parallel-forks'):
            _, err = run(os.path.join(self.folder, name), status=2, env=self.env)
            need('usage:' in err, err)
        out, err = self.say('one-shot', 'What is the capital of France?')
        need('Paris' in out and 'tokens, stop' in err, f'one-shot: {out!r} {err!r}')
        out, _ = self.say('event-loop', 'What is the capital of France?', 'What is the capital of Italy?', 'Hello!')
        for n, words in ((1, 'Paris'), (2, 'Rome')):
            text = ''.join(re.findall(rf'^{n}: (.*)$', out, re.M))
            need(words in text, f'event-loop: {out}')
        need(sorted(re.findall(r'^(\d) ended: stop$', out, re.M)) == ['1', '2', '3'], f'event-loop: {out}')
        out, _ = self.say('parallel-forks', '4', 'What is the capital of France?')
        forks = re.findall(r'^fork (\d), seed \1, (\d+) of (\d+) prompt tokens computed: .', out, re.M)
        need(sorted(n for n, _, _ in forks) == ['1', '2', '3', '4'], f'parallel-forks: {out}')
        need(all(int(computed) < int(prompt) / 2 for _, computed, prompt in forks), f'memory is shared: {out}')


def check_python(case):
    """A program of one line, in the installed package."""
    if python == '-':
        print('there is no Python package in this build')
        return
    folder = os.path.dirname(os.path.dirname(find(case.root, 'confab_pb2.py')))
    if subprocess.run([python, '-c', 'import google.protobuf'], capture_output=True, check=False).returncode:
        print(f'not imported: {python} has no module google.protobuf (package python3-protobuf)')
        return
    program = 'import confab; print(confab.blocking.Client.connect().model_info().name)'
    out, _ = run(python, '-c', program,
                 env={**os.environ, 'PYTHONPATH': folder, 'PYTHONDONTWRITEBYTECODE': '1', 'CONFAB_SOCKET': case.path})
    need(out == 'confab-small\n', out)


def ready_daemon(case):
    path = os.path.join(case.folder, 'notify')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(TIMEOUT)
        daemon = subprocess.Popen(
            [confabd, '--model', MODEL, '--socket', case.path, '--state', os.path.join(case.folder, 'state'),
             '--pool-size', '64M'], stderr=subprocess.DEVNULL,
            env={**os.environ, 'NOTIFY_SOCKET': path, 'MEMORY_PRESSURE_WATCH': '/dev/null'})
        while b'READY=1' not in manager.recv(4096):
            pass
    return daemon


with tempfile.TemporaryDirectory(prefix='confab-examples-') as top:
    case = Case(top)
    for example in ('one-shot', 'event-loop', 'parallel-forks'):
        case.compile(example)
        _, why = case.say(example, *(['2', 'x'] if example == 'parallel-forks' else ['x']), status=1)
        need('no daemon listens' in why, why)
    process = ready_daemon(case)
    try:
        case.check()
        check_python(case)
    finally:
        process.terminate()
        need(process.wait(TIMEOUT) == 0, 'the daemon did not end well')
print('three examples are compiled as they say, and work')
