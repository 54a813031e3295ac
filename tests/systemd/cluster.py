#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cluster.py SOURCE [--cache FOLDER] [--suite SUITE] [--debs FOLDER]

What docs/cluster.md says, line by line, on one machine: a Debian that has booted, with the packages of the tree, PostgreSQL and
Redis. Commands, settings and drop-ins are read from that page, with the addresses of this machine; so it can't say what does
not work. Skipped, with the reason, where that cannot be done: it takes root, debootstrap and a mirror of Debian. What it
prints is TAP.

    --cache FOLDER   where the Debian is kept for the next time
    --suite SUITE    another Debian than bookworm, with a newer systemd
    --debs FOLDER    packages that are there already, of this tree
"""
import itertools
import pathlib
import shlex
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import container
import debs
from debs import need
from walk import Memory, run_json, stats

CONF = '/etc/confab/confabd.conf'
DROP_IN = '/etc/systemd/system/confabd.service.d/override.conf'
OWN = 'spill-delay = 20ms\nremote-write-share = 100\n'
# Some hundreds of tokens: long enough that reading them is faster than computing them.
LONG = ' '.join(f'{i} bottles of beer on the wall, take one down.' for i in range(60))
PASSWORD = 'not.a:good/one'
SERVERS = ['postgresql', 'redis-server']


class Page:
    """docs/cluster.md, of which the indented blocks are used."""

    def __init__(self, source):
        self.lines = pathlib.Path(source, 'docs/cluster.md').read_text('utf-8').splitlines()
        self.blocks = [[line[4:] for line in lines] for indented, lines in
                       itertools.groupby(self.lines, lambda line: line.startswith('    ')) if indented]

    def block(self, begin):
        """The first block that has a line that begins so."""
        for lines in self.blocks:
            if any(line.startswith(begin) for line in lines):
                return '\n'.join(lines) + '\n'
        raise container.Broken(f'docs/cluster.md has no block with {begin!r}')

    def settings(self, *begins, change=()):
        text = OWN + ''.join(self.block(begin) for begin in begins)
        for old, new in change:
            need(old in text, f'docs/cluster.md: no {old!r} in {text!r}')
            text = text.replace(old, new)
        return text

    def says(self, words):
        need(any(words in line for line in self.lines), f'docs/cluster.md does not say {words!r}')
        return words


class Walk:
    def __init__(self, box, page, first):
        self.box, self.page, self.first, self.kept = box, page, first, None

    # What the steps have in common

    def run_as_written(self, block):
        """Lines of commands: by root, or with sudo by another user."""
        for line in block.splitlines():
            words = shlex.split(line)
            if words[0] == 'apt':
                continue  # the servers are there: the container has no network
            if words[:2] == ['sudo', '-u']:
                self.box.run('runuser', '-u', words[2], '--', *words[3:])
            else:
                self.box.run(*words)

    def restart(self, settings, drop_in):
        """As an administrator does it, who looks first."""
        self.box.write(CONF, settings)
        self.box.write(DROP_IN, drop_in)
        self.box.run('systemctl', 'daemon-reload')
        self.box.run('systemctl', 'restart', 'confabd')
        need(debs.unit(self.box, 'confabd', 'ActiveState') == 'active', 'the daemon does not run')

    def check(self):
        """The settings of the service, as its user."""
        return self.box.run('runuser', '-u', 'confab', '--', 'confabd', '--defaults=/usr/share/confab/confabd.conf', f'--config={CONF}',
                            '--check')

    def is_sent(self):
        figures = stats(self.box)
        return figures['remote'] and figures['remote_pending'] == 0 and figures['remote_up']

    def talk(self, words):
        self.box.run('confab', 'say', 'trip', '-t', '0', '--max-tokens', '8', words, user='anna')
        self.kept = Memory(self.box, [('anna', 'trip')])

    def lose_the_disk(self):
        """What was sent comes back from the remote store."""
        self.talk('And now?')
        self.box.run('confab', 'evict', 'trip', user='anna')
        self.box.wait('all is sent', self.is_sent)
        self.box.run('systemctl', 'stop', 'confabd')
        self.box.run('find', '/var/lib/confab/spill', '-type', 'f', '-delete')
        self.box.run('systemctl', 'start', 'confabd')
        self.kept.compare('with a lost disk')
        figures = stats(self.box)
        need(figures['remote_blocks_read'] > 0 and figures['remote_damaged'] == 0, f'nothing was read: {figures}')

    # Steps

    def install(self):
        self.box.add_user('anna')
        debs.install(self.box, self.first)
        self.box.wait('PostgreSQL runs', lambda: self.box.execute(('pg_isready',)).returncode == 0)
        need(debs.unit(self.box, 'redis-server', 'ActiveState') == 'active', 'Redis does not run')

    def register_by_socket(self):
        self.run_as_written(self.page.block('apt install postgresql'))
        settings = self.page.settings('store = postgresql://confab@/confab?host=')
        self.box.write(CONF, settings)
        self.check()
        self.restart(settings, '')
        self.box.run('confab', 'open', 'trip', user='anna')
        self.talk(LONG)
        said = self.box.run('runuser', '-u', 'postgres', '--', 'psql', '-At', 'confab', '-c',
                            f'{self.page.says("SELECT * FROM transcript")} LIMIT 1')
        need('bottles of beer' in said, f'the transcript: {said}')

    def memory_by_socket(self):
        """Memory that was on the disk before is brought there, too."""
        # In place of `bind`, as the page says.
        self.redis(self.page.block('unixsocket ') + self.page.block('bind 192.0.2.20').partition('\n')[2])
        self.write_password('remote.pass', PASSWORD)
        settings = self.page.settings('store = postgresql://confab@/confab?host=', 'remote = redis://192.0.2.20', change=[
            ('redis://192.0.2.20', self.page.says('redis:///run/redis/redis-server.sock'))])
        self.restart(settings, self.page.block('SupplementaryGroups='))
        self.kept.compare('with a remote store')
        self.lose_the_disk()

    def both_by_tcp(self):
        self.redis(self.page.block('bind 192.0.2.20'))
        self.box.run('runuser', '-u', 'postgres', '--', 'psql', '-q', 'confab', '-c', f"ALTER ROLE confab PASSWORD '{PASSWORD}'")
        self.write_password('db.pass', f'127.0.0.1:5432:confab:confab:{PASSWORD}'.replace('a:good', 'a\\:good'))
        settings = self.page.settings('store = postgresql://confab@db.example/', 'remote = redis://192.0.2.20', change=[
            ('db.example', '127.0.0.1'), ('sslmode=verify-full', 'sslmode=prefer'), ('192.0.2.20', '127.0.0.1')])
        drop_in = self.drop_in('192.0.2.10')
        self.box.write(CONF, settings)
        self.check()
        self.restart(settings, drop_in)
        self.kept.compare('by TCP')
        self.lose_the_disk()
        # Without the drop-in the unit has no network, and says so.
        self.box.write(DROP_IN, '')
        self.box.run('systemctl', 'daemon-reload')
        self.box.execute(('systemctl', 'restart', 'confabd'))
        need('127.0.0.1' in self.box.journal('-u', 'confabd', '-n', '20'), 'no word of the server that is out of reach')
        self.restart(settings, drop_in)

    def credential(self):
        line = self.page.says('LoadCredential=remote:/etc/confab/remote.pass')
        path = self.page.says('/run/credentials/confabd.service/remote')
        self.box.run('chown', 'root:root', '/etc/confab/remote.pass')
        settings = self.box.read(CONF).replace('/etc/confab/remote.pass', path)
        self.restart(settings, f'{self.drop_in("192.0.2.20")}{line}\n')
        self.kept.compare('with a credential')
        self.lose_the_disk()

    def drain(self):
        self.talk('Once more.')
        self.box.run('confab', 'admin', 'drain')
        figures = stats(self.box)
        need(figures['remote_pending'] == 0 and figures['conversations_resident'] == 0, f'drained: {figures}')
        [error] = run_json(self.box, 'say', 'trip', 'No.', user='anna', status=6)
        need(error['code'] == 'shutdown' and error['retry'], f'drained: {error}')
        held = self.box.run('runuser', '-u', 'postgres', '--', 'psql', '-At', 'confab', '-c',
                            'SELECT count(*) FROM conversation WHERE holder IS NOT NULL')
        need(held.strip() == '0', f'{held.strip()} conversations are held by a drained machine')
        self.box.run('systemctl', 'restart', 'confabd')
        self.kept.compare('after an upgrade')

    def leave(self):
        backup = self.page.says('confab admin backup --memory backup.tar').replace('backup.tar', '/root/backup.tar')
        restore = self.page.says('confab admin restore backup.tar /var/lib/confab --owner confab').replace('backup.tar', '/root/backup.tar')
        self.box.run(*backup.split())
        self.box.run('systemctl', 'stop', 'confabd.socket', 'confabd')
        self.box.run('mv', '/var/lib/confab', '/var/lib/confab.before')
        self.box.run(*restore.split())
        self.box.run('systemctl', 'stop', 'postgresql', 'redis-server')
        self.box.write(CONF, OWN.partition('\n')[0] + '\n')
        self.box.write(DROP_IN, '')
        self.box.run('systemctl', 'daemon-reload')
        self.box.run('systemctl', 'start', 'confabd.socket', 'confabd')
        self.kept.compare('alone')
        need(stats(self.box)['tokens_reused_disk'] > 0, 'the memory was not in the backup')

    # Parts of steps

    def drop_in(self, address):
        return self.page.block(f'IPAddressAllow={address}').replace(address, '127.0.0.1')

    def redis(self, lines):
        lines = lines.replace('192.0.2.20', '127.0.0.1').replace('>PASSWORD', f'>{PASSWORD}').replace('32gb', '64mb')
        conf = self.box.read('/etc/redis/redis.conf').partition('# of cluster.py\n')[0]
        self.box.path('/etc/redis/redis.conf').write_text(f'{conf}\n# of cluster.py\n{lines}', 'utf-8')
        self.box.run('systemctl', 'restart', 'redis-server')

    def write_password(self, name, line):
        path = f'/etc/confab/{name}'
        self.box.write(path, f'{line}\n')
        self.box.run('chown', 'confab:confab', path)
        self.box.run('chmod', '0600', path)

    def all(self):
        tap = debs.Tap()
        tap.step('the packages install', self.install)
        tap.step('the register by a Unix socket', self.register_by_socket)
        tap.step('memory by a Unix socket', self.memory_by_socket)
        tap.step('both by TCP, with passwords', self.both_by_tcp)
        tap.step('the password as a credential of the unit', self.credential)
        tap.step('drain', self.drain)
        tap.step('leaving', self.leave)
        tap.end()


def main():
    given = debs.arguments(__doc__, tap=True, more=SERVERS)
    with debs.machine(given) as (box, first, _):
        Walk(box, Page(given.source), first).all()


main()
