#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""completion.py CONFABD CONFAB SOURCE: TAB in bash, zsh and fish, as somebody types it on a terminal.

Each shell gets a line with TAB in it, then goes to the line's beginning and puts "args" there, which prints the words
that the shell makes of the line: so a name is right if confab would get it, however the shell quotes it. The names come
from a real daemon. A shell that is not installed is skipped, aloud.
"""
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

confabd, confab, source = sys.argv[1:4]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from acp_rig import DEADLINE, Daemon, need

ATTEMPTS = 8  # a busy machine may not answer in the time that confab takes for it
NAMES = ['plain', "odd 'name' & co", 'a:b=c', 'größe@home', '-dash', 'back\\slash', '$HOME', 'two words']

# What is typed (# is TAB), and the words that it should become; FOLDER is the folder that the shell is in.
CASES = [
        ('confab fo#', ['confab', 'fork']),
        ('confab say pl#', ['confab', 'say', 'plain']),
        ('confab warm odd#', ['confab', 'warm', "odd 'name' & co"]),
        ('confab warm a:b#', ['confab', 'warm', 'a:b=c']),
        ('confab warm a:b=#', ['confab', 'warm', 'a:b=c']),
        ('confab warm grö#', ['confab', 'warm', 'größe@home']),
        ('confab warm größe@#', ['confab', 'warm', 'größe@home']),
        ('confab warm -- -d#', ['confab', 'warm', '--', '-dash']),
        ('confab warm back#', ['confab', 'warm', 'back\\slash']),
        ('confab warm "two w#', ['confab', 'warm', 'two words']),
        ("confab warm 'two w#", ['confab', 'warm', 'two words']),
        ('confab warm two\\ w#', ['confab', 'warm', 'two words']),
        ('confab open --overflow=sh#', ['confab', 'open', '--overflow=shift']),
        ('confab open --overflow sh#', ['confab', 'open', '--overflow', 'shift']),
        ('confab say plain --no-st#', ['confab', 'say', 'plain', '--no-stdin']),
        ('confab say plain -R hi#', ['confab', 'say', 'plain', '-R', 'hide']),
        ('confab say plain --tools uni#', ['confab', 'say', 'plain', '--tools', 'unique file.json']),
        ('confab say plain --grammar=uni#', ['confab', 'say', 'plain', '--grammar=unique file.json']),
        ('confab say plain @uni#', ['confab', 'say', 'plain', '@unique file.json']),
        ('confab say plain @dir#', ['confab', 'say', 'plain', '@directory/']),
        ('confab admin quota root max-conv#7', ['confab', 'admin', 'quota', 'root', 'max-conversations=7']),
        ('confab admin quota @roo#', ['confab', 'admin', 'quota', '@root']),
        ('confab help tok#', ['confab', 'help', 'tokenize']),
        ('confab update nothing-like-this#', ['confab', 'update', 'nothing-like-this']),
]

# How each shell begins: it has the script, the function args, and no startup files of others.
SETUP = {
        'bash': (['bash', '--norc', '--noprofile', '-i'],
                 r"""args() { printf '<%s>' "$@"; printf '|\n'; }; bind 'set enable-bracketed-paste off'; . SCRIPT"""),
        'zsh': (['zsh', '-f', '-i'],
                r"""args() { printf '<%s>' "$@"; printf '|\n'; }; unset zle_bracketed_paste; bindkey -e; unsetopt list_beep auto_remove_slash; """
                'fpath=(FOLDER $fpath); autoload -U compinit; compinit -u -D'),
        'fish': (['fish', '--no-config', '-i'],
                 r"""function args; printf '<%s>' $argv; printf '|\n'; end; function fish_prompt; end; function fish_greeting; end; """
                 'function fish_title; end; bind \\ca beginning-of-line; source SCRIPT'),
}


class Shell:
    def __init__(self, name, folder, env):
        command, setup = SETUP[name]
        script = os.path.join(source, 'client/completion', f'confab.{name}')
        if name == 'zsh':
            shutil.copy(script, os.path.join(folder, '_confab'))
        self.fd, self.seen = -1, ''
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(os.path.join(folder, 'here'))
            os.execvpe(command[0], command, env)
        self.pid = pid
        # a marker that the echo of what is typed has not
        self.type(setup.replace('SCRIPT', script).replace('FOLDER', folder) + "; args 're''ady'\r" if name != 'fish' else
                  setup.replace('SCRIPT', script) + "; args 're'ady\r")
        need(self.wait(r'<ready>\|'), f'{name} does not begin: {self.seen!r}')

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, pattern, seconds=DEADLINE):
        """Read on until @pattern has come; what came before is forgotten then."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            m = re.search(pattern, self.seen, re.S)
            if m:
                self.seen = self.seen[m.end():]
                return m
            if select.select([self.fd], [], [], end - time.monotonic())[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors='replace')
                except OSError:
                    return None
        return None

    def words(self, typed):
        """The words that the line becomes."""
        self.type(typed.replace('#', '\t') + '\x01args \r')
        m = self.wait(r'(<[^\n]*>)\|\r?\n')
        need(m, f'{typed}: no answer: {self.seen!r}')
        text = re.sub(r'\x1b(\[[^a-zA-Z]*[a-zA-Z]|\][^\x07]*\x07)', '', m[1])
        return text[text.rindex('<confab>') + 1:-1].split('><') if '<confab>' in text else [text]

    def end(self):
        self.type('\x03\rexit\r')
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def check(name, folder, env):
    if not shutil.which(name):
        print(f'SKIP in part: no {name} here')
        return
    shell = Shell(name, folder, env)
    for typed, want in CASES:
        for _ in range(ATTEMPTS):
            got = shell.words(typed)
            # the other shells close a quote for one
            if [word.rstrip() for word in got] == want:
                break
        else:
            need(False, f'{name}: {typed} becomes {got}, not {want}')
    shell.end()
    print(f'{name}: {len(CASES)} lines')


