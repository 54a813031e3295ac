# SPDX-License-Identifier: MIT
"""The process that owns a private PostgreSQL server of a test: tests/util/postgres.py starts one beside each server.

usage: postgres_keeper.py BINARIES [UID GID]

It makes a folder and runs every program of the server, as the user UID if one is given. It reads requests from its
standard input, a line of JSON each, and answers each by a line; the first line says where the folder is. When the
input ends, because the test is done with the server or because the test has died, the keeper kills what it has
started, removes the folder and ends.

No process can get lost: the keeper is the subreaper of its descendants, so a backend whose postmaster has died
becomes a child of the keeper. Should the keeper itself be killed, the kernel kills the postmaster, whose backends then
end by themselves; only the folder stays.
"""
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time

LIMIT = 900 # seconds; only a hang takes so long
STEP = 0.01
MAX_FOLDER = 80 # bytes; a socket's path has room for 107
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, IPC_RMID = 1, 36, 0
LIBC = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """A request failed; the test is told why."""


class Gone(Exception):
    """The test is gone, or done with the server."""


def processes():
    """The parent and the state of every process."""
    found = {}
    for name in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError), open(f'/proc/{name}/stat', 'rb') as f:
            state, parent = f.read().rpartition(b')')[2].split()[:2]
            found[int(name)] = int(parent), state.decode()
    return found


def descendants():
    """All that the keeper has started and that has not ended, parents first."""
    children = {}
    for pid, (parent, state) in processes().items():
        if state not in 'ZX':
            children.setdefault(parent, []).append(pid)
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def halt(pids):
    """Stops processes; when this returns none of them runs."""
    send(pids, signal.SIGSTOP)
    deadline = time.monotonic() + LIMIT
    while any(state not in 'TtZX' for _, state in map(processes().get, pids, [(0, 'X')] * len(pids))):
        if time.monotonic() > deadline:
            raise Failed(f'processes {pids} do not stop')
        time.sleep(STEP / 10)


def await_end(pid, done=None):
    """Waits until a child has ended, for its status, or until done() says that there is no need: None."""
    deadline = time.monotonic() + LIMIT
    handle = os.pidfd_open(pid)
    try:
        while True:
            ready, _, _ = select.select([0, handle], [], [], STEP if done else LIMIT)
            if 0 in ready:
                raise Gone
            if handle in ready:
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if done and done():
                return None
            if time.monotonic() > deadline:
                raise Failed(f'process {pid} takes too long')
    finally:
        os.close(handle)


def environment(folder):
    return {'PATH': os.environ.get('PATH', os.defpath), 'HOME': folder, 'LC_ALL': 'C', 'TZ': 'UTC'}


def spawn(path, argv, output, folder):
    """A program that ends with the keeper; what it says goes to the end of the file."""
    pid = os.fork()
    if pid == 0:
        try:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.setsid()
            os.dup2(os.open('/dev/null', os.O_RDONLY), 0)
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
            os.dup2(1, 2)
            os.execve(path, argv, environment(folder))
        finally:
            os._exit(127)
    return pid


def said(path, start=0):
    with open(path, encoding='utf-8', errors='replace') as f:
        f.seek(start)
        return f.read()


def run(path, argv, folder):
    """Runs a program to its end."""
    output = os.path.join(folder, 'output')
    status = await_end(spawn(path, argv, output, folder))
    words = said(output)
    os.remove(output)
    if status:
        raise Failed(f'{argv[0]} ended with status {status}: {words}')


class Keeper:
    def __init__(self, binaries):
        self.binaries = binaries
        base = tempfile.gettempdir() # one that the user can write to
        self.folder = tempfile.mkdtemp(prefix='confab-pg-', dir=base if len(base) + 20 < MAX_FOLDER else '/tmp')
        self.data = os.path.join(self.folder, 'data')
        self.postmaster = None

    def spawn(self, argv, output):
        return spawn(os.path.join(self.binaries, argv[0]), argv, output, self.folder)

    def said(self, name, start=0):
        return said(os.path.join(self.folder, name), start)

    def alive(self):
        if self.postmaster is None:
            return False
        return os.waitid(os.P_PID, self.postmaster, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    # Requests.

    def run(self, argv):
        run(os.path.join(self.binaries, argv[0]), argv, self.folder)

    def write(self, name, text):
        with open(os.path.join(self.data, name), 'w', encoding='utf-8') as f:
            f.write(text)

    def start(self):
        """Starts the server and waits until it takes connections; returns the process id of its postmaster."""
        if self.alive():
            raise Failed('the server runs already')
        self.kill()
        log = os.path.join(self.folder, 'log')
        start = os.path.getsize(log) if os.path.exists(log) else 0
        self.postmaster = self.spawn(['postgres', '-D', self.data], log)
        status = await_end(self.postmaster, self.ready)
        if status is not None:
            self.postmaster = None
            raise Failed(f'the server did not start: status {status}: {self.said("log", start)}')
        return self.postmaster

    def ready(self):
        """Whether the postmaster has noted in the eighth line of its file that it takes connections."""
        with contextlib.suppress(FileNotFoundError):
            lines = self.said('data/postmaster.pid').splitlines()
            return len(lines) > 7 and lines[0] == str(self.postmaster) and lines[7].strip() == 'ready'
        return False

    def reload(self):
        if self.alive():
            send([self.postmaster], signal.SIGHUP)

    def stop(self):
        if self.alive():
            self.resume()
            send([self.postmaster], signal.SIGINT)
            await_end(self.postmaster)
        self.postmaster = None
        self.kill()

    def kill(self):
        """Ends everything at one moment, and takes away what only the kernel would keep."""
        if self.alive():
            self.pause()
        with contextlib.suppress(ChildProcessError): # none is left
            while True:
                send(descendants(), signal.SIGKILL)
                os.waitpid(-1, 0)
        self.postmaster = None
        with contextlib.suppress(FileNotFoundError):
            lines = self.said('data/postmaster.pid').splitlines()
            if len(lines) > 6 and lines[6].split():
                LIBC.shmctl(int(lines[6].split()[1]), IPC_RMID, None)
            # The next start would take another process that has got the same id for the old server.
            os.remove(os.path.join(self.data, 'postmaster.pid'))
        for name in os.listdir(self.folder):
            if name.startswith('.s.PGSQL'):
                os.remove(os.path.join(self.folder, name))

    def pause(self):
        if not self.alive():
            raise Failed('the server does not run')
        halt([self.postmaster]) # it can't start another process from here on
        halt(descendants())

    def resume(self):
        send(reversed(descendants()), signal.SIGCONT)

    def end(self):
        self.kill()
        shutil.rmtree(self.folder)


def serve(keeper):
    """Requests from the standard input: a line each, with one as the answer."""
    for line in sys.stdin.buffer:
        name, arguments = json.loads(line)
        try:
            answer = {'value': getattr(keeper, name)(*arguments)}
        except (Failed, OSError) as e:
            answer = {'error': str(e)}
        print(json.dumps(answer), flush=True)


def keep(make):
    """A keeper's life."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, lambda *_: sys.exit(1))
    keeper = make()
    try:
        print(json.dumps({'value': keeper.folder}), flush=True)
        serve(keeper)
    except (Gone, BrokenPipeError):
        pass
    finally:
        keeper.end()


def main(binaries, *user):
    os.chdir('/') # PostgreSQL complains of a folder that it can't read
    if user:
        uid, gid = map(int, user)
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    keep(lambda: Keeper(binaries))


if __name__ == '__main__':
    main(*sys.argv[1:])
