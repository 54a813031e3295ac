# SPDX-License-Identifier: MIT
"""Private Redis or Valkey servers for tests, whichever is installed. They end with the test.

    import redis

    if not redis.find():
        print('SKIP: neither Redis nor Valkey is installed')
        sys.exit(77)
    with redis.Redis() as server:
        server.command('SET', 'key', 'value')
        server.kill()
        server.start() # empty: nothing is on a disk
        print(server.uri(), server.uri(tcp=True))
    with redis.RedisCluster() as cluster:
        print(cluster.uri())

Each is reached through a socket in its folder, which only its user can reach, and through a port of 127.0.0.1, which every
user of the machine can reach. A keeper (redis_keeper.py) stands beside the servers of one object. It ends them, whatever
state they are in, and removes the folder, when they are closed and when the test dies, by whatever signal.
"""
import functools
import os
import shutil
import socket
import subprocess
import sys
import time

from postgres import free_port
from keeping import Kept
from redis_keeper import LIMIT

N_PORTS = 20 # tried before giving up
N_SLOTS = 16384


class RedisError(Exception):
    """What a server, or its keeper, has said."""


@functools.cache
def find():
    """The program of a server; None if there is none."""
    return shutil.which('valkey-server') or shutil.which('redis-server')


@functools.cache
def has_tls():
    """Whether the server takes certificates, and there is a program to make some."""
    if not find() or not shutil.which('openssl'):
        return False
    with subprocess.Popen([find(), '-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
        # A server without TLS does not know the word; one with it misses a certificate. Neither starts.
        said, _ = p.communicate(b'port 0\ntls-port 1\ntls-cert-file /nonexistent\n')
    return b'tls' in said.lower() and b'Bad directive' not in said


def read_reply(f):
    """One answer: bytes, an integer, None or a list; an error is raised."""
    line = f.readline()
    if not line.endswith(b'\r\n'):
        raise RedisError('the server has closed the connection')
    kind, rest = line[:1], line[1:-2]
    if kind == b'-':
        raise RedisError(rest.decode(errors='replace'))
    if kind == b'+':
        return rest
    if kind == b':':
        return int(rest)
    if int(rest) < 0:
        return None
    if kind == b'$':
        return f.read(int(rest) + 2)[:-2]
    return [read_reply(f) for _ in range(int(rest))]


class Servers:
    """A keeper, and the servers that it has."""

    def __init__(self):
        if not find():
            raise RedisError('neither Redis nor Valkey is installed')
        self.keeper = Kept('redis_keeper.py', RedisError, 'the servers')
        self.ask = self.keeper.ask
        self.folder = self.keeper.answer()

    def close(self):
        self.keeper.close()


def ask(path, *commands, timeout=LIMIT):
    """Runs commands at the socket of a server: the answer of the last one."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(timeout)
        s.connect(path)
        with s.makefile('rb') as f:
            for command in commands:
                parts = [word if isinstance(word, bytes) else str(word).encode() for word in command]
                s.sendall(b'*%d\r\n' % len(parts) + b''.join(b'$%d\r\n%s\r\n' % (len(part), part) for part in parts))
                answer = read_reply(f)
    return answer


class Redis:
    """A server, which runs when this returns.

    maxmemory: bytes; nothing is thrown away to make room. tls: certificates of 127.0.0.1, and a port for them (tls_port).
    settings: more settings, by name. servers: of which this is to be one; it has its own without.
    """

    def __init__(self, password=None, maxmemory=0, tls=False, settings=None, servers=None, name='redis'):
        self.own = servers is None
        self.servers = servers or Servers()
        self.name, self.password = name, password
        self.folder, self.pid = self.servers.folder, None
        self.socket = os.path.join(self.folder, f'{name}.sock')
        self.port = self.tls_port = 0
        self.settings = {'maxmemory': maxmemory, 'maxmemory-policy': 'noeviction', **(settings or {})}
        if password:
            self.settings['requirepass'] = password
        try:
            if tls:
                self.make_certificates()
            self.start_first(tls)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_certificates(self):
        """One that signs itself, so it is what clients are to trust, too; and another one that nobody has seen."""
        for name in 'server', 'other':
            self.servers.ask('run', [shutil.which('openssl'), 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
                                     '-nodes', '-days', '2', '-subj', '/CN=confab test', '-addext',
                                     'subjectAltName=IP:127.0.0.1', '-keyout', self.path(f'{name}.key'), '-out', self.path(f'{name}.crt')])
        self.settings.update({'tls-cert-file': self.path('server.crt'), 'tls-key-file': self.path('server.key'),
                              'tls-ca-cert-file': self.path('server.crt'), 'tls-auth-clients': 'no'})

    def start_first(self, tls):
        for _ in range(N_PORTS):
            self.port = free_port()
            self.tls_port = free_port() if tls else 0
            if self.settings.get('cluster-enabled') == 'yes':
                self.settings['cluster-port'] = free_port()
            try:
                return self.start()
            except RedisError as e:
                if 'Address already in use' not in str(e):
                    raise
        raise RedisError('others take all ports')

    def command_line(self):
        settings = {
            'port': self.port, 'bind': '127.0.0.1', 'unixsocket': self.socket, 'unixsocketperm': '700', 'dir': self.folder, 'save': '',
            'appendonly': 'no', 'daemonize': 'no', 'protected-mode': 'no', 'repl-diskless-sync-delay': 0, 'enable-debug-command': 'yes',
            **self.settings}
        if self.tls_port:
            settings['tls-port'] = self.tls_port
        return [find(), *(word for name, value in settings.items() for word in (f'--{name}', str(value)))]

    def start(self):
        """Starts the server, or starts it again: empty."""
        self.pid = self.servers.ask('start', self.name, self.command_line())

    def kill(self):
        self.servers.ask('kill', self.name)
        self.pid = None

    def pause(self):
        """The server's machine takes connections, and the server says nothing."""
        self.servers.ask('pause', self.name)

    def resume(self):
        self.servers.ask('resume', self.name)

    def uri(self, tcp=False, tls=False):
        if tls:
            return f'rediss://127.0.0.1:{self.tls_port}'
        return f'redis://127.0.0.1:{self.port}' if tcp else f'redis://{self.socket}'

    def command(self, *words, timeout=LIMIT):
        """Runs one command. Its answer: bytes, an integer, None or a list; an error raises RedisError."""
        return ask(self.socket, *([('AUTH', self.password)] if self.password else []), words, timeout=timeout)

    def log(self):
        with open(self.path(f'{self.name}.log'), encoding='utf-8', errors='replace') as f:
            return f.read()

    def close(self):
        """Ends the server and removes its folder; one of several is closed with them."""
        if self.own:
            self.servers.close()
            self.pid = None


class RedisCluster:
    """A cluster of three masters, which runs when this returns: cluster.masters. With replica=True the first one has a replica,
    cluster.replica, which takes over when it is told to (fail_over()).
    """

    def __init__(self, replica=False, settings=None):
        self.servers = Servers()
        self.replica = None
        try:
            self.nodes = [self.make_node(i, settings) for i in range(4 if replica else 3)]
            self.masters = self.nodes[:3]
            self.make()
            if replica:
                self.replica = self.nodes[3]
                self.await_true(lambda: self.learns_master(self.replica, self.masters[0]), 'there is no replica')
                self.await_true(lambda: b'master_link_status:up' in self.replica.command('INFO', 'replication'),
                                'the replica does not follow')
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def make_node(self, i, settings):
        return Redis(servers=self.servers, name=f'node{i}', settings={
            'cluster-enabled': 'yes', 'cluster-config-file': f'node{i}.conf', 'cluster-node-timeout': 60000,
            'cluster-require-full-coverage': 'no', **(settings or {})})

    def await_true(self, true, words):
        deadline = time.monotonic() + LIMIT
        while not true():
            if time.monotonic() > deadline:
                raise RedisError(words)
            time.sleep(0.02)

    def make(self):
        for i, node in enumerate(self.masters):
            node.command('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
            node.command('CLUSTER', 'ADDSLOTSRANGE', N_SLOTS * i // 3, N_SLOTS * (i + 1) // 3 - 1)
        for node in self.nodes[1:]:
            node.command('CLUSTER', 'MEET', '127.0.0.1', self.nodes[0].port, self.nodes[0].settings['cluster-port'])
        self.await_whole()

    def await_whole(self):
        """Waits until all servers serve and know each other: after one was started again, too."""
        self.await_true(lambda: all(map(self.is_whole, self.nodes)), 'the cluster is not whole')

    def is_whole(self, node):
        said = node.command('CLUSTER', 'INFO')
        return (b'cluster_state:ok' in said and b'cluster_slots_ok:%d' % N_SLOTS in said and
                b'cluster_known_nodes:%d' % len(self.nodes) in said)

    def learns_master(self, replica, master):
        try:
            return replica.command('CLUSTER', 'REPLICATE', self.id_of(master)) == b'OK'
        except RedisError: # it has not heard of it yet
            return False

    def id_of(self, node):
        return node.command('CLUSTER', 'MYID')

    def uri(self):
        return 'redis://' + ','.join(f'127.0.0.1:{node.port}' for node in self.masters)

    def slot_of(self, key):
        return self.masters[0].command('CLUSTER', 'KEYSLOT', key)

    def owner_of(self, slot):
        """The number of the master that has a slot."""
        for first, last, owner, *_ in self.masters[0].command('CLUSTER', 'SLOTS'):
            if first <= slot <= last:
                return next(i for i, node in enumerate(self.masters) if node.port == owner[1])
        raise RedisError(f'nobody has slot {slot}')

    def begin_move(self, slot, to):
        """From here on a key of the slot that is not at its owner is asked for at master number `to` (ASK)."""
        source = self.masters[self.owner_of(slot)]
        self.masters[to].command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', self.id_of(source))
        source.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', self.id_of(self.masters[to]))

    def move_keys(self, slot, to):
        source = self.masters[self.owner_of(slot)]
        for key in source.command('CLUSTER', 'GETKEYSINSLOT', slot, 1000000):
            source.command('MIGRATE', '127.0.0.1', self.masters[to].port, key, 0, LIMIT * 1000)

    def end_move(self, slot, to):
        """All servers know that the slot is at master number `to`."""
        for node in [self.masters[to], *(n for i, n in enumerate(self.masters) if i != to)]:
            node.command('CLUSTER', 'SETSLOT', slot, 'NODE', self.id_of(self.masters[to]))

    def move(self, slot, to):
        """Moves a slot with its keys: who asks the old owner is sent to the new one (MOVED)."""
        self.begin_move(slot, to)
        self.move_keys(slot, to)
        self.end_move(slot, to)

    def fail_over(self):
        """Kills the first master; its replica takes its slots, and the other masters know."""
        self.masters[0].kill()
        self.replica.command('CLUSTER', 'FAILOVER', 'TAKEOVER')
        self.await_true(lambda: all(self.is_served_by(node, 0, self.replica) for node in self.masters[1:] + [self.replica]),
                        'the replica does not take over')

    def is_served_by(self, node, slot, owner):
        return any(first <= slot <= last and told[1] == owner.port for first, last, told, *_ in node.command('CLUSTER', 'SLOTS'))

    def close(self):
        self.servers.close()
