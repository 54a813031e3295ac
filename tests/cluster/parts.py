# SPDX-License-Identifier: MIT
"""The parts of the cluster: daemons, the pair of PostgreSQL servers, and the nodes of Redis or Valkey."""
import contextlib
import mmap
import os
import signal
import struct
import subprocess
import threading
import time

import postgres
import redis

DEADLINE = 300 # seconds; only a hang takes so long
HBA = 'local all all trust\nlocal replication all trust\nhost all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n'


def await_that(what, ready, deadline=DEADLINE):
    until = time.monotonic() + deadline
    while not ready():
        if time.monotonic() > until:
            raise TimeoutError(f'{what}: it does not come about')
        time.sleep(0.05)


class Disk:
    """A small file system of its own."""

    def __init__(self, path, size):
        self.path = path
        os.mkdir(path)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size},mode=1777', 'cluster', path], check=True)

    def fill(self):
        with contextlib.suppress(OSError), open(f'{self.path}/filler', 'wb', buffering=0) as f:
            size = 1 << 20
            while size >= 4096:
                try:
                    f.write(bytes(size))
                except OSError:
                    size //= 2
                    if size < 4096:
                        raise

    def free(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f'{self.path}/filler')


class Process:
    """A program in a namespace."""

    def __init__(self, name, net, log):
        self.name, self.net, self.log = name, net, log
        self.process, self.wanted = None, False
        self.lock = threading.Lock()

    def spawn(self, command, env=None):
        with open(self.log, 'ab') as log, self.net.inside(self.name):
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **(env or {})})

    def start(self):
        with self.lock:
            self.wanted = True
            if not self.process or self.process.poll() is not None:
                self.begin()

    def kill(self):
        with self.lock:
            self.wanted = False
            if self.process:
                self.process.kill()
                self.process.wait()

    def ended(self):
        """Its status, if it has ended and should not have."""
        with self.lock:
            return self.process.poll() if self.wanted and self.process else None

    def signal(self, number):
        with self.lock:
            if self.process and self.process.poll() is None:
                self.process.send_signal(number)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)


