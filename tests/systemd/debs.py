# SPDX-License-Identifier: MIT
"""The Debian packages of the tree, for tests that boot a Debian with them: made once, by whoever comes first.

    given = debs.arguments(__doc__)          # --cache, --suite, --debs; skips the test where there can be none
    with debs.machine(given) as (box, first, later):
        debs.install(box, first)             # the packages; those in `later` are the same with a higher version

What is promised:

1. The packages are those of the tree as it is: they are kept in build-package/tests under a hash of all files that go
   into them. Two tests that need the same wait for each other. Those of other states of the tree are removed.
2. Packages that lintian finds errors in are never kept.
3. Neither the root nor the packages need a network once they were made.
"""
import argparse
import concurrent.futures
import contextlib
import fcntl
import glob
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import container

# What the packages need to run, so that apt needs no network.
NEEDED = ['libedit2', 'libjansson4', 'liblz4-1', 'libpq5', 'libprotobuf-c1', 'libsodium23', 'libsqlite3-0']
LIBEVENT = {'bookworm': '2.1-7'}
ANY_LIBEVENT = '2.1-7t64'
HIREDIS = {'bookworm': 'libhiredis0.14'}
ANY_HIREDIS = 'libhiredis1.1.0'
# Those that need no Python, which a bare Debian has not.
PACKAGES = 'confab confabd confab-gateway confab-model libconfab1 libconfab-dev'.split()


# Tests, and their steps

def need(ok, words):
    if not ok:
        raise container.Broken(words)


@contextlib.contextmanager
def step(what):
    began = time.monotonic()
    try:
        yield
    except container.Broken as e:
        sys.exit(f'FAILED: {what}: {e}')
    print(f'# {time.monotonic() - began:5.1f} s  {what}', flush=True)


class Tap:
    """Steps of a test as TAP has them, so that one that is left out is seen."""

    def __init__(self):
        self.n = 0

    def tell(self, what):
        self.n += 1
        print(f'ok {self.n} - {what}', flush=True)

    def step(self, what, run, why_not=None):
        """`why_not`: the reason for which there is nothing to run here. What run() returns."""
        if why_not:
            return self.tell(f'{what} # SKIP {why_not}')
        with step(what):
            result = run()
        self.tell(what)
        return result

    def end(self):
        print(f'1..{self.n}')


def skip(why, tap):
    print(f'1..0 # SKIP {why}' if tap else f'SKIP: {why}')
    sys.exit(0 if tap else 77)


def arguments(words, tap=False, more=()):
    """Of a test on SOURCE. Skips it, with the reason, where there can be no container or no packages. `more`: packages that the
    Debian has besides."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('source')
    parser.add_argument('--cache', default=container.default_cache())
    parser.add_argument('--suite', default='bookworm')
    parser.add_argument('--debs')
    given = parser.parse_args()
    given.needed = [*NEEDED, *(f'libevent-{part}-{LIBEVENT.get(given.suite, ANY_LIBEVENT)}' for part in ('core', 'extra', 'openssl')),
                    HIREDIS.get(given.suite, ANY_HIREDIS), *more]
    why = (container.why_not() or container.why_no_root(given.cache, given.needed, given.suite) or
           (None if given.debs else why_no_packages(given.source)))
    if why:
        skip(why, tap)
    return given


@contextlib.contextmanager
def machine(given, group=None):
    """A bare Debian that has booted, and the folders of the packages and of those with a higher version. `group`: see
    container.Container."""
    with tempfile.TemporaryDirectory(prefix='confab-debs-') as folder, contextlib.ExitStack() as stack:
        with step('Debian, and packages'), concurrent.futures.ThreadPoolExecutor() as pool:
            root = pool.submit(container.make_root, given.cache, given.needed, given.suite)
            first, later = given.debs, folder
            if first:
                make_next(first, later)
            else:
                first, later = stack.enter_context(of_tree(given.source))
            given.root = root.result()
        with step('boot'):
            box = stack.enter_context(container.Container(given.root, group=group))
        yield box, first, later


# Making them

def why_no_packages(source):
    """What tools/package would have to install first: a test installs nothing."""
    done = subprocess.run(
        ['bash', '-c', '. tools/lib.sh; confab_missing_packages "${CONFAB_BUILD_PACKAGES[@]}" "${CONFAB_PACKAGE_PACKAGES[@]}"'],
        cwd=source, capture_output=True, text=True, check=True)
    missing = done.stdout.split()
    return f'no {", no ".join(missing)} to make packages with (tools/check installs them)' if missing else None


def files_of_tree(source):
    """All that tools/package takes."""
    if os.path.exists(f'{source}/.git'):
        listed = subprocess.run(['git', '-C', source, 'ls-files', '-z', '--deduplicate'], capture_output=True, check=True).stdout
        names = [os.fsdecode(name) for name in listed.split(b'\0') if name]
    else:
        names = [os.path.relpath(os.path.join(folder, name), source) for folder, _, found in os.walk(source) for name in found]
        names = [name for name in names if not name.startswith(('build', '.git/', '.cache/'))]
    return sorted(name for name in names if not name.startswith('tests/') and os.path.exists(f'{source}/{name}'))


def mark_of_tree(source):
    mark = hashlib.sha256()
    for name in files_of_tree(source):
        content = pathlib.Path(source, name).read_bytes()
        mark.update(f'{name}\0{os.access(f"{source}/{name}", os.X_OK)}\0{len(content)}\0'.encode('utf-8', 'surrogateescape'))
        mark.update(content)
    return mark.hexdigest()[:16]


def make_both(source, kept, here):
    half = kept / 'new'
    for old in [path for path in kept.iterdir() if path.is_dir()]:
        shutil.rmtree(old)
    for name in 'first', 'later':
        (half / name).mkdir(parents=True)
    make_packages(source, half / 'first')
    make_next(half / 'first', half / 'later')
    half.rename(here)


@contextlib.contextmanager
def of_tree(source):
    """The folders of the tree's packages, which stay while they are used."""
    kept = pathlib.Path(source, 'build-package/tests')
    kept.mkdir(parents=True, exist_ok=True)
    here = kept / mark_of_tree(source)
    with open(kept / 'lock', 'wb') as lock:
        # What another test has removed or made while this one waited for the lock is seen in the next round.
        fcntl.flock(lock, fcntl.LOCK_SH)
        while not here.exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not here.exists():
                make_both(source, kept, here)
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield str(here / 'first'), str(here / 'later')