# What the program itself answers, shell by shell: the words in front, and the words that may come.
ANSWERS = [
        ('zsh', ['fo'], ['=fork']),
        ('zsh', [''], ['=open', '=help', '=tree']),
        ('zsh', ['help', 'op'], ['=open']),
        ('zsh', ['help', 'open', ''], []),
        ('zsh', ['no-such-verb', ''], []),
        ('zsh', ['--soc'], ['=--socket']),
        ('zsh', ['say', '--socket=x', 'plain', '--ex'], ['=--expect-revision']),
        ('zsh', ['say', '--', '--ex'], []),
        ('zsh', ['show', 'pl'], ['=plain']),
        ('zsh', ['show', 'plain', 'pl'], []), # it takes one
        ('zsh', ['carry', 'pl'], ['=plain']),
        ('zsh', ['fork', 'plain', ''], []), # a new name
        ('zsh', ['say', 'pl'], ['=plain']),
        ('zsh', ['say', 'plain', '@'], ['/@']),
        ('zsh', ['say', 'plain', ''], []),
        ('zsh', ['say', '--', 'plain', '@'], []), # nothing is special there
        ('zsh', ['say', 'plain', '--tools', ''], ['/']),
        ('zsh', ['say', 'plain', '--tools=x'], ['/--tools=']),
        ('zsh', ['open', '--system=@x'], ['/--system=@']),
        ('zsh', ['open', '--overflow='], ['=--overflow=error', '=--overflow=shift']),
        ('zsh', ['open', '--json=x'], []), # it takes nothing
        ('zsh', ['say', 'plain', '-nR', 'o'], ['=only']),
        ('zsh', ['say', '-m5', 'pl'], ['=plain']),
        ('zsh', ['say', '-m', '5', 'pl'], ['=plain']),
        ('zsh', ['say', '-m', ''], []),
        ('zsh', ['admin', 'quota', 'roo'], ['=root']),
        ('zsh', ['admin', 'quota', '@roo'], ['=@root']),
        ('zsh', ['admin', 'settings', 'spill-d'], ['=spill-delay']),
        ('zsh', ['admin', 'purge', 'roo'], ['=root']),
        ('zsh', ['admin', 'close', '#1'], ['=#1']),
        ('bash', ['admin', 'restore', 'a.tar', 'uni'], ['/']),
        ('zsh', ['admin', 'quota', 'root', 'disk'], ['=disk-limit-per-user=']),
        ('zsh', ['admin', 'quota', 'root', 'max-user-tokens=1', 'ram'], ['=ram-share-per-user=']),
        ('zsh', ['admin', 'quota', 'root', 'max-user-tokens=1'], []),
        ('bash', ['say', "'two words'", '-R', '"on'], ['=only']),
        ('bash', ['show', 'two\\ w'], ['=two words']),
        ('bash', ['show', "two' 'w"], ['=two words']),
        ('bash', ['show', '"two w'], ['=two words']),
        ('bash', ['show', '"$HO'], ['=$HOME']),
        ('bash', ['show', '"\\$HO'], ['=$HOME']),
        ('bash', ['show', "'back\\"], ['=back\\slash']),
        ('zsh', ['show', "'two"], []), # zsh and fish have taken the quotes away
]


