# SPDX-License-Identifier: MIT
"""The process that owns private Redis or Valkey servers of a test: tests/util/redis.py starts one for them.

usage: redis_keeper.py

It makes a folder and runs servers, each under a name. It reads requests from its standard input, a line of JSON each, and
answers each by a line; the first line says where the folder is. When the input ends, because the test is done with the
servers or because the test has died, the keeper kills them, removes the folder and ends. Should the keeper itself be
killed, the kernel kills the servers; only the folder stays.
"""
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile

# Run with -I, so that what a user has put beside a test is not taken for a module.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from postgres_keeper import LIMIT, MAX_FOLDER, Failed, await_end, halt, keep, run, said, send, spawn


class Keeper:
    def __init__(self):
        base = tempfile.gettempdir()
        self.folder = tempfile.mkdtemp(prefix='confab-redis-', dir=base if len(base) + 20 < MAX_FOLDER else '/tmp')
        self.pids = {}

    def answers(self, path):
        """Whether a server takes commands at the socket."""
        with socket.socket(socket.AF_UNIX) as s, contextlib.suppress(OSError):
            s.settimeout(LIMIT)
            s.connect(path)
            s.sendall(b'PING\r\n')
            return s.recv(64).startswith((b'+PONG', b'-NOAUTH'))
        return False

    def running(self, name):
        pid = self.pids.get(name)
        if pid is None:
            raise Failed(f'the server {name} does not run')
        return pid

    # Requests.

    def start(self, name, argv):
        """Starts a server, whose socket is NAME.sock, and waits until it takes commands; returns its process id."""
        if name in self.pids:
            raise Failed(f'the server {name} runs already')
        path, log = os.path.join(self.folder, f'{name}.sock'), os.path.join(self.folder, f'{name}.log')
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        start = os.path.getsize(log) if os.path.exists(log) else 0
        pid = self.pids[name] = spawn(argv[0], argv, log, self.folder)
        status = await_end(pid, lambda: self.answers(path))
        if status is not None:
            del self.pids[name]
            raise Failed(f'the server {name} did not start: status {status}: {said(log, start)}')
        return pid

    def kill(self, name):
        pid = self.running(name)
        send([pid], signal.SIGKILL)
        await_end(pid)
        del self.pids[name]

    def pause(self, name):
        halt([self.running(name)])

    def resume(self, name):
        send([self.running(name)], signal.SIGCONT)

    def run(self, argv):
        run(argv[0], argv, self.folder)

    def end(self):
        for pid in self.pids.values():
            send([pid], signal.SIGKILL)
        with contextlib.suppress(ChildProcessError): # none is left
            while True:
                os.waitpid(-1, 0)
        shutil.rmtree(self.folder)


if __name__ == '__main__':
    os.chdir('/')
    keep(Keeper)
