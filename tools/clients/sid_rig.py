# SPDX-License-Identifier: MIT
"""Clients of Debian sid, in the root file system that tools/check-clients --peer-root names.

  sid_rig.need('llm')                      # skips the whole part without such a file system, or without the package
  sid_rig.run(['llm', '--version'], folder).stdout
  with sid_rig.Pipe(['python3', ...]) as pipe:
      pipe.ask({'a': 1})                   # a line of JSON to a program that answers with one

Commands run with namespaces of their own (unshare, as root), so that no mount and no process stays behind. They see
one folder of ours, as /mnt, and can write nothing else: agents run what a model wrote.
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess

import harness

HERE = pathlib.Path(__file__).resolve().parent / 'sid'
ROOT = os.environ.get('CONFAB_PEER_ROOT', '')


def why_not(package, program=None):
    """Why the package cannot be used, or the program that it only recommends; or None."""
    if not ROOT:
        return 'no --peer-root'
    if not pathlib.Path(ROOT, 'var/lib/dpkg/info', f'{package}.list').exists():
        return f'no {package} in {ROOT}'
    if program and not os.path.lexists(f'{ROOT}/usr/bin/{program}'):
        return f'no {program} in {ROOT}'
    if os.getuid() or not shutil.which('unshare'):
        return 'it takes root and unshare'
    return None


def need(package, program=None):
    why = why_not(package, program)
    if why:
        harness.skip('all of it', why)
        harness.finish()


def command(words, folder):
    """What starts the command there; `folder` is its /mnt."""
    argv = ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--propagation', 'private', HERE / 'enter.sh', ROOT,
            folder, *words]
    return [str(word) for word in argv]


def run(words, folder, text='', limit=600):
    """Runs a command that has to succeed; `text` is its input. Returns its `stdout` and `stderr`."""
    done = subprocess.run(command(words, folder), input=text, capture_output=True, text=True, check=False,
                          timeout=limit)
    if done.returncode:
        said = f'{done.stdout[-2000:]}\n{done.stderr[-2000:]}'
        raise RuntimeError(f'{" ".join(map(str, words))}: status {done.returncode}\n{said}')
    return done


class Pipe:
    """A program that answers each line of JSON with one."""

    def __init__(self, words, folder):
        self.argv = command(words, folder)
        self.log = harness.WORK / 'pipe.log'
        self.process = None

    def __enter__(self):
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(self.argv, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log)
        return self

    def __exit__(self, *what):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        if what[0]:
            self.process.kill()
        status = self.process.wait(harness.LIMIT)
        if status and not what[0]:
            raise RuntimeError(f'{self.argv[-3:]}: status {status}')

    def ask(self, question):
        line = ''
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(question) + '\n')
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            status = self.process.wait(harness.LIMIT)
            said = self.log.read_text(errors='replace')[-2000:]
            raise RuntimeError(f'the program has ended with status {status}: {said}')
        return json.loads(line)
