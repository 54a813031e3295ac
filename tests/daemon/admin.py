#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""admin.py CONFABD CONFAB SOURCE: an administrator's day with confab admin, on the real daemon: status, settings, users, acts on
users and tenants, limits, drain, backup, restore into another folder, and the journal of it.

What is compared: after a restore, replies of the restored conversations are those of the first daemon, token for token."""
import json
import os
import pathlib
import pty
import pwd
import re
import select
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

confabd, confab, source = sys.argv[1:4]
MODEL = f'{source}/models/confab-small.q8_0.gguf'
GUEST = '54330'
DAY = (int(time.time()) // 86400 + 1) * 86400000000  # when the day ends on which this began
ME = pwd.getpwuid(os.getuid()).pw_name
WIDTH = 512  # of a block of a tar archive


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


class Daemon:
    def __init__(self, folder, name):
        self.folder, self.socket, self.state = folder, f'{folder}/{name}.socket', f'{folder}/{name}.state'
        self.config, self.log, self.process = f'{folder}/{name}.conf', f'{folder}/{name}.log', None

    def start(self):
        args = [confabd, '--model', MODEL, '--socket', self.socket, '--state', self.state, '--config', self.config]
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(args, stderr=log)
        deadline = time.monotonic() + 60
        while self.command('stats').returncode:
            need(self.process.poll() is None and time.monotonic() < deadline, f'no daemon: {self.said()}')
            time.sleep(0.02)

    def said(self):
        return pathlib.Path(self.log).read_text(errors='replace')

    def stop(self):
        self.process.terminate()
        need(self.process.wait(60) == 0, f'the daemon did not end well: {self.said()}')

    def command(self, *args, **how):
        how = {'stdin': subprocess.DEVNULL, 'timeout': 120, **how}
        return subprocess.run([confab, '--socket', self.socket, *args], capture_output=True, check=False, **how)

    def run(self, *args, status=0):
        done = self.command(*args, text=True)
        need(done.returncode == status, f'{args}: status {done.returncode}: {done.stdout}{done.stderr}')
        return done.stdout

    def json(self, *args):
        return json.loads(self.run('--json', *args))

    def say(self, *args):
        lines = self.run('--json', *args, '--max-tokens', '12', '--ignore-eos', '--seed', '7').splitlines()
        return [t['token'] for e in map(json.loads, lines) if e['event'] == 'delta' for t in e['tokens']]

    def users(self, *args):
        return {(u['uid'], u.get('tenant')): u for u in self.json('admin', 'users', *args)['users']}


def look(daemon, config):
    """Status, settings, users."""
    status = daemon.run('admin', 'status')
    need('confab-small' in status and 'up ' in status and ME in status, f'status: {status}')
    whole = daemon.json('admin', 'status')
    need({'server', 'settings', 'model', 'stats', 'most_ram'} <= whole.keys(), f'status: {whole.keys()}')
    need('list-page = 7' in daemon.run('admin', 'settings') and f'{config}:2' in daemon.run('admin', 'settings', 'list-page'),
         'where a setting was given')
    need('disk-limit' not in daemon.run('admin', 'settings', '--changed'), 'a default is no change')
    daemon.run('admin', 'settings', 'no-such-setting', status=3)
    need([s['name'] for s in daemon.json('admin', 'settings', 'list-page')['settings']] == ['list-page'], 'one, as JSON')
    named = [s['name'] for s in daemon.json('admin', 'settings', '--changed')['settings']]
    need('list-page' in named and 'disk-limit' not in named, f'those that were given, as JSON: {named}')
    need('"not_found"' in daemon.run('--json', 'admin', 'settings', 'no-such-setting', status=3), 'none, as JSON')
    pathlib.Path(config).write_text('# edited\nlist-page = 9\nthreads = 1\npool-size = 64M\ndisk-floor = 0\n')
    text = daemon.run('admin', 'settings', '--changed')
    need('now 9: needs a reload' in text and 'now 1: needs a restart' in text, f'pending: {text}')
    need('wait for a restart: threads' in daemon.run('admin', 'status'), 'status tells what waits')
    users = daemon.users()
    own, tenant = users[os.getuid(), None], users[os.getuid(), 'anna']
    need(own['conversations'] == 2 and own['tokens'] > 20 and own['tokens_decoded'] == 24, f'users: {own}')
    need(tenant['conversations'] == 1 and tenant['tokens_decoded'] == 12, f'users: {tenant}')
    need(list(daemon.users('--sort', 'conversations', '--limit', '1')) == [(os.getuid(), None)], 'sorted and cut')
    need(f'{ME}:anna' in daemon.run('admin', 'users', ME), 'a tenant has its name')
    daemon.run('admin', 'users', '--sort', 'height', status=2)
    daemon.run('admin', 'users', 'nobody-of-this-name', status=3)
    daemon.run('--as-uid', '1000', 'admin', 'status', status=1)


def of_guest(daemon, *who):
    return {q['name']: q for q in daemon.json(*(who or ('admin', 'quota', GUEST)))['limits']}


def limits(daemon):
    """A user is at its limit, the administrator raises it. What users and quota tell agrees, also after a purge."""
    guest = '--as-uid', GUEST
    need('no limit is overridden' in daemon.command('admin', 'quota', text=True).stderr, 'nothing is overridden')
    daemon.run('admin', 'quota', GUEST, 'max-conversations=1', 'ram-share-per-user=20%')
    daemon.run(*guest, 'open', 'one')
    refused = daemon.command(*guest, 'open', 'two', text=True)
    need(refused.returncode == 5 and '(max-conversations = 1)' in refused.stderr
         and 'confab admin quota' in refused.stderr, f'who is at the limit hears what it is: {refused.stderr}')
    own = of_guest(daemon, *guest, 'quota')['max-conversations']
    need((own['value'], own['used'], own['origin']) == (1, 1, 'user'), f'quota: {own}')
    denied = daemon.command(*guest, 'admin', 'quota', GUEST, 'max-conversations=9', text=True)
    need(denied.returncode == 1 and 'only root, the admin group and the user whom the daemon runs as' in denied.stderr, f'not for the user: {denied.stderr}')
    need(' 2            1  max-conversations        user' in daemon.run('admin', 'quota', GUEST, 'max-conversations=2'),
         'the limit after the change')
    daemon.run(*guest, 'open', 'two')
    daemon.say(*guest, 'say', 'two', 'Tell me of the hills.')
    daemon.run('admin', 'evict', GUEST)
    quota, user, later = of_guest(daemon), daemon.users()[int(GUEST), None], of_guest(daemon)
    for name, figure in ('max-conversations', 'conversations'), ('max-user-tokens', 'tokens'), \
            ('disk-limit-per-user', 'disk_bytes'), ('max-user-requests', 'requests'), ('max-user-connections', 'connections'):
        need(quota[name]['used'] == user[figure], f'{name} and {figure} differ: {quota} {user}')
    need(user['conversations'] == 2 and user['tokens'] > 12 and user['disk_bytes'] > 0, f'users: {user}')
    day = later['max-user-tokens-per-day']
    need(day['used'] == user['tokens_prefilled'] + user['tokens_decoded'] or day['renews_usec'] != DAY, f'of the day: {day} {user}')
    daemon.run('admin', 'quota', GUEST, 'max-conversations=0')
    daemon.run('admin', 'purge', GUEST, '--yes')
    after = of_guest(daemon)
    need([after[n]['used'] for n in ('max-conversations', 'max-user-tokens', 'disk-limit-per-user')] == [0, 0, 0],
         f'a purge leaves nothing: {after}')
    need(after['max-user-tokens-per-day']['used'] == day['used'] or after['max-user-tokens-per-day']['renews_usec'] != DAY,
         f'what the day had is not given back: {after}')
    need(after['max-conversations']['value'] == 0, 'an override stays')


def act(daemon):
    need('3 conversations would be evicted' in daemon.run('admin', 'evict', ME, '--dry-run'), 'what would be evicted')
    need('3 conversations evicted' in daemon.run('admin', 'evict', ME), 'evict')
    need(daemon.users()[os.getuid(), None]['ram_bytes'] == 0, 'nothing is left in RAM')
    daemon.run('admin', 'cancel', f'{ME}:anna')
    daemon.run('admin', 'purge', f'{ME}:anna', status=2)
    need('1 conversation would be deleted' in daemon.run('admin', 'purge', f'{ME}:anna', '--dry-run'), 'dry run')
    need('1 conversation deleted' in daemon.run('admin', 'purge', f'{ME}:anna', '--yes'), 'purge')
    need(daemon.json('--tenant', 'anna', 'ls')['conversations'] == [], 'the tenant starts with nothing')
    daemon.run('admin', 'purge', f'{ME}:nobody', '--yes', status=3)
    daemon.run('--tenant', 'anna', 'ls')
    deadline = time.monotonic() + 60
    while (gone := daemon.command('admin', 'purge', f'{ME}:anna', '--yes', text=True)).returncode == 0:
        need(time.monotonic() < deadline, 'a purge leaves a label')  # until the connection has gone
    need(gone.returncode == 3 and 'has no tenant' in gone.stderr, f'a purge leaves no label: {gone.stderr}')
    for words in ('admin', 'quota'), ('admin', 'users'):
        unknown = daemon.command(*words, 'nobody-of-this-name', text=True)
        need(unknown.returncode == 3 and '#12' not in unknown.stderr, f'no hint at conversations: {unknown.stderr}')
    need("'#12'" in daemon.command('admin', 'evict', 'nobody-of-this-name', text=True).stderr, 'where they may be named')
    one = daemon.run('open').strip()
    number = daemon.json('show', one)['id']
    daemon.run('admin', 'close', one, status=2)
    daemon.run('admin', 'close', f'#{number}')
    daemon.run('show', one, status=3)


def drain(daemon):
    need('all memory is on disk' in daemon.run('admin', 'drain', '--timeout', '5'), 'drain')
    refused = daemon.command('say', 'a', 'hello', text=True)
    need(refused.returncode == 6 and 'drain --off' in refused.stderr, 'who is refused hears what to do')
    need('DRAINED' in daemon.run('admin', 'status'), 'status tells it')
    refused = daemon.command('--as-uid', GUEST, 'open', 'three', text=True)
    need(refused.returncode == 6 and 'drain --off' in refused.stderr, f'drained, whatever the limit is: {refused.stderr}')
    need(daemon.json('show', 'a')['n_turns'] == 2, 'reading goes on')
    daemon.run('admin', 'drain', '--off')
    need('DRAINED' not in daemon.run('admin', 'status'), 'status tells it')


def spoilt(archive):
    """Names and bytes of archives that are no backups."""
    data = archive.read_bytes()
    for at in (0, 100, WIDTH, WIDTH + 5000, len(data) - 3 * WIDTH, len(data) - 2 * WIDTH):
        yield f'cut at {at}', data[:at]
    for at in (0, 130, 150, WIDTH + 4096, data.index(b'export.key') + WIDTH + 3, data.index(b'"xxh64"') + 12):
        yield f'flipped at {at}', data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
    yield 'renamed', data.replace(b'export.key', b'export.kez')
    yield 'twice', data[:data.index(b'confab-backup/export')] * 2
    yield 'more behind', data + b'x'


def slowly(daemon, data, folder):
    """A restore from a pipe that is slow: a person sees how far it is."""
    master, slave = pty.openpty()
    with subprocess.Popen([confab, 'admin', 'restore', '-', f'{folder}/slow.state'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=slave, env={**os.environ, 'TERM': 'xterm'}) as process:
        os.close(slave)
        at = 0
        while at < len(data) and not select.select([master], [], [], 0.05)[0]:
            process.stdin.write(data[at:at + 512])
            process.stdin.flush()
            at += 512
        seen = os.read(master, 4096).decode()
        process.stdin.write(data[at:])
        process.stdin.close()
    os.close(master)
    need(process.returncode == 0 and re.match(r'\r\x1b\[Krestoring, [0-9.]+K?, \d+ s', seen), f'progress: {process.returncode} {seen!r}')


def until(process, what, ready):
    deadline = time.monotonic() + 60
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            need(False, what)
        time.sleep(0.01)


def has_unnamed(process, folder):
    """It has a file in the folder open that has no name."""
    links = [os.readlink(f.path) for f in os.scandir(f'/proc/{process.pid}/fd')]
    return any(link.startswith(f'{folder}/#') for link in links)


def interrupted(daemon, folder, archive):
    """Who ends a backup or a restore before its end leaves nothing behind."""
    folder = os.path.realpath(folder)
    before = set(os.listdir(folder))
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        print(f'no files without a name in {folder}: a backup that is interrupted leaves its own')
    else:
        daemon.process.send_signal(signal.SIGSTOP)
        with subprocess.Popen([confab, '--socket', daemon.socket, 'admin', 'backup', f'{folder}/broken.tar'], stdin=subprocess.DEVNULL) as process:
            until(process, 'a backup opens its file', lambda: has_unnamed(process, folder))
            process.kill()
        daemon.process.send_signal(signal.SIGCONT)
    with subprocess.Popen([confab, 'admin', 'restore', '-', f'{folder}/broken.state'], stdin=subprocess.PIPE) as process:
        process.stdin.write(archive.read_bytes()[:20000])
        process.stdin.flush()
        until(process, 'a restore begins', lambda: set(os.listdir(folder)) != before)
        process.send_signal(signal.SIGINT)
        need(process.wait(60) == 130, f'an interrupted restore: {process.returncode}')
    need(set(os.listdir(folder)) == before, f'what is left: {set(os.listdir(folder)) ^ before}')


def backup(daemon, folder):
    """A backup, archives that are none, a restore; the conversations go on as they would have."""
    archive = pathlib.Path(folder, 'backup.tar')
    daemon.run('admin', 'backup', str(archive))
    need(archive.stat().st_mode & 0o777 == 0o600, 'a backup is for its owner alone')
    daemon.run('admin', 'backup', str(archive))
    os.mkfifo(f'{folder}/fifo')
    for what in folder, f'{folder}/fifo', f'{folder}/missing/', '':
        daemon.run('admin', 'backup', what, status=2)
    interrupted(daemon, folder, archive)
    with tarfile.open(archive) as tar:
        need(tar.getnames() == ['confab-backup/register.db', 'confab-backup/export.key', 'confab-backup/MANIFEST.json'],
             f'tar reads it: {tar.getnames()}')
        manifest = json.load(tar.extractfile('confab-backup/MANIFEST.json'))
    need(manifest['conversations'] == 2 and manifest['files'][0]['size'] > 4096, f'manifest: {manifest}')
    need(not [name for name in os.listdir(daemon.state) if name.startswith('backup')], 'nothing is left in the state folder')
    other = Daemon(folder, 'other')
    pathlib.Path(other.config).write_text('')
    target = pathlib.Path(other.state)
    for name, data in spoilt(archive):
        pathlib.Path(folder, 'spoilt.tar').write_bytes(data)
        said = daemon.command('admin', 'restore', f'{folder}/spoilt.tar', other.state, text=True)
        need(said.returncode == 1 and 'the backup' in said.stderr, f'{name}: {said.returncode} {said.stderr}')
        need(not target.exists() and not list(pathlib.Path(folder).glob('other.state*')), f'{name}: something is left')
    daemon.run('admin', 'restore', str(archive), daemon.state, status=4)
    target.mkdir(mode=0o755)
    need('2 conversations' in daemon.run('admin', 'restore', str(archive), other.state), 'restore')
    need(target.stat().st_mode & 0o777 == 0o700, 'the folder is for its owner alone')
    daemon.run('admin', 'restore', str(archive), other.state, status=4)
    slowly(daemon, archive.read_bytes(), folder)
    other.start()
    need('cannot be used' not in other.said(), f'the register names no memory: {other.said()}')
    overrides = daemon.json('admin', 'quota')
    need(len(overrides['limits']) == 2 and other.json('admin', 'quota') == overrides, f'limits are restored: {overrides}')
    for name in 'a', 'b':
        need(other.json('show', name)['turns'] == daemon.json('show', name)['turns'], f'{name}: another transcript')
        need(other.say('say', name, 'And what then?') == daemon.say('say', name, 'And what then?'), f'{name}: goes on otherwise')
    other.stop()


def backup_with_memory(daemon, folder):
    """The restored daemon reads memory instead of computing, and says the same."""
    archive, other = pathlib.Path(folder, 'memory.tar'), Daemon(folder, 'memory')
    pathlib.Path(other.config).write_text('')
    daemon.run('admin', 'evict', ME)
    daemon.run('admin', 'backup', str(archive), '--memory')
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        manifest = json.load(tar.extractfile('confab-backup/MANIFEST.json'))
    records = [name for name in names if name.startswith('confab-backup/memory/')]
    need(names[len(records)] == 'confab-backup/register.db' and manifest['confab_backup'] == 2
         and manifest['memory']['records'] == len(records) == daemon.json('stats')['spill_records'] > 2, f'{names} {manifest}')
    data = archive.read_bytes()
    for name, spoilt_data in (('cut', data[:WIDTH + 5000]), ('flipped', data[:WIDTH + 99] + bytes([data[WIDTH + 99] ^ 1]) + data[WIDTH + 100:]),
                              ('no manifest of it', data.replace(b'"records":', b'"recorde":'))):
        pathlib.Path(folder, 'spoilt.tar').write_bytes(spoilt_data)
        said = daemon.command('admin', 'restore', f'{folder}/spoilt.tar', other.state, text=True)
        need(said.returncode == 1 and 'the backup' in said.stderr, f'{name}: {said.returncode} {said.stderr}')
        need(not list(pathlib.Path(folder).glob('memory.state*')), f'{name}: something is left')
    need('of memory' in daemon.run('admin', 'restore', str(archive), other.state), 'restore')
    need(os.stat(f'{other.state}/spill').st_mode & 0o777 == 0o700, 'memory is for its owner alone')
    other.start()
    need('cannot be used' not in other.said(), f'all memory is there: {other.said()}')
    checked = other.json('admin', 'check', '--rate', 'none')
    need((checked['found'], checked['records']) == (0, len(records)), f'check: {checked}')
    for name in 'a', 'b':
        lines = [d.run('--json', 'say', name, 'What else?', '--max-tokens', '6', '--ignore-eos', '--seed', '7').splitlines()
                 for d in (other, daemon)]
        first = json.loads(lines[0][0])
        need(first['n_disk'] > 0 and first['n_computed'] < first['n_disk'], f'{name} computes: {first}')
        said = [[t for e in map(json.loads, some) if e['event'] == 'delta' for t in e['tokens']] for some in lines]
        need(said[0] == said[1] and len(said[0]) == 6, f'{name}: other tokens')
    other.stop()


def check(daemon):
    """What is on disk is sound, then somebody damages it: told, forgotten, computed again with the same words."""
    daemon.run('admin', 'evict', ME)
    clean = daemon.json('admin', 'check', '--rate', 'none')
    need(clean['problems'] == [] and clean['found'] == 0 and clean['conversations'] == 2 and clean['records'] > 1
         and clean['gone'] + clean['forgotten'] + clean['skipped'] == 0, f'check: {clean}')
    need('no problems' in daemon.run('admin', 'check', '--rate', '10G'), 'as text')
    number = daemon.json('show', 'a')['id']
    with open(f'{daemon.state}/spill/{number:016x}.kv', 'r+b') as file:
        at = os.lseek(file.fileno(), 0, os.SEEK_DATA) + 3000  # behind what was given back
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 4]))
    text = daemon.run('admin', 'check', status=8)
    need(text.startswith(f'spill: conversation #{number}, record ') and 'forgotten' in text and '1 problem\n' in text,
         f'damage: {text}')
    after = daemon.json('admin', 'check')
    need(after['found'] == 0 and after['records'] < clean['records'], f'it is forgotten: {after}')
    need(daemon.run('--json', 'show', 'a') and daemon.say('say', 'a', 'Go on.'), 'it goes on')
    daemon.run('admin', 'evict', ME)
    need(daemon.json('admin', 'check')['found'] == 0, 'what was computed again is on disk again')
    for rate in '1x', '', '-1', '100MM', '9999999T':
        daemon.run('admin', 'check', '--rate', rate, status=2)
    daemon.run('--as-uid', GUEST, 'admin', 'check', status=1)
    # Of so slow a one the connection ends: the next one may begin.
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(daemon.socket)
        for request in b'\x08\x01\x12\x02\x08\x01', b'\x08\x02\xfa\x01\x02\x08\x01':  # Hello, Check with rate 1
            slow.sendall(bytes([len(request)]) + request)
        deadline = time.monotonic() + 60
        while daemon.command('admin', 'check').returncode != 4:
            need(time.monotonic() < deadline, 'a second check at the same time is busy')
    while daemon.command('admin', 'check').returncode != 0:
        need(time.monotonic() < deadline, 'a check ends with its connection')


def main():
    if os.getuid() != 0 or not os.path.exists(MODEL):
        print('SKIP: needs root, as administrators are, and the model')
        return 77
    with tempfile.TemporaryDirectory(prefix='confab-admin-') as folder:
        daemon = Daemon(folder, 'main')
        pathlib.Path(daemon.config).write_text('# mine\nlist-page = 7\nthreads = 2\npool-size = 64M\ndisk-floor = 0\n')
        daemon.start()
        try:
            for name in 'a', 'b':
                daemon.run('open', name)
                daemon.say('say', name, f'Tell me of the river and of {name}.')
            daemon.run('--tenant', 'anna', 'open', 'c')
            daemon.say('--tenant', 'anna', 'say', 'c', 'Tell me of the birds.')
            look(daemon, daemon.config)
            limits(daemon)
            act(daemon)
            drain(daemon)
            backup(daemon, folder)
            backup_with_memory(daemon, folder)
            check(daemon)
            journal = daemon.said()
            for words in ('purging user 0, tenant \'anna\': conversations: 1', 'draining: done', 'taking work again',
                          'backup of all conversations: made', 'backup of all conversations with memory: made', 'check of all that is on disk: problems: 1, sound records: ',
                          'forgotten, will be computed anew', 'check of all that is on disk: failed: cancelled', 'administrator uid 0 (pid ',
                          f'changing max-conversations of user {GUEST}: 1 -> 2',
                          f'changing ram-share-per-user of user {GUEST}: no override -> 20'):
                need(words in journal, f'the journal has no "{words}": {journal}')
            acts = [line for line in journal.splitlines() if 'notice: administrator' in line
                    and 'check of' not in line and 'conversations: 0' not in line and 'backup of' not in line]
            need(len(acts) == 15, f'one line for each act, none for a look: {journal}')
            daemon.stop()
        finally:
            if daemon.process.poll() is None:
                daemon.process.kill()
    return 0


sys.exit(main())