def make_packages(source, folder):
    """Lintian looks at them, too."""
    done = subprocess.run([f'{source}/tools/package', 'deb', f'--out={folder}'], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    need(done.returncode == 0, done.stdout[-4000:])
    need('lintian: done' in done.stdout, f'lintian did not look: {done.stdout}')


def make_next(folder, target):
    """The same packages with a higher version."""
    for deb in glob.glob(f'{folder}/*.deb'):
        tree = f'{target}/tree'
        subprocess.run(['dpkg-deb', '--raw-extract', deb, tree], check=True)
        control = pathlib.Path(tree, 'DEBIAN/control')
        control.write_text(re.sub(r'(?m)(^Version: \S*|\(= [^)]*)', r'\1+next', control.read_text('utf-8')), 'utf-8')
        subprocess.run(['dpkg-deb', '-Znone', '--build', tree, target], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(tree)


# In a container

def apt(box, verb, *words):
    """apt has no list of packages and no network: all that is needed must be there. Its words."""
    return box.run('apt-get', '--quiet', '--assume-yes', '--no-install-recommends', verb, *words)


def install(box, folder):
    box.path('/root/debs').mkdir(exist_ok=True)
    for name in PACKAGES:
        [deb] = glob.glob(f'{folder}/{name}_*.deb')
        shutil.copy(deb, box.path('/root/debs'))
    apt(box, 'install', *(f'/root/debs/{name}' for name in os.listdir(box.path('/root/debs'))))
    shutil.rmtree(box.path('/root/debs'))


def unit(box, name, figure):
    return box.ask('systemctl', 'show', '--value', '-p', figure, name)


def files(box):
    """Names of all that is of confab, but for what the users have, and what the machine notes of its doings."""
    ours = [word for folder in ('/home', '/run/user', '/var/log', '/var/cache', '/proc', '/sys')
            for word in ('-path', folder, '-prune', '-o')]
    return sorted(box.run('find', '/', *ours, '-iname', '*confab*', '-print').split())


def purge(box, before, names=PACKAGES):
    """Purging leaves nothing. `names`: of those packages that have something left."""
    said = apt(box, 'purge', *names)
    need('conversations in /var/lib/confab' in said, f'nobody is told what is deleted: {said}')
    need(files(box) == before, f'left behind: {sorted(set(files(box)) - set(before))}')
    for user in 'confab', 'confab-gateway':
        box.run('getent', 'passwd', user, status=2)
        box.run('getent', 'group', user, status=2)
    need(box.ask('systemctl', 'is-system-running') == 'running', box.run('systemctl', '--failed', '--no-pager'))
