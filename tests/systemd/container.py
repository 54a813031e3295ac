# SPDX-License-Identifier: MIT
"""A Debian in a container: systemd as process 1, units, users, a journal. For tests of what an administrator does.

    why = container.why_not()                     # None, or why there can be no container here
    root = container.make_root(cache, packages)   # a file system with these packages, made once
    with container.Container(root) as box:
        box.write('/etc/confab/confabd.conf', 'threads = 1\\n')
        box.run('systemctl', 'restart', 'confabd')                       # its output; another status than 0 is an error
        box.run('confab', 'show', 'x', user='anna', status=1)
        box.wait('anna has a service manager', lambda: box.ask('systemctl', 'is-active', 'user@1000') == 'active')
        box.stop()                                # as a shutdown does; box.kill() is a power failure
        box.start()                               # what was written is still there

What is promised:

1. The file system that make_root() returned is never written to: it lies below an overlay, whose upper layer is a tmpfs.
   So it serves many tests at once, and each begins with the same.
2. Nothing stays behind, however a test ends. Everything runs below one process, which is process 1 of a PID namespace and
   has a mount namespace of its own. It ends when its standard input does, that is with the test, be it by SIGKILL;
   the kernel then ends what runs in the one and unmounts what is in the other. (After SIGKILL an empty folder stays,
   and empty control groups, which the next container removes.)
3. A root that make_root() was stopped at is not taken for one: it gets its name when it is whole. Two that make the same
   wait for each other.
4. The container has its own network, with a loopback alone, and the second version of control groups, in a group of its
   own: two at once do not see, or end, each other's units.

It takes root, and a kernel that allows namespaces and overlays.
"""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

DEADLINE = 300  # seconds; only a hang takes so long
MIRROR = 'http://deb.debian.org/debian'
PROGRAMS = ('debootstrap', 'systemd-nspawn', 'unshare', 'nsenter')
# What a machine has, beside what a test asks for: logins, and a service manager for each user.
MACHINE = ('systemd', 'systemd-sysv', 'dbus', 'dbus-user-session', 'libpam-systemd', 'passwd')
UNSHARE = ('unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private')
# The layers of the container's files, and a /run where systemd-nspawn leaves what it likes. Then it waits for the end.
HOLD = '''set -e
mount -t tmpfs -o mode=0755 tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
mount -t tmpfs -o mode=0755 tmpfs /run
echo ready
exec cat >/dev/null
'''
# A program begins in these groups.
JOIN = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"'
SEARCH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'


class Broken(Exception):
    """Something did not go as the test says it has to."""


def default_cache():
    cache = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(cache, 'confab-containers')


def environment():
    """For programs of this machine; what the user has said of proxies holds."""
    proxies = {k: v for k, v in os.environ.items() if k.lower() in ('http_proxy', 'https_proxy', 'no_proxy')}
    return proxies | {'PATH': SEARCH, 'HOME': '/root', 'LC_ALL': 'C', 'DEBIAN_FRONTEND': 'noninteractive'}


def why_not():
    """Why there can be no container here; None if there can."""
    if os.geteuid() != 0:
        return 'it takes root'
    missing = [name for name in PROGRAMS if not shutil.which(name, path=SEARCH)]
    if missing:
        return f'no {", no ".join(missing)} here (tools/lib.sh has the packages: CONFAB_CONTAINER_PACKAGES)'
    with tempfile.TemporaryDirectory(prefix='confab-container-') as folder:
        lower = os.path.join(folder, 'lower')
        upper = os.path.join(folder, 'upper')
        os.mkdir(lower)
        os.mkdir(upper)
        done = subprocess.run([*UNSHARE, 'sh', '-c', HOLD, 'sh', lower, upper], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, env=environment())
    if done.returncode:
        return f'no namespaces or overlays here: {done.stderr.strip()}'
    return None


def root_path(cache, packages, suite):
    """Where the root of these packages is, or would be."""
    names = sorted({*MACHINE, *packages})
    mark = hashlib.sha256(' '.join([MIRROR, *names]).encode()).hexdigest()[:12]
    return pathlib.Path(cache, f'{suite}-{mark}')


def why_no_root(cache, packages, suite='bookworm'):
    """Why make_root() could not make it; None if it could, or has."""
    if root_path(cache, packages, suite).exists():
        return None
    try:
        with urllib.request.urlopen(f'{MIRROR}/dists/{suite}/Release', timeout=30) as answer:
            answer.read(1)
    except (urllib.error.URLError, OSError) as e:
        return f'no Debian {suite} from {MIRROR}: {e}'
    return None


