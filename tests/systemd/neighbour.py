# SPDX-License-Identifier: MIT
"""A neighbour that takes the memory: processes beside a container, under one limit with it, as on a small machine.

    why = neighbour.why_not()                     # None, or why this machine can have none
    with neighbour.Memory() as memory:            # a control group, without a limit as yet
        with container.Container(root, group=memory.folder) as box:
            memory.show(box)                      # the limit is seen inside, as on a machine that has version 1
            with memory.pressed() as press:       # the neighbour holds memory, and reads a file that no longer fits
                ...                               # now whoever allocates in the group has to wait for memory
                press.keep_up()                   # while that is waited for: it holds it again if the kernel has killed it

What is real: the kernel's limit, its reclaim, the time that tasks wait for memory (/proc/pressure/memory, and the files of
groups of version 2). It takes the memory controller of version 1, which the container, whose groups are of version 2, sees
as a hierarchy beside them. What the neighbour reads can always be dropped and it offers itself to the kernel's killer
first, so nobody else is killed. That happens: how much reclaim can find depends on when who allocates. So who waits for
pressure lets the neighbour come back, with a little more left beside it each time.
"""
import contextlib
import errno
import os
import pathlib
import subprocess
import sys
import tempfile

import container

MEMORY = pathlib.Path('/sys/fs/cgroup/memory')
NAME = 'confab-neighbour-'
HELD = 96 << 20    # bytes that the neighbour keeps in RAM
SLACK = 16 << 20   # what is left beside it, and is always full of what it reads
MORE = 2 << 20     # of that, each time after it was killed
FILE = 4 * SLACK   # that the neighbour reads again and again
DISK = '/var/tmp'  # what lies in a tmpfs could not be dropped
N_READERS = 3
# The kernel's killer takes it before anybody else.
FIRST = 'echo 1000 >/proc/self/oom_score_adj && exec "$@"'
HOLD = ('import sys; held = bytearray(b"x") * int(sys.argv[1]); print(flush=True); sys.stdin.read()', str(HELD))
READ = 'while :; do cat "$0"; done >/dev/null'


def why_not():
    if not (MEMORY / 'memory.limit_in_bytes').exists() or not os.access(MEMORY, os.W_OK):
        return 'the memory controller of version 1 is not there'
    if not os.path.exists('/proc/pressure/memory'):
        return 'the kernel does not tell how long tasks wait for memory'
    return None


class Memory:
    """The group. It ends after all that runs in it."""

    def __enter__(self):
        self.folder = container.new_group(MEMORY, NAME)
        return self

    def __exit__(self, *_what):
        container.end_group(self.folder)

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
        join = ('sh', '-c', container.JOIN, 'sh', str(self.folder), '--')
        return subprocess.Popen([*join, 'sh', '-c', FIRST, 'sh', *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @contextlib.contextmanager
    def pressed(self):
        """The limit is as much as the machine and the neighbour have now, and SLACK."""
        with tempfile.NamedTemporaryFile(prefix=NAME, dir=DISK) as file, contextlib.ExitStack() as stack:
            for _ in range(FILE >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            stack.callback(self.limit, -1)
            yield Press(self, stack, file.name)


class Press:
    """The neighbour's processes. They end with @stack."""

    def __init__(self, memory, stack, path):
        self.memory, self.stack, self.slack = memory, stack, SLACK
        self.hold()
        for _ in range(N_READERS):
            self.run('sh', '-c', READ, path)

    def run(self, *words):
        process = self.stack.enter_context(self.memory.start(*words))
        self.stack.callback(process.kill)
        return process

    def hold(self):
        self.memory.limit(-1)
        self.holder = self.run(sys.executable, '-c', *HOLD)
        self.holder.stdout.readline()
        while True:
            try:
                self.memory.limit(self.memory.fixed() + self.slack)
                return
            except OSError as e:
                if e.errno != errno.EBUSY:  # reclaim did not find as much, because somebody allocates
                    raise
                self.slack += MORE

    def keep_up(self):
        if self.holder.poll() is not None:
            self.slack += MORE
            self.hold()
