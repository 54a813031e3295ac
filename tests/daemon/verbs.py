#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""verbs.py CONFABD CONFAB SOURCE: conversations are named, described, chosen, read, watched and closed, all with the command
and a real daemon."""
import json
import os
import pty
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from acp_rig import DEADLINE, Daemon, need

confabd, confab, source = sys.argv[1:4]
MODEL = os.path.join(source, 'models/confab-small.q8_0.gguf')
if not os.path.exists(MODEL):
    print(f'SKIP: no {MODEL}')
    sys.exit(77)


class Lines:
    """A program that goes on, and the lines that it prints. A thread reads them, so none waits for the test."""

    def __init__(self, daemon, *args):
        self.process = subprocess.Popen([confab, '--socket', daemon.socket, *args], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines, self.more = [], threading.Condition()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            with self.more:
                self.lines.append(line)
                self.more.notify()

    def wait(self, what, fits):
        """Until a line fits; it and those before it are forgotten."""
        with self.more:
            found = self.more.wait_for(lambda: any(map(fits, self.lines)), DEADLINE)
            need(found, f'{what}: {self.lines[-5:]}')
            at = next(i for i, line in enumerate(self.lines) if fits(line))
            line, self.lines = self.lines[at], self.lines[at + 1:]
        return line

    def end(self):
        self.process.terminate()
        self.process.wait(DEADLINE)
        self.thread.join(DEADLINE)


def names(daemon, *args):
    return daemon.run('ls', '--names', *args).split()


def check_set(daemon):
    daemon.run('open', 'rome', '--system', 'You are kind.')
    daemon.run('set', 'rome', "title=A trip to 'Rome'", '+italy', '+work', 'temperature=0.3', 'seed=18446744073709551615',
               'logit-bias=42=-1.5', 'logit-bias=43=-inf', 'expires=2w', 'metadata={"a": 1}')
    daemon.run('open', 'copy')
    said = daemon.run('set', 'rome').splitlines()
    need(len(said) == 9, said)
    daemon.run('set', 'copy', *said)
    need(daemon.run('set', 'copy').splitlines() == said, 'what was printed does not lead to the same')
    daemon.run('set', 'copy', 'temperature=', 'logit-bias=', 'expires=', '--', '-work')
    need(daemon.run('set', 'copy').splitlines() ==
         [line for line in said if not line.startswith(('temperature', 'logit-bias', 'expires')) and line != 'tag=work'],
         'more or less was taken back')
    need(daemon.look('copy')['sampling'] == {'seed': 2**64 - 1}, 'another sampling')
    need(daemon.run('rename', 'copy', 'oslo') == 'oslo\n' and names(daemon) == ['rome', 'oslo'], 'renamed')
    daemon.run('rename', 'oslo', 'rome', status=4)


def check_system(daemon):
    need(daemon.run('system', 'rome') == 'You are kind.\n', 'the system message')
    daemon.run('system', 'rome', 'Be brief.')
    need(daemon.run('system', 'rome') == 'Be brief.\n' and daemon.look('rome')['n_turns'] == 1, 'it was replaced')
    daemon.run('system', 'oslo', 'First.')
    daemon.run('say', '--max-tokens', '3', 'oslo', 'A red cat sleeps.')
    need(daemon.run('system', 'oslo') == 'First.\n', 'given to an empty conversation')
    before = [t['text'] for t in json.loads(daemon.run('show', '--json', 'oslo'))['turns']]
    daemon.run('system', 'oslo', 'Second.') # the bundled model's format has it anywhere
    need([t['text'] for t in json.loads(daemon.run('show', '--json', 'oslo'))['turns']] == before + ['Second.'],
         'history has changed')
    need(daemon.run('system', 'oslo') == 'First.\n\nSecond.\n', 'both')


def check_choosing(daemon):
    need(names(daemon, '--tag', 'italy', '--tag', 'work') == ['rome'], 'tags')
    need(names(daemon, 'o*') == ['oslo'] and names(daemon, '#1') == ['rome'], 'patterns')
    need(names(daemon, '--search', 'CAT sleep') == ['oslo'], 'words')
    need(names(daemon, '--older', '1d') == [] and len(names(daemon, '--newer', '1d')) == 2, 'ages')
    need(names(daemon, '--sort', 'name') == ['oslo', 'rome'], 'order')
    daemon.run('evict', 'oslo')
    need(names(daemon, '--residency', 'spilled') == ['oslo'], 'residency')
    need('spilled (' in daemon.run('tree') and 'on disk)' in daemon.run('tree'), 'tree')
    daemon.run('ls', 'nix', status=3)


def check_log(daemon):
    daemon.run('open', 'talk')
    for i in range(70): # more turns than a page has
        daemon.run('say', '--max-tokens', '0', 'talk', f'Number {i}.')
    turns = [json.loads(line) for line in daemon.run('log', 'talk', '--json').splitlines()]
    need([t['turn'] for t in turns] == list(range(70)) and turns[69]['text'] == 'Number 69.', 'all turns')
    need(daemon.run('log', 'talk', '-n', '2') == '[68] user\nNumber 68.\n\n[69] user\nNumber 69.\n', 'the last ones')
    need(daemon.run('log', 'talk', '--since', '1h').count('Number') == 70, 'all are of this hour')
    need(daemon.run('log', 'talk', '--search', '6 NUMB').count('Number') == 11, 'words that begin with 6')
    need(daemon.run('log', '--search', 'red cat').startswith('oslo (#2) [1]\n    A red cat'), 'in all conversations')
    need(daemon.run('log', '--search', 'italy work').startswith('oslo (#2)\n') or
         daemon.run('log', '--search', 'italy work').startswith('rome (#1)\n'), 'in tags')


def on_terminal(daemon, answer, *args):
    """Run it on a terminal, and answer its question. Its exit status."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(confab, [confab, '--socket', daemon.socket, *args])
    said = b''
    while not said.endswith(b'[y/N] '):
        said += os.read(fd, 4096)
    os.write(fd, answer)
    try:
        while os.read(fd, 4096):
            pass
    except OSError: # the terminal is closed
        pass
    os.close(fd)
    need(b'tmp-a' in said and b'tmp-b' in said, said)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def check_close(daemon):
    for name in 'tmp-a', 'tmp-b', 'tmp-c':
        daemon.run('open', name)
    need(on_terminal(daemon, b'n\n', 'close', '--match', 'tmp-*') == 1 and names(daemon, 'tmp-*'), 'refused')
    need(on_terminal(daemon, b'\n', 'close', '--match', 'tmp-*') == 1 and names(daemon, 'tmp-*'), 'not answered')
    daemon.run('close', 'tmp-c', 'nix', status=3)
    need(names(daemon, 'tmp-*') == ['tmp-a', 'tmp-b'], 'one of those that were named')
    need(daemon.run('close', '--match', 'tmp-*', '--dry-run').count('would close') == 2 and names(daemon, 'tmp-*'), 'dry')
    need(on_terminal(daemon, b'y\n', 'close', '--match', 'tmp-*') == 0, 'agreed')
    daemon.run('ls', 'tmp-*', status=3)


