# SPDX-License-Identifier: MIT
"""What all checks share: the layer table of docs/design.md and the list of files."""
import os
import pathlib
import re
import sys

# Module: modules that it may use. A row names earlier rows only, so the table has no cycle.
MAY_USE = {
    'base': [],
    'service': ['base'],
    'quant': ['base'],
    'seq': ['base'],
    'sample': ['base'],
    'draft': ['base'],
    'grammar': ['base'],
    'spill': ['base'],
    'store': ['base'],
    'remote': ['base'],
    'gguf': ['base', 'quant'],
    'kern': ['base', 'quant'],
    'tok': ['base', 'gguf'],
    'model': ['base', 'quant', 'gguf', 'kern', 'seq'],
    'jinja': ['base'],
    'chat': ['base', 'tok', 'jinja'],
    'engine': ['base', 'quant', 'seq', 'sample', 'draft', 'grammar', 'spill', 'store', 'remote', 'gguf', 'kern', 'tok', 'model', 'jinja', 'chat'],
    'proto': ['base'],
    'client': ['base', 'proto', 'service'],
    'daemon': ['base', 'proto', 'service', 'engine'],
    'tools': ['base', 'quant', 'seq', 'sample', 'draft', 'grammar', 'spill', 'store', 'remote', 'gguf', 'kern', 'tok', 'model', 'jinja', 'chat',
              'engine'],
}
for _i, (_mod, _uses) in enumerate(MAY_USE.items()):
    assert all(u in list(MAY_USE)[:_i] for u in _uses), f'{_mod}: row names a later module'

# Folders inside a module, the lowest first. A file includes the public headers (<floor>/<floor>.h) of the
# floors below its own and all headers of its own, and calls nothing of a floor above; files in the
# module's folder itself (the public header, what all floors share) may be included by all.
FLOORS = {
    'lib/engine': ['budget', 'io', 'conv', 'disk', 'far', 'memory', 'request', 'run', 'verbs', 'main'],
}

# Files that share a prefix and are floors without folders, the lowest first: none needs a file behind it in its row, and each
# file with the prefix has a place.
LADDERS = {
    'client/gateway/http-': ['head', 'chunk', 'users', 'turn', 'deadline', 'exchange', 'write', 'read', 'conn', 'server'],
}

LIB = ['base', 'service', 'quant', 'seq', 'sample', 'draft', 'grammar', 'spill', 'store', 'remote', 'gguf', 'kern', 'tok', 'model', 'jinja', 'chat', 'engine']

# The public header of a module is <module>/<module>.h; these differ. base has many.
PUBLIC = {'chat': ['chat.h', 'reply.h'], 'client': ['confab.h'], 'proto': ['proto.h', 'confab.pb-c.h'],
          'service': ['conf.h', 'listener.h', 'log.h', 'logged.h', 'loop.h', 'notify.h', 'secret.h', 'uid.h']}

# Headers from outside: who may include them.
EXTERNAL = [
    (r'event2/|event\.h|ev(dns|http|rpc|util)\.h', 'libevent', ['service', 'daemon', 'client']),
    (r'systemd/', 'libsystemd', ['service', 'daemon', 'client']),
    (r'lz4', 'liblz4', ['spill']),
    (r'xxhash', 'libxxhash', ['base', 'spill']),
    (r'sodium', 'libsodium', ['engine']),
    (r'sqlite3', 'libsqlite3', ['store']),
    (r'libpq-fe', 'libpq', ['store']),
    (r'hiredis', 'libhiredis', ['remote']),
    (r'openssl/', 'libssl', ['remote', 'client']),
    (r'histedit', 'libedit', ['client']),
    (r'jansson', 'libjansson', ['client']),
    (r'protobuf-c/', 'libprotobuf-c', ['proto']),
    (r'\w*mmintrin\.h|x86intrin\.h|cpuid\.h|arm_\w+\.h', 'instruction sets', ['kern', 'spill']),
]

# Where code of one instruction set may stand: kernels, chosen at run time.
SIMD_FOLDERS = ('lib/kern/', 'lib/spill/codec/', 'lib/base/dmath-exp.c')

# (module, library): the folders of the module that the library is kept to.
KEPT_TO = {
    ('client', 'libevent'): ('client/gateway/', 'client/examples/'),
    ('client', 'libsystemd'): ('client/gateway/',),
    ('client', 'libjansson'): ('client/gateway/',),
    ('client', 'libssl'): ('client/gateway/',),
    ('kern', 'instruction sets'): SIMD_FOLDERS,
    ('spill', 'instruction sets'): SIMD_FOLDERS,
}

# Headers of the C library, the kernel and the compiler, for everyone.
SYSTEM = re.compile(
    r'(assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|'
    r'stdatomic|stdbool|stddef|stdint|stdio|stdio_ext|stdlib|stdnoreturn|string|strings|tgmath|threads|time|uchar|'
    r'wchar|wctype|byteswap|dirent|dlfcn|endian|err|fcntl|fnmatch|ftw|getopt|glob|grp|langinfo|libgen|malloc|'
    r'netdb|poll|pthread|pty|pwd|sched|search|semaphore|spawn|syslog|termios|ucontext|unistd|utime|wordexp)\.h$'
    r'|(sys|linux|netinet|arpa|net|sanitizer)/')

SKIP_FOLDERS = re.compile(r'^(\.|build|__pycache__$|node_modules$)')


def module_of(path):
    """The module that a path below the root belongs to, or None."""
    parts = pathlib.PurePath(path).parts
    if parts[:2] == ('client', 'examples'):  # programs of others, which use what is installed
        return None
    if len(parts) > 2 and parts[0] == 'lib' and parts[1] in LIB:
        return parts[1]
    if len(parts) > 1 and parts[0] in MAY_USE and parts[0] not in LIB:
        return parts[0]
    return None


def floor_of(path):
    """(folder of the module, floor) of a path below the root, or None."""
    parts = pathlib.PurePath(path).parts
    for folder, floors in FLOORS.items():
        n = len(pathlib.PurePath(folder).parts)
        if '/'.join(parts[:n]) == folder and len(parts) > n + 1:
            return folder, parts[n] if parts[n] in floors else None
    return None


def files(root, suffixes=('.c', '.h')):
    """Paths below root, as text relative to it, sorted; '' stands for files without a suffix."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [d for d in folders if not SKIP_FOLDERS.match(d) or d == '.ci']
        for name in names:
            if name == '.git':  # a worktree's pointer to its repository
                continue
            if os.path.splitext(name)[1] in suffixes and not name.endswith(('.pb-c.c', '.pb-c.h')):
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def read(root, path):
    return pathlib.Path(root, path).read_text(encoding='utf-8')


def code_only(text):
    """C text without comments and the insides of literals; lines stay where they are."""
    def blank(match):
        s = match[0]
        if s[0] in '"\'':
            return s[0] * 2
        return re.sub(r'[^\n]', ' ', s)
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


class Report:
    """Collects what is wrong; the exit status of a check."""

    def __init__(self):
        self.n_bad = 0

    def bad(self, path, line, message):
        print(f'{path}:{line}: {message}')
        self.n_bad += 1

    def finish(self, n_checked):
        print(f'{n_checked} files checked, {self.n_bad} problems')
        if n_checked == 0:
            print('nothing to check: wrong folder?')
            sys.exit(1)
        sys.exit(1 if self.n_bad else 0)


def skip(reason):
    print('SKIP:', reason)
    sys.exit(77)
