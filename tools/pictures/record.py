# SPDX-License-Identifier: MIT
"""Plays a scenario into a shell on a terminal, with a confabd of its own, and keeps what the terminal showed and when.

The daemon has the bundled model and an empty state folder. Its socket belongs to this program, as a service manager's would:
it is handed over at the start, and a daemon that ends is started again, so a client that comes meanwhile waits instead of being refused.

The terminal's own language is pyte's to understand; a picture of the screen is taken after each piece of output.
"""
import codecs
import fcntl
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pyte

COLUMNS, ROWS = 92, 27
LONG = 120  # seconds that no command takes
KEY = 0.031  # seconds between two keys
PAUSE = 1.0


def read_scenario(path):
    """[[command, seconds behind it], ...] and how long the last picture stands."""
    steps, still = [], 3.0
    with open(path, encoding='utf-8') as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            word, _, rest = line.partition(' ')
            if not line or line.startswith('#'):
                continue
            if word == 'still':
                still = float(rest)
            elif word != 'pause':
                steps.append([line, PAUSE])
            elif steps:
                steps[-1][1] = float(rest)
            else:
                raise SystemExit(f'{path}:{number}: a pause before the first command')
    return steps, still


class Daemon:
    """A confabd that is started again whenever it ends, until close()."""

    def __init__(self, build, model, folder):
        self.folder = folder
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(os.path.join(folder, 'confab.sock'))
        self.socket.listen(64)
        # LISTEN_PID is the number of the very process, so a shell says it and becomes the daemon.
        self.command = ['sh', '-c', 'echo $$ >"$0/confabd.pid"; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&%d' % self.socket.fileno(),
                        folder, os.path.join(build, 'daemon', 'confabd'), '--model', model, '--state', os.path.join(folder, 'state')]
        self.closing = False
        self.n_starts = 0
        self.lock = threading.Lock()
        self.process = None
        self.start()
        self.keeper = threading.Thread(target=self.keep)
        self.keeper.start()

    def start(self):
        with open(os.path.join(self.folder, 'confabd.log'), 'ab') as log, self.lock:
            if self.closing:
                return False
            self.process = subprocess.Popen(self.command, pass_fds=[self.socket.fileno()], stdout=log, stderr=log)
            self.n_starts += 1
        return True

    def keep(self):
        while True:
            self.process.wait()
            if self.process.returncode in (2, 3) or not self.start():  # 2, 3: it cannot start
                return

    def close(self):
        with self.lock:
            self.closing = True
            self.process.send_signal(signal.SIGTERM)
        self.keeper.join()
        self.socket.close()


class Terminal:
    """A shell on a terminal. frames: (seconds, rows of cells, cursor), a picture each time that something has changed."""

    def __init__(self, folder, path):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.Stream(self.screen)
        self.decoder = codecs.getincrementaldecoder('utf-8')('replace')
        self.frames = []
        self.started = time.monotonic()
        with open(os.path.join(folder, 'inputrc'), 'w', encoding='utf-8') as f:
            f.write('set enable-bracketed-paste off\nset bell-style none\n')
        self.prompted, told = os.pipe()
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, COLUMNS, 0, 0))
        env = {'PATH': path, 'HOME': folder, 'TERM': 'xterm-256color', 'LANG': 'C.UTF-8', 'PS1': r'\[\e[32m\]$\[\e[0m\] ', 'HISTFILE': '',
               'INPUTRC': os.path.join(folder, 'inputrc'), 'PROMPT_COMMAND': f'echo >&{told}',
               'CONFAB_SOCKET': os.path.join(folder, 'confab.sock')}
        self.shell = subprocess.Popen(['bash', '--norc', '--noprofile', '-i'], stdin=slave, stdout=slave, stderr=slave, cwd=folder,
                                      env=env, pass_fds=[told], start_new_session=True,
                                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        os.close(told)

    def take(self):
        """A picture, unless nothing has changed since the last one."""
        rows = [[self.screen.buffer[y][x] for x in range(COLUMNS)] for y in range(ROWS)]
        cursor = (self.screen.cursor.y, self.screen.cursor.x)
        if not self.frames or self.frames[-1][1:] != (rows, cursor):
            self.frames.append((time.monotonic() - self.started, rows, cursor))

    def read(self, seconds, also=()):
        """What comes within so many seconds, or until something of also can be read; returns that."""
        end = time.monotonic() + seconds
        while True:
            ready = select.select([self.master, *also], [], [], max(0, end - time.monotonic()))[0]
            if self.master in ready:
                try:
                    data = os.read(self.master, 65536)
                except OSError:  # the shell is gone
                    data = b''
                if not data:
                    raise SystemExit('the shell ended before the scenario did')
                self.stream.feed(self.decoder.decode(data))
                self.take()
            elif ready or time.monotonic() >= end:
                return ready

    def wait(self):
        """Until the shell has written a prompt, and we have read it."""
        if not self.read(LONG, [self.prompted]):
            raise SystemExit(f'no prompt after {LONG} seconds; the screen was:\n' + self.text())
        os.read(self.prompted, 1)
        end = time.monotonic() + LONG
        while (self.screen.cursor.x, self.line(self.screen.cursor.y)) != (2, '$'):
            if time.monotonic() > end:
                raise SystemExit('the prompt is not where it should be:\n' + self.text())
            self.read(0.01)

    def line(self, y):
        return ''.join(self.screen.buffer[y][x].data for x in range(COLUMNS)).rstrip()

    def text(self):
        return '\n'.join(self.line(y) for y in range(ROWS)).rstrip('\n')

    def type(self, words, key):
        for i, letter in enumerate(words):
            os.write(self.master, letter.encode())
            # A person is not a clock: some keys take half as long, some half as much again.
            self.read(key * (0.5 + (i * 7 % 11) / 10))
        os.write(self.master, b'\r')

    def close(self):
        os.close(self.master)
        self.shell.wait()
        os.close(self.prompted)


def play(steps, build, model, folder, quick):
    """What the terminal showed, its last text, and how often the daemon was started. quick: nobody is to read it, so nothing pauses."""
    daemon = Daemon(build, model, folder)
    try:
        terminal = Terminal(folder, os.path.join(build, 'client') + ':/usr/bin:/bin')
        try:
            terminal.wait()
            terminal.frames.clear()
            terminal.started = time.monotonic()
            terminal.take()
            for words, pause in steps:
                terminal.read(0 if quick else 0.3)
                terminal.type(words, 0 if quick else KEY)
                terminal.wait()
                terminal.read(0 if quick else pause)
            return terminal.frames, terminal.text(), daemon.n_starts
        finally:
            terminal.close()
    finally:
        daemon.close()