def check_prune(daemon):
    daemon.run('fork', 'talk', 'young')
    daemon.run('fork', 'oslo', 'old')
    daemon.run('update', 'rome', '--pin')
    daemon.run('set', 'young', 'title=used')
    plan = json.loads(daemon.run('prune', '--keep', '1', '--json'))
    need([c['name'] for c in plan['would_close']] == ['oslo', 'old'], plan)
    need({c['name']: c['why'] for c in plan['kept']} ==
         {'rome': 'it is pinned', 'talk': 'conversations that stay were forked from it'}, plan)
    need(len(names(daemon)) == 5, 'nothing was closed')
    need(daemon.run('prune', '--keep', '1', '--yes').count('closed ') == 2, 'closed')
    need(names(daemon) == ['rome', 'talk', 'young'], names(daemon))


def check_live(daemon):
    """watch and top go on while the daemon is restarted."""
    watch, one = Lines(daemon, 'watch'), Lines(daemon, 'watch', 'rome', '--json')
    top = Lines(daemon, 'top', '--json', '--samples', '0', '--interval', '0.1')
    watch.wait('watch begins', lambda s: 'model ' in s)
    one.wait('watch of one begins', lambda s: '"model"' in s)
    top.wait('top begins', lambda s: '"young"' in s)
    daemon.run('say', '--max-tokens', '200', '--ignore-eos', 'young', 'Tell me more.')
    watch.wait('the reply', lambda s: 'turn_ended young (#' in s and s.endswith(': length\n'))
    top.wait('its speed', lambda s: json.loads(s)['per_second'].get('tokens_decoded', 0) > 0)
    daemon.run('rename', 'young', 'other')
    watch.wait('the new name', lambda s: 'changed    other' in s)
    top.wait('a list after the notice', lambda s: '"other"' in s)
    top.end()
    daemon.stop()
    watch.wait('the end', lambda s: 'the daemon is gone' in s)
    daemon.start()
    watch.wait('lost notices', lambda s: 'list_again' in s)
    one.wait('lost notices', lambda s: 'list_again' in s)
    daemon.run('close', 'rome')
    watch.wait('closed', lambda s: 'closed     rome' in s)
    one.wait('closed', lambda s: '"closed"' in s)
    need(one.process.wait(DEADLINE) == 0, 'a watch of what is closed ends')
    watch.end()


with tempfile.TemporaryDirectory(prefix='confab-verbs-') as temporary:
    the_daemon = Daemon(confabd, confab, temporary, MODEL)
    the_daemon.start()
    try:
        check_set(the_daemon)
        check_system(the_daemon)
        check_choosing(the_daemon)
        check_log(the_daemon)
        check_close(the_daemon)
        check_prune(the_daemon)
        check_live(the_daemon)
        the_daemon.stop()
    finally:
        if the_daemon.process and the_daemon.process.poll() is None:
            the_daemon.process.kill()
            the_daemon.process.wait()
print('conversations were described, chosen, read, closed, pruned and watched')
