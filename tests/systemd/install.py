#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""install.py MESON BUILD SOURCE pages|no-pages: installs twice into a folder, as an upgrade does, with settings edited in
between; and tools/install refuses what makes no sense."""
import os
import re
import subprocess
import sys
import tempfile

meson, build, source, pages = sys.argv[1:5]


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


def install(destdir):
    result = subprocess.run(
        [meson, 'install', '-C', build, '--no-rebuild', '--destdir', destdir],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    need(result.returncode == 0, f'meson install:\n{result.stdout}')


def find(destdir, name, at=''):
    """The one file of this name, in a folder whose path ends like `at`."""
    found = [os.path.join(folder, name) for folder, _, names in os.walk(destdir) if name in names and folder.endswith(at)]
    need(len(found) == 1, f'{name} is installed {len(found)} times')
    return found[0]


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def check_units(destdir):
    """The units name what is installed, and have their sockets."""
    for name in 'system/confabd', 'system/confabd@', 'user/confabd', 'system/confab-gateway', 'user/confab-gateway':
        folder, name = name.partition('/')[0], f'/lib/systemd/{name}.service'
        units = [d + name for d, _, _ in os.walk(destdir) if os.path.exists(d + name)]
        need(len(units) == 1, f'{name} is installed {len(units)} times')
        need(os.path.exists(units[0].replace('.service', '.socket')), f'{name} has no socket')
        command = re.search(r'^ExecStart=(.*)$', read(units[0]), re.M)[1].split()
        flags = dict(word.lstrip('-').split('=', 1) for word in command[1:])
        need(os.access(destdir + command[0], os.X_OK), f'{command[0]} of {name} is not installed')
        need(os.path.isfile(destdir + flags['defaults']), f'the defaults of {name} are not installed')
        # A key that systemd 252 does not know would be warned of at each boot of a Debian 12.
        need(not re.search('^MemoryPressure', read(units[0]), re.M), f'{name} has a line that not every systemd knows')
        need(('ProtectSystem=strict' in read(units[0])) == (folder == 'system'), f'the sandbox of {name}')


def check_model(destdir):
    """The model that the defaults name is there."""
    model = re.search(r'^model = (.*)$', read(find(destdir, 'confabd.conf', '/share/confab')), re.M)[1]
    need(os.path.isfile(destdir + model), f'{model} is not installed')


def files_below(folder):
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}


def check_page(destdir):
    """The page is there as it is in the tree."""
    folder = os.path.dirname(find(destdir, 'index.html'))
    have, want = files_below(folder), files_below(os.path.join(source, 'client/gateway/page'))
    need(folder.endswith('/share/confab/page') and have == want, f'{folder}: {have ^ want}')


def check_monitoring(destdir):
    """The alerts are where prometheus.yml says, and beside them all that docs/monitoring.md names."""
    settings = find(destdir, 'prometheus.yml', '/share/doc/confab/monitoring')
    need(re.search(r'- /usr(/share/doc/confab/monitoring/confab-alerts\.yml)$', read(settings), re.M), 'prometheus.yml names other alerts')
    have = files_below(os.path.dirname(settings))
    need(have == files_below(os.path.join(source, 'docs/monitoring')) and 'confab-alerts.yml' in have, f'of docs/monitoring: {have}')


def check_shells(destdir):
    """Where the shells and man(1) look."""
    for name, folder in (('confab', '/share/bash-completion/completions'), ('_confab', ''), ('confab.fish', '/share/fish/vendor_completions.d')):
        found = [at for at, _, names in os.walk(destdir) if name in names and '/bin' not in at]
        need(len(found) == 1 and found[0].endswith(folder), f'{name} is in {found}')
    for name in ('confab.1', 'confab-say.1', 'confab-model.1', 'confab-model.1confab', 'libconfab.3', 'confab_call.3', 'confab-protocol.7', 'confab-journal.7'):
        if pages == 'pages' or name in ('confab-model.1', 'confab-journal.7'):
            section = name.split('.')[1][0]
            need(find(destdir, name).endswith(f'/man{section}/{name}'), f'{name} is not in man{section}')


def check_filter(unit):
    """Restores need these calls to be fast, and go on without: so nothing else would notice that they are refused."""
    allowed = {}
    for words in re.findall(r'^SystemCallFilter=(.*)$', unit, re.M):
        for word in words.lstrip('~').split():
            for call in ['sched_setaffinity'] if word == '@resources' else [word]:
                allowed[call] = not words.startswith('~')
    for call in 'mincore', 'sched_setaffinity':
        need(allowed.get(call), f'the unit refuses {call}')


def check_upgrade(destdir):
    install(destdir)
    check_units(destdir)
    check_page(destdir)
    check_monitoring(destdir)
    check_shells(destdir)
    check_model(destdir)
    unit = read(find(destdir, 'confabd.service', '/system'))
    check_filter(unit)
    command = re.search(r'^ExecStart=(.*)$', unit, re.M)[1].split()
    flags = dict(word.lstrip('-').split('=', 1) for word in command[1:])
    need(os.access(destdir + command[0], os.X_OK), f'{command[0]} of the unit is not installed')
    if 'defaults' in flags:
        need(os.path.isfile(destdir + flags['defaults']), 'the defaults that the unit reads are not installed')
    edited = destdir + flags['config']
    text = '# edited\nmodel = /srv/mine.gguf\nthreads = 3\n'
    os.makedirs(os.path.dirname(edited), exist_ok=True)
    with open(edited, 'w', encoding='utf-8') as f:
        f.write(text)
    install(destdir)
    need(read(edited) == text, f'the upgrade replaced the edited {flags["config"]}')
    need(os.listdir(os.path.dirname(edited)) == [os.path.basename(edited)],
         f'the upgrade put files beside {flags["config"]}')
    need('defaults' in flags, 'the unit names no file of defaults')


def check_refusals(name, cases):
    tool = os.path.join(source, 'tools', name)
    for words, message in cases:
        result = subprocess.run([tool, *words], text=True, capture_output=True, check=False)
        need(result.returncode == 1 and message in result.stderr, f'tools/{name} {words}: {result}')
    result = subprocess.run([tool, '--help'], text=True, capture_output=True, check=False)
    need(result.returncode == 0 and f'tools/{name} ' in result.stdout and ' DIR ' in result.stdout, f'tools/{name} --help: {result}')


A_FILE = os.path.join(source, 'tools/install')
INSTALL = ((['--prefix'], 'a folder is missing'), (['--prefix', 'usr'], 'the whole path'), (['--prefix=/'], 'not /'),
           (['--destdir', A_FILE], 'is no folder'), (['--prefx=/usr'], 'unknown argument'), (['usr'], 'unknown argument'))
PACKAGE = ((['rpm'], 'no kind of package'), (['deb', '--out'], 'a value is missing'), (['deb', '--out', A_FILE], 'is no folder'),
           (['deb', '--revision', '-1'], 'a number'), (['deb', '--revision=1 2'], 'a number'), (['deb', 'x'], 'unknown argument'))

with tempfile.TemporaryDirectory(prefix='confab-install-') as folder:
    check_upgrade(folder)
check_refusals('install', INSTALL)
check_refusals('package', PACKAGE)
print('an upgrade keeps what was edited')
