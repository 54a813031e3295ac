#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""packages.py SOURCE [--cache FOLDER] [--suite SUITE] [--debs FOLDER]

The Debian packages of tools/package, in a bare Debian that has booted: installed, used, upgraded with edited settings and a
register of the first version, removed and purged. Skipped, with the reason, where that cannot be done.

    --cache FOLDER   where the Debian is kept for the next time
    --suite SUITE    another Debian than bookworm, with a newer systemd
    --debs FOLDER    packages that are there already, of this tree
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import container
import debs
import old_register
from debs import apt, files, install, need, step, unit

SETTINGS = '# edited\nmax-conversations = 7\n'
MODEL = '/usr/share/confab/models/confab-small.q8_0.gguf'


def names(box, user, *flags):
    """Conversations that a user sees."""
    return [c['name'] for c in json.loads(box.run('confab', *flags, 'ls', '--json', user=user))['conversations']]


def say(box, user, name, words, *flags):
    return box.run('confab', *flags, 'say', name, '--temperature', '0', '--max-tokens', '30', words, user=user).strip()


def check_installed(box):
    """The socket listens; the daemon starts with its first client, and systemd has nothing to say against the units."""
    need(unit(box, 'confabd.socket', 'ActiveState') == 'active', 'the socket is not open after installation')
    need(box.ask('systemctl', 'is-enabled', 'confabd.socket') == 'enabled', 'the socket is not enabled')
    need(box.ask('systemctl', 'is-enabled', 'confabd.service') == 'disabled', 'the service is enabled')
    need(unit(box, 'confabd.service', 'ActiveState') == 'inactive', 'the daemon runs before anybody asks')
    need('confab-small' in box.run('confab', 'model', user='anna'), 'the bundled model does not answer')
    need(unit(box, 'confabd.service', 'ActiveState') == 'active', 'the daemon was not started by its first client')
    for name in 'confabd', 'confab-gateway':
        box.run('systemd-analyze', 'security', '--no-pager', f'--threshold={12 if "gateway" in name else 10}', name)
    # Told by systemd of memory pressure, where it can.
    pid = unit(box, 'confabd.service', 'MainPID')
    watched = 'MEMORY_PRESSURE_WATCH=/sys/fs/cgroup/' in box.run('cat', f'/proc/{pid}/environ')
    known = box.systemd_version() >= 254 and box.path('/sys/fs/cgroup/system.slice/confabd.service/memory.pressure').exists()
    need(watched == known, f'told of memory pressure: {watched}, and systemd knows of it: {known}')


def check_talk(box):
    """Somebody talks; another user sees nothing of it."""
    box.run('confab', 'open', 'trip', '--system', 'You are a helpful assistant.', user='anna')
    say(box, 'anna', 'trip', 'My name is Nora.')
    need('Nora' in say(box, 'anna', 'trip', 'What is my name?'), 'the model does not remember')
    need(names(box, 'anna') == ['trip'], 'the conversation is not in the list')
    need(names(box, 'bob') == [], 'another user sees the conversation')
    box.run('confab', 'show', 'trip', user='bob', status=3)
    box.run('confab', '--as-uid', box.uid('anna'), 'ls', user='bob', status=1)


def check_settings(box):
    """One line makes it another daemon; a wrong one is refused, and the daemon goes on."""
    box.write('/etc/confab/confabd.conf', SETTINGS)
    box.run('systemctl', 'restart', 'confabd')
    shown = box.run('confabd', '--check', '--defaults=/usr/share/confab/confabd.conf', '--config=/etc/confab/confabd.conf')
    need('max-conversations' in shown, f'--check does not tell of the settings: {shown}')
    box.write('/etc/confab/confabd.conf', SETTINGS + 'bogus = 3\n')
    box.run('systemctl', 'reload', 'confabd', status=1)
    need(names(box, 'anna') == ['trip'], 'the daemon did not go on with the settings that it had')
    box.write('/etc/confab/confabd.conf', SETTINGS)