def ask(shell, path, *words):
    done = subprocess.run([confab, '__complete', shell, '--', *words], capture_output=True, text=True, check=False, timeout=DEADLINE,
                          env={'CONFAB_SOCKET': path, 'LC_ALL': 'C.UTF-8'})
    need(not done.stderr, f'{words}: {done.stderr}')
    return done.returncode, [line.split('\t')[0] for line in done.stdout.splitlines()]


def answered(shell, path, *words):
    """Lines of an answer that came in time."""
    for _ in range(ATTEMPTS):
        status, got = ask(shell, path, *words)
        if status == 0:
            return got
    raise SystemExit(f'FAILED: {words}: status {status}')


def check_answers(daemon, folder):
    for shell, words, want in ANSWERS:
        got = answered(shell, daemon.socket, *words)
        wrong = [line for line in want if line not in got] if want and words[-1:] == [''] and len(want) > 1 else got != want
        need(not wrong, f'{shell} {words}: {got}, not {want}')
    names = answered('fish', daemon.socket, 'warm', '')
    need('=two words' in names and '=-dash' not in names, f'{names}: no name is taken for an option')
    need(answered('zsh', '/nowhere', '--socket', daemon.socket, 'show', 'pl') == ['=plain'], '--socket is heeded')
    need(answered('zsh', os.path.join(folder, 'none'), 'show', '') == [], 'no daemon')
    # one that never answers: the time is limited
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(os.path.join(folder, 'mute'))
        mute.listen()
        need(ask('zsh', os.path.join(folder, 'mute'), 'show', '') == (-signal.SIGALRM, []), 'a mute daemon')


with tempfile.TemporaryDirectory() as top:
    here = os.path.join(top, 'here')
    os.makedirs(os.path.join(here, 'directory'))
    with open(os.path.join(here, 'unique file.json'), 'w', encoding='utf-8') as f:
        f.write('{}')
    daemon = Daemon(confabd, confab, top, os.path.join(source, 'models/confab-small.q8_0.gguf'))
    daemon.start()
    try:
        for one in NAMES:
            daemon.run('open', '--', one)
        check_answers(daemon, top)
        environment = {'PATH': f'{os.path.dirname(os.path.abspath(confab))}:/usr/bin:/bin', 'HOME': top, 'TERM': 'dumb',
                       'LC_ALL': 'C.UTF-8', 'CONFAB_SOCKET': daemon.socket, 'PS1': ''}
        for one in SETUP:
            check(one, top, {**environment, 'TERM': 'xterm' if one == 'fish' else 'dumb'})
    finally:
        daemon.stop()