class Daemon(Process):
    def __init__(self, name, net, folder, programs, size, settings):
        super().__init__(name, net, f'{folder}/{name}.log')
        self.programs = programs
        self.disk = Disk(f'{folder}/{name}', size)
        self.socket = f'{folder}/{name}.sock'
        self.command = [programs.confabd, '--model', programs.model, '--socket', self.socket, '--state', f'{self.disk.path}/state',
                        *(f'--{key}={value}' for key, value in settings.items())]
        self.clock = f'{folder}/{name}.clock'
        with open(self.clock, 'wb') as f:
            f.write(bytes(8))

    def begin(self):
        self.spawn(self.command, {'LD_PRELOAD': self.programs.clock, 'CONFAB_TEST_CLOCK': self.clock})

    def skew(self, seconds):
        with open(self.clock, 'r+b') as f, mmap.mmap(f.fileno(), 8) as wrong_by:
            wrong_by[:] = struct.pack('<q', int(seconds * 1e9))

    def run(self, *args):
        return subprocess.run([self.programs.confab, '--socket', self.socket, *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=DEADLINE)

    def serves(self):
        return self.run('ls').returncode == 0

    def stop(self):
        with self.lock:
            self.wanted = False
            self.process.terminate()
            return self.process.wait(DEADLINE)


class Database:
    """A PostgreSQL server and its synchronous standby. `sites` are the namespaces; the primary is at sites[0]."""

    SETTINGS = {'wal_keep_size': '64MB', 'max_wal_size': '64MB', 'wal_sender_timeout': '10s', 'wal_receiver_timeout': '10s',
                'wal_retrieve_retry_interval': '200ms', 'log_checkpoints': 'off'}

    def __init__(self, net, folder, sites):
        self.net, self.folder, self.sites, self.n = net, folder, list(sites), 0
        self.disks = {site: Disk(f'{folder}/{site}', '300m') for site in sites}
        self.primary = self.make(sites[0])
        self.primary.ask('write', 'pg_hba.conf', HBA)
        self.primary.ask('reload')
        self.schema = self.primary.schema()
        self.standby = None
        self.add_standby()

    def make(self, site, primary=None):
        settings = {**self.SETTINGS, 'listen_addresses': self.net.addresses[site]}
        if primary:
            primary.n_standbys = self.n = self.n + 1
            settings['primary_conninfo'] = (
                f'host={self.net.addresses[self.sites[0]]} port=5432 user=confab application_name=standby_{self.n} connect_timeout=3')
        before = os.environ.get('TMPDIR')
        os.environ['TMPDIR'] = self.disks[site].path
        try:
            with self.net.inside(site):
                return postgres.Postgres(settings=settings, primary=primary)
        finally:
            os.environ.pop('TMPDIR')
            if before:
                os.environ['TMPDIR'] = before

    def add_standby(self):
        self.standby = self.make(self.sites[1], self.primary)
        self.primary.awaited = [self.standby.name]
        self.primary.configure()
        self.whole()

    def whole(self):
        """The standby follows."""
        await_that('the standby follows', self.follows)

    def follows(self):
        try:
            return bool(self.primary.sql(
                'select 1 from pg_stat_replication where (application_name, state, sync_state) = '
                f"('{self.standby.name}', 'streaming', 'sync')"))
        except postgres.PostgresError:
            return False

    def uri(self):
        hosts = ','.join(self.net.addresses[site] for site in sorted(self.sites))
        return f'postgresql://confab@{hosts}/postgres?options=-csearch_path%3D{self.schema}'

    def start(self, server):
        """It may not start while something else is wrong; then once more."""
        def starts():
            try:
                server.start()
            except postgres.PostgresError as e:
                return 'runs already' in str(e)
            return True
        await_that('PostgreSQL starts', starts)

    def fail_over(self):
        """The primary dies; the standby takes over, and there is a new standby in place of the old primary."""
        self.primary.kill()
        self.take_over()

    def take_over(self):
        old, self.primary = self.primary, self.standby
        self.sites.reverse()
        self.primary.promote()
        self.primary.primary, self.primary.awaited = None, []
        self.primary.more.pop('primary_conninfo', None)
        self.primary.configure()
        self.keep_log(old)
        old.close()
        self.add_standby()

    def keep_log(self, server):
        with contextlib.suppress(OSError), open(f'{self.folder}/postgres.log', 'a', encoding='utf-8') as f:
            f.write(f'--- {server.name}, {server.folder} ---\n{server.log()}')

    def close(self):
        for server in self.standby, self.primary:
            if server:
                self.keep_log(server)
                server.close()


class Node(Process):
    """One of the servers of memory."""

    def __init__(self, name, net, folder):
        super().__init__(name, net, f'{folder}/{name}.log')
        self.folder = f'{folder}/{name}'
        os.mkdir(self.folder)

    def begin(self):
        address = self.net.addresses[self.name]
        settings = {'bind': address, 'port': 6379, 'unixsocket': f'{self.folder}/socket', 'dir': self.folder, 'save': '',
                    'appendonly': 'no', 'protected-mode': 'no', 'maxmemory': '64mb', 'maxmemory-policy': 'allkeys-lru',
                    'cluster-enabled': 'yes', 'cluster-node-timeout': 2000, 'cluster-require-full-coverage': 'no'}
        self.spawn([redis.find(), *(word for key, value in settings.items() for word in (f'--{key}', str(value)))])

    def command(self, *words):
        return redis.ask(f'{self.folder}/socket', words, timeout=10)

    def answers(self):
        try:
            return self.command('PING') == b'PONG'
        except (OSError, redis.RedisError):
            return False


class Memory:
    """A cluster of nodes."""

    def __init__(self, net, folder, names):
        self.net = net
        self.nodes = [Node(name, net, folder) for name in names]
        for node in self.nodes:
            node.start()
        for i, node in enumerate(self.nodes):
            await_that(f'{node.name} starts', node.answers)
            node.command('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
            first, end = (redis.N_SLOTS * k // len(names) for k in (i, i + 1))
            node.command('CLUSTER', 'ADDSLOTSRANGE', first, end - 1)
        for node in self.nodes[1:]:
            node.command('CLUSTER', 'MEET', net.addresses[names[0]], 6379)
        await_that('the cluster of memory is whole', lambda: all(
            b'cluster_slots_ok:16384' in n.command('CLUSTER', 'INFO') and
            b'cluster_known_nodes:%d' % len(names) in n.command('CLUSTER', 'INFO') for n in self.nodes))

    def uri(self):
        return 'redis://' + ','.join(self.net.addresses[node.name] for node in self.nodes)

    def flush(self):
        for node in self.nodes:
            with contextlib.suppress(OSError, redis.RedisError):
                node.command('FLUSHALL')
