# SPDX-License-Identifier: MIT
"""A neighbour that takes the memory: processes beside a container, under one limit with it, as on a small machine.

    why = neighbour.why_not()                     # None, or why this machine can have none
    with neighbour.Memory() as memory:            # a control group, without a limit as yet
        with container.Container(root, group=memory.folder) as box:
            memory.show(box)                      # the limit is seen inside, as on a machine that has version 1
            with memory.pressed():                # the neighbour holds memory, and reads a file that no longer fits
                ...                               # now whoever allocates in the group has to wait for memory

What is real: the kernel's limit, its reclaim, the time that tasks wait for memory (/proc/pressure/memory, and the files of
groups of version 2). It takes the memory controller of version 1, which the container, whose groups are of version 2, sees
as a hierarchy beside them. What the neighbour reads can always be dropped and it offers itself to the kernel's killer
first, so nobody else is killed.
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MEMORY = pathlib.Path('/sys/fs/cgroup/memory')
NAME = 'confab-neighbour-'
HELD = 64 << 20    # bytes that the neighbour keeps in RAM
SLACK = 16 << 20   # what is left beside it, and is always full of what it reads
FILE = 4 * SLACK   # that the neighbour reads again and again
N_READERS = 3
# It joins the group before it is anything else.
JOIN = 'echo $$ >"$0/cgroup.procs" && echo 1000 >/proc/self/oom_score_adj && exec "$@"'
HOLD = ('import sys; held = bytearray(b"x") * int(sys.argv[1]); print(flush=True); sys.stdin.read()', str(HELD))
READ = 'while :; do cat "$0"; done >/dev/null'


def why_not():
    if not (MEMORY / 'memory.limit_in_bytes').exists() or not os.access(MEMORY, os.W_OK):
        return 'the memory controller of version 1 is not there'
    if not os.path.exists('/proc/pressure/memory'):
        return 'the kernel does not tell how long tasks wait for memory'
    return None


def sweep():
    """Groups of tests that were killed. A group that has a process or a living test stays."""
    for folder in MEMORY.glob(f'{NAME}*'):
        if not os.path.exists(f'/proc/{folder.name[len(NAME):]}'):
            with contextlib.suppress(OSError):
                folder.rmdir()


class Memory:
    """The group. It ends after all that runs in it."""

    def __init__(self):
        self.folder = MEMORY / f'{NAME}{os.getpid()}'

    def __enter__(self):
        sweep()
        self.folder.mkdir()
        return self

    def __exit__(self, *_what):
        # The kernel takes its last processes apart.
        deadline = time.monotonic() + 10
        while self.folder.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            time.sleep(0.02)

    def limit(self, size):
        (self.folder / 'memory.limit_in_bytes').write_text(str(size), 'ascii')

    def fixed(self):
        """Bytes of the group that cannot be dropped."""
        stat = dict(line.split() for line in (self.folder / 'memory.stat').read_text('ascii').splitlines())
        used = int((self.folder / 'memory.usage_in_bytes').read_text('ascii'))
        return used - int(stat['total_active_file']) - int(stat['total_inactive_file'])

    @staticmethod
    def show(box):
        box.run('sh', '-c', 'mkdir -p /run/memory && mount -t cgroup -o memory none /run/memory')

    def start(self, *words):
        return subprocess.Popen(['sh', '-c', JOIN, str(self.folder), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @contextlib.contextmanager
    def pressed(self):
        """The limit is as much as the machine and the neighbour have now, and SLACK."""
        with tempfile.NamedTemporaryFile(prefix=NAME) as file, contextlib.ExitStack() as stack:
            for _ in range(FILE >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            stack.callback(self.limit, -1)
            holder = stack.enter_context(self.start(sys.executable, '-c', *HOLD))
            stack.callback(holder.kill)
            holder.stdout.readline()
            self.limit(self.fixed() + SLACK)
            for _ in range(N_READERS):
                reader = stack.enter_context(self.start('sh', '-c', READ, file.name))
                stack.callback(reader.kill)
            yield