def ask_gateway(box, path):
    """A GET by the gateway's socket; all of the answer."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(container.DEADLINE)
        s.connect(str(box.path('/run/confab/gateway.sock')))
        s.sendall(f'GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nConnection: close\r\n\r\n'.encode())
        return b''.join(iter(lambda: s.recv(65536), b'')).decode()


def check_gateway(box):
    need('"status":"ok"' in ask_gateway(box, '/health'), 'the gateway reaches no model')
    need('<title>confab</title>' in ask_gateway(box, '/'), 'the gateway has no page')
    need('"conversations":[' in ask_gateway(box, '/confab/v1/conversations'), 'the gateway may not act for those who ask')


def check_trust(box):
    """The package's settings let the gateway act for others, and the administrator's line takes that back."""
    box.write('/etc/confab/confabd.conf', SETTINGS + 'trusted-users = root\n')
    box.run('systemctl', 'reload', 'confabd')
    answer = ask_gateway(box, '/confab/v1/conversations')
    need('may not act for user' in answer, f'the gateway is trusted against what the administrator says: {answer}')
    box.write('/etc/confab/confabd.conf', SETTINGS)
    box.run('systemctl', 'reload', 'confabd')


def check_instance(box):
    """A second model: settings, state and socket of its own. Names that clash or have no settings are refused."""
    box.write('/etc/confab/confabd@second.conf', f'model = {MODEL}\npool-size = 64M\n')
    box.run('systemctl', 'enable', '--now', 'confabd@second.socket')
    there = ('--socket', '/run/confab/second.sock')
    box.run('confab', *there, 'open', 'other', user='anna')
    need(names(box, 'anna', *there) == ['other'] and names(box, 'anna') == ['trip'], 'two daemons share conversations')
    need(box.path('/var/lib/confab@second/register.db').exists(), 'it has no state folder of its own')
    box.run('systemd-analyze', 'security', '--no-pager', '--threshold=10', 'confabd@second')
    box.run('systemctl', 'reload', 'confabd@second')
    box.write('/etc/confab/confabd@gateway.conf', '')
    for wrong in 'missing', 'gateway':
        box.run('systemctl', 'start', f'confabd@{wrong}.socket', status=1)
    box.path('/etc/confab/confabd@gateway.conf').unlink()
    box.run('systemctl', 'reset-failed')
    check_gateway(box)


def check_user(box):
    """A daemon of one's own: the command finds it, and finds the system's again when it has gone."""
    box.log_in('anna')
    box.write('/home/anna/.config/confab/confabd.conf', 'pool-size = 64M\n', user='anna')
    box.run('systemctl', '--user', 'enable', '--now', 'confabd.socket', user='anna')
    box.run('confab', 'open', 'mine', user='anna')
    need(names(box, 'anna') == ['mine'] and names(box, 'bob') == [], 'the command does not find the daemon of its user')
    need(box.run('systemctl', '--user', 'is-active', 'confabd.service', user='anna') == 'active\n', 'who has answered?')
    box.run('systemctl', '--user', 'reload', 'confabd.service', user='anna')
    need('confab-small' in box.run('confab', 'admin', 'status', user='anna'), 'whose the daemon is may not look after it')
    need(box.path('/home/anna/.local/state/confab/register.db').exists(), 'it has no state of its own')
    folder = f'/run/user/{box.uid("anna")}/confab'
    need(box.ask('stat', '-c', '%a', folder) == '700', f'others may look into {folder}')
    box.run('systemctl', '--user', 'disable', '--now', 'confabd.socket', 'confabd.service', user='anna')
    need(names(box, 'anna') == ['trip'], 'the command does not find the daemon of the system')


def fetch(box, state, folder):
    """A copy of the register of a daemon that has ended: SQLite follows links, and /proc has one to the container."""
    copy = tempfile.mkdtemp(dir=folder)
    for name in 'register.db', 'register.db-wal':
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(box.path(f'{state}/{name}'), copy)
    return f'{copy}/register.db'


def check_power(box):
    """The power fails, and comes back: all sockets that were enabled are open, and nothing of what was said is lost."""
    box.kill()
    box.start()
    need('Nora' in say(box, 'anna', 'trip', 'What is my name?'), 'the model does not remember after a power failure')
    need(names(box, 'anna', '--socket', '/run/confab/second.sock') == ['other'], 'the second model has lost something')
    check_gateway(box)


def make_old(box, source, folder):
    """The register becomes one of the first version."""
    box.run('systemctl', 'stop', 'confabd.service')
    new = fetch(box, '/var/lib/confab', folder)
    old = f'{folder}/old.db'
    old_register.make(source, new, old)
    need(old_register.version(old) == 1 < old_register.version(new), 'the register is not an old one')
    box.run('sh', '-c', 'rm -f /var/lib/confab/register.db-*')
    # The file stays, with its owner and mode.
    box.path('/var/lib/confab/register.db').write_bytes(pathlib.Path(old).read_bytes())


def check_upgrade(box, later, folder):
    """What an administrator wrote is as it was, clients find the socket all the time, daemons that run are new ones, and a
    register of the first version is taken over: what was said goes on."""
    before = [unit(box, name, 'InvocationID') for name in ('confabd@second.service', 'confabd.socket')]
    install(box, later)
    need(box.read('/etc/confab/confabd.conf') == SETTINGS, 'the upgrade changed the settings')
    after = [unit(box, name, 'InvocationID') for name in ('confabd@second.service', 'confabd.socket')]
    need(after[0] and after[0] != before[0], 'a daemon that ran is still the old one')
    need(after[1] == before[1], 'the socket was closed')
    need(names(box, 'anna') == ['trip'], 'the conversation is gone')
    need('Nora' in say(box, 'anna', 'trip', 'What is my name?'), 'the model does not remember after the upgrade')
    shown = json.loads(box.run('confab', 'show', 'trip', '--json', user='anna'))
    need(len(shown['turns']) == 9, f'turns are missing: {shown}')
    check_gateway(box)
    box.run('systemctl', 'stop', 'confabd.service', 'confabd@second.service')
    versions = [old_register.version(fetch(box, f'/var/lib/{name}', folder)) for name in ('confab', 'confab@second')]
    need(versions[0] == versions[1], f'the register was not taken over: {versions}')


def check_removal(box, before):
    """Removing keeps what is the administrator's and the users'; purging leaves nothing."""
    apt(box, 'remove', *debs.PACKAGES)
    need(box.read('/etc/confab/confabd.conf') == SETTINGS, 'removing took the settings away')
    need(box.path('/var/lib/confab/register.db').exists(), 'removing took the conversations away')
    left = box.run('systemctl', 'list-units', '--type=service,socket', '--state=active', '--no-legend', '*confab*')
    need(not left, f'units are still there: {left}')
    need(not box.path('/run/confab/confab.sock').exists(), 'a socket is still there')
    # The others have nothing left.
    debs.purge(box, before, ['confabd', 'confab-gateway'])


def check_journal(box):
    """Nothing that systemd warns of: keys that it does not know, what it ignores."""
    lines = [line for line in box.journal('-p', 'warning').splitlines() if 'confab' in line.lower()]
    # Of the wrong setting, and of the names that were refused.
    asked_for = ('bogus', 'Assertion failed', 'control process exited', 'Reload failed')
    lines = [line for line in lines if not any(words in line for words in asked_for)]
    need(not lines, 'warnings in the journal:\n' + '\n'.join(lines))


def check_explanations(box):
    """journalctl -x explains what the services said; it knows each of their messages by its MESSAGE_ID."""
    # By the name of the program: of one that has ended already, the journal may not know the unit.
    for which, words in ((('-u', 'confabd.service'), 'Subject: The service is ready'),
                         (('-u', 'confabd.service'), 'Of confabd there are also the model (/usr/share/confab/models/'),
                         (('-t', 'confabd'), 'Subject: The settings have a mistake'),
                         (('-t', 'confab-gateway'), 'Documentation: man:confab-journal(7)')):
        said = box.run('journalctl', '--no-pager', '-x', *which)
        need(words in ' '.join(said.replace('░░', '').split()), f'no explanation "{words}": {said[-3000:]}')
    lines = [json.loads(line) for line in
             box.run('journalctl', '--no-pager', '-o', 'json', 'SYSLOG_IDENTIFIER=confabd', '+', 'SYSLOG_IDENTIFIER=confab-gateway').splitlines()]
    ids = {line.get('MESSAGE_ID') for line in lines if int(line['PRIORITY']) < 7}
    need(len(ids) >= 4 and None not in ids, f'lines of confab without an event: {lines}')
    for name in sorted(ids):
        need('Defined-By: confab' in box.run('journalctl', '--dump-catalog', name), f'{name} has no explanation')


def walk(box, source, first, later, folder):
    with step('installed'):
        before = files(box)
        box.add_user('anna')
        box.add_user('bob')
        install(box, first)
        check_installed(box)
    with step('talk, settings'):
        check_talk(box)
        check_settings(box)
    with step('gateway'):
        check_trust(box)
        check_gateway(box)
    with step('a second model'):
        check_instance(box)
    with step('a user\'s own'):
        check_user(box)
    with step('power failure'):
        check_journal(box)
        check_explanations(box)
        check_power(box)
    with step('upgrade, with a register of version 1'):
        make_old(box, source, folder)
        check_upgrade(box, later, folder)
    with step('journal, removal, purge'):
        check_journal(box)
        check_removal(box, before)


def check_nothing_stays(root, folder):
    """A test that is killed takes its container with it."""
    code = ('import os, signal, sys; sys.path.insert(0, sys.argv[1]); import container\n'
            'with container.Container(sys.argv[2]) as box:\n'
            '    print(box.holder.pid, flush=True)\n'
            '    os.kill(os.getpid(), signal.SIGKILL)')
    done = subprocess.run([sys.executable, '-B', '-c', code, os.path.dirname(container.__file__), str(root)],
                          capture_output=True, text=True, check=False, env=dict(os.environ, TMPDIR=folder))
    need(done.returncode == -signal.SIGKILL, f'the other did not come to that: {done.stderr}')
    holder, deadline = int(done.stdout), time.monotonic() + container.DEADLINE
    # Whoever is left by its parent is somebody else's child, who has to wait for it.
    while os.path.exists(f'/proc/{holder}/ns/pid') and time.monotonic() < deadline:
        time.sleep(0.02)
    mounts = pathlib.Path('/proc/mounts').read_text('utf-8')
    need(not os.path.exists(f'/proc/{holder}/ns/pid') and folder not in mounts, 'the container is still there')


def main():
    given = debs.arguments(__doc__)
    with tempfile.TemporaryDirectory(prefix='confab-packages-') as folder:
        with debs.machine(given) as (box, first, later):
            walk(box, given.source, first, later, folder)
            with step('shutdown'):
                box.stop()
        with step('nothing stays of a test that is killed'):
            check_nothing_stays(given.root, folder)
    print('installed, upgraded, purged')


main()