def make_root(cache, packages=(), suite='bookworm'):
    """The path of a root file system of Debian with these packages and what they need. Made where it is not there."""
    root = root_path(cache, packages, suite)
    root.parent.mkdir(parents=True, exist_ok=True)
    with open(f'{root}.lock', 'wb') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            half = pathlib.Path(f'{root}.new')
            if half.exists():
                shutil.rmtree(half)
            names = ','.join(sorted({*MACHINE, *packages}))
            done = subprocess.run(
                [*UNSHARE, 'debootstrap', '--variant=minbase', f'--include={names}', suite, half, MIRROR],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                env=environment())
            if done.returncode:
                raise Broken(f'debootstrap: status {done.returncode}\n{done.stdout[-3000:]}')
            # The packages that were fetched serve nobody any more.
            shutil.rmtree(half / 'var/cache/apt/archives', ignore_errors=True)
            (half / 'var/cache/apt/archives/partial').mkdir(parents=True)
            half.rename(root)
    return root


# Control groups

def own_group():
    """The folder of this process's group of version 2; None without such groups."""
    mounts = [line.split() for line in pathlib.Path('/proc/self/mounts').read_text('utf-8').splitlines()]
    folders = [pathlib.Path(mount[1]) for mount in mounts if mount[2] == 'cgroup2']
    if not folders:
        return None
    lines = pathlib.Path('/proc/self/cgroup').read_text('utf-8').splitlines()
    [path] = [line[3:] for line in lines if line.startswith('0::')] or ['/']
    within = folders[0] / path.lstrip('/')
    return within if within.is_dir() else folders[0]


def new_group(parent, prefix='confab-container-'):
    """An empty group below `parent`; those that tests which were killed have left there are removed."""
    for folder in parent.glob(f'{prefix}*'):
        if not os.path.exists(f'/proc/{folder.name[len(prefix):].partition("-")[0]}'):
            remove_groups(folder)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f'{prefix}{os.getpid()}-', dir=parent))
    folder.chmod(0o755)  # services look into it
    return folder


def remove_groups(folder):
    """False if somebody is in one of them."""
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)
    return not folder.exists()


def end_group(folder):
    """Removes a group whose processes have ended: the kernel may still be taking them apart."""
    deadline = time.monotonic() + DEADLINE
    while not remove_groups(folder) and time.monotonic() < deadline:
        time.sleep(0.02)


def children(pid):
    with contextlib.suppress(OSError):
        return [int(child) for child in pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text('ascii').split()]
    return []


def depth(pid):
    """In how many PID namespaces the process is, if it is process 1 of the innermost; else 0."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f'/proc/{pid}/status').read_text('utf-8').splitlines():
            if line.startswith('NSpid:'):
                numbers = line.split()[1:]
                return len(numbers) if numbers[-1] == '1' else 0
    return 0


class Container:
    """A machine. It is switched on by start(), which `with` does; off by stop() or kill()."""

    def __init__(self, root, name='confab-test', group=None):
        """`group`: folder of a control group of version 1, which all that runs in the machine belongs to."""
        self.lower, self.name = root, name
        self.groups = [str(group)] if group else []
        self.tree = None  # its group of version 2
        self.folder = self.holder = self.inner = self.machine = self.leader = None

    # Life

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix='confab-container-')
        try:
            self.holder = subprocess.Popen([*UNSHARE, 'sh', '-c', HOLD, 'sh', self.lower, self.folder],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
            if self.holder.stdout.readline() != 'ready\n':
                raise Broken('the layers of the container cannot be mounted')
            self.inner = children(self.holder.pid)[0]
            parent = own_group()
            if parent:
                self.tree = new_group(parent)
                self.groups.append(str(self.tree))
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_what):
        if self.holder:
            self.holder.stdin.close()
            self.holder.wait(DEADLINE)
            self.holder.stdout.close()
        if self.machine:
            self.machine.wait(DEADLINE)
        if self.tree:
            end_group(self.tree)
        self.holder = self.machine = self.leader = self.tree = None
        os.rmdir(self.folder)

    def start(self):
        """Boots, and waits until all that starts by itself has started."""
        with open(self.console(), 'ab') as console:
            self.machine = subprocess.Popen(
                ['sh', '-c', JOIN, 'sh', *self.groups, '--', 'nsenter', '-t', str(self.inner), '-m', '-p', '--', 'systemd-nspawn', '-q', '-D', f'{self.folder}/root',
                 '--boot', '--register=no', '--keep-unit', '--console=pipe', '--private-network', '--link-journal=no',
                 '--resolv-conf=off', '--timezone=off', f'--machine={self.name}'],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                # Groups as Debian has them (version 2), also where those of this machine are older.
                env=environment() | {'SYSTEMD_NSPAWN_UNIFIED_HIERARCHY': '1'})
        self.wait('the container has a process 1', self.find_leader)
        # Until there is a bus, there is nobody to say how far it is.
        self.wait('the container has booted', lambda: self.ask('systemctl', 'is-system-running', '--wait') in
                  ('running', 'degraded'))

    def find_leader(self):
        """Process 1 of the container: the namespace within that of the holder."""
        if self.machine.poll() is not None:
            raise Broken(f'systemd-nspawn ended with status {self.machine.returncode}: {self.said()}')
        outer = depth(self.inner)
        found, look = None, children(self.machine.pid)
        while look and not found:
            pid = look.pop()
            look += children(pid)
            found = pid if depth(pid) > outer else None
        self.leader = found
        return found

    def stop(self):
        """A shutdown, with all that units do for it."""
        os.kill(self.leader, signal.SIGRTMIN + 4)
        self.machine.wait(DEADLINE)
        self.machine = self.leader = None

    def kill(self):
        """The power fails. What is in the files stays (also what was not synced: it is no test of that)."""
        os.kill(self.leader, signal.SIGKILL)
        self.machine.wait(DEADLINE)
        self.machine = self.leader = None

    # Files

    def path(self, inside):
        """A file of the container, as this machine reaches it. While it is off, /run is empty."""
        if self.leader:
            return pathlib.Path(f'/proc/{self.leader}/root', inside.lstrip('/'))
        return pathlib.Path(f'/proc/{self.inner}/root{self.folder}/root', inside.lstrip('/'))

    def read(self, inside):
        return self.path(inside).read_text('utf-8')

    def write(self, inside, text, user=None):
        """As the user writes it, with the folders that it takes."""
        self.run('sh', '-c', 'mkdir -p "${1%/*}" && cat >"$1"', 'sh', inside, user=user, text=text)

    def console(self):
        return f'/proc/{self.inner}/root{self.folder}/console'

    def said(self):
        """What the console shows."""
        return pathlib.Path(self.console()).read_text('utf-8', 'replace')

    # Commands

    def command(self, words, user=None):
        """What runs a command in it, by root or by another user, who has an environment as after a login."""
        inside = ['env', '-i', f'PATH={SEARCH}', 'LC_ALL=C.UTF-8', 'DEBIAN_FRONTEND=noninteractive']
        if user:
            inside = ['runuser', '-u', user, '--', *inside, f'HOME=/home/{user}', f'USER={user}',
                      f'XDG_RUNTIME_DIR=/run/user/{self.uid(user)}']
        else:
            inside += ['HOME=/root', 'USER=root']
        return ['nsenter', '-t', str(self.leader), '-m', '-u', '-i', '-n', '-p', '-C', '--', *inside,
                *(str(word) for word in words)]

    def execute(self, words, user=None, text='', limit=DEADLINE):
        """Runs a command, and tells all of it: returncode, stdout, stderr."""
        return subprocess.run(self.command(words, user), input=text, capture_output=True, text=True, check=False,
                              timeout=limit, cwd='/', env=environment())

    def run(self, *words, user=None, status=0, text='', limit=DEADLINE):
        """Runs a command that has to end with this status. What it says (on standard error, if it is to fail)."""
        done = self.execute(words, user, text, limit)
        if done.returncode != status:
            raise Broken(f'{" ".join(map(str, words))}: status {done.returncode}, not {status}\n'
                         f'{done.stdout[-3000:]}\n{done.stderr[-3000:]}')
        return done.stderr if status else done.stdout

    def ask(self, *words, user=None):
        """The first line that a command says, whatever its status is: for `systemctl is-active` and the like."""
        return self.execute(words, user).stdout.partition('\n')[0]

    def wait(self, what, ready):
        """Until ready() says something true, which is returned. `what` is what it waits for, if that does not come."""
        deadline = time.monotonic() + DEADLINE
        while True:
            result = ready()
            if result:
                return result
            if time.monotonic() > deadline:
                raise Broken(f'in vain: {what}; the console says:\n{self.said()[-3000:]}')
            time.sleep(0.02)

    # What machines have

    def add_user(self, name):
        """A user with a home; the number."""
        self.run('useradd', '--create-home', '--shell', '/bin/bash', name)
        return self.uid(name)

    def uid(self, name):
        for line in self.read('/etc/passwd').splitlines():
            fields = line.split(':')
            if fields[0] == name:
                return int(fields[2])
        raise Broken(f'there is no user {name}')

    def log_in(self, name):
        """Starts the user's own service manager, which stays: `systemctl --user` then works for this user."""
        # By a service: newer logind refuses who is in a control group that the container does not see, as run() is.
        self.run('systemd-run', '--quiet', '--wait', 'loginctl', 'enable-linger', name)
        self.wait(f'{name} has a service manager',
                  lambda: self.ask('systemctl', 'is-active', f'user@{self.uid(name)}') == 'active')

    def systemd_version(self):
        return int(self.ask('systemctl', '--version').split()[1])

    def journal(self, *options):
        """Lines of the journal, as `journalctl -o cat` has them."""
        return self.run('journalctl', '--no-pager', '-o', 'cat', *options)
