# SPDX-License-Identifier: MIT
"""Private PostgreSQL servers for tests. Each has a new cluster in a folder of its own, and ends with the test.

    import postgres

    if not postgres.find():
        print('SKIP: PostgreSQL is not installed')
        sys.exit(77)
    with postgres.Postgres(durable=True) as server:
        schema = server.schema()
        server.sql('create table t (n int); insert into t values (1)', schema)
        server.kill()
        server.start()
        print(server.sql('select n from t', schema), server.uri(schema))

There is one user, confab, who may do everything, and one database, postgres. Connections go through a socket in the
server's folder, which only root and the server's user can reach, and with tcp=True through a port of 127.0.0.1 as
well, which every user of the machine can reach. Nobody is asked for a password.

A keeper (postgres_keeper.py) stands beside each server. It ends the server, whatever state it is in, and removes the
folder, when the server is closed and when the test dies, by whatever signal. A test that forks without exec (as
multiprocessing may) should do so before: a child that lives on holds the keeper's pipe.
"""
import csv
import functools
import glob
import io
import os
import pwd
import random
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse

from keeping import Kept
from postgres_keeper import LIMIT

PROGRAMS = ('initdb', 'pg_basebackup', 'postgres', 'psql')
MIN_VERSION = 15
PORT = 5432 # names the socket's file alone, in a folder where there is no other
# Below the ports that the kernel gives to clients, so that ours is free again when the server starts anew.
TCP_PORTS = range(20000, 32000)
N_PORTS = 20 # tried before giving up


class PostgresError(Exception):
    """What the server, or a program of PostgreSQL, has said."""


def version(binaries):
    """The major version of the server in the folder; 0 if something is missing there."""
    if not all(os.access(os.path.join(binaries, name), os.X_OK) for name in PROGRAMS):
        return 0
    said = subprocess.run([os.path.join(binaries, 'postgres'), '--version'], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False).stdout
    number = re.search(r'\) (\d+)', said)
    return int(number[1]) if number else 0


@functools.cache
def find():
    """The folder with PostgreSQL's programs, those of Debian's newest version first; None if there is none."""
    folders = sorted(glob.glob('/usr/lib/postgresql/*/bin'), key=version, reverse=True)
    on_path = shutil.which('initdb')
    if on_path:
        folders.append(os.path.dirname(os.path.realpath(on_path)))
    return next((folder for folder in folders if version(folder) >= MIN_VERSION), None)


def user():
    """Who runs the server: the server refuses to be run by root."""
    if os.geteuid() != 0:
        return []
    for name in 'postgres', 'nobody':
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return [str(account.pw_uid), str(account.pw_gid)]
    raise PostgresError('root needs a user postgres or nobody to run the server')


def free_port():
    """A port that nobody listens at (just now)."""
    for port in random.sample(TCP_PORTS, len(TCP_PORTS)):
        with socket.socket() as s:
            try:
                s.bind(('127.0.0.1', port))
            except OSError:
                continue
            return port
    raise PostgresError('no port is free')


def quote(value):
    return "'" + str(value).replace("'", "''") + "'"


class Postgres:
    """A server, which runs when this returns.

    durable: transactions are on the disk before they are answered (fsync); a crash by kill() keeps them in any case.
    settings: more lines of postgresql.conf, by name.
    """

    def __init__(self, durable=False, tcp=False, settings=None, primary=None):
        self.binaries = find()
        if not self.binaries:
            raise PostgresError('PostgreSQL is not installed')
        self.durable, self.more, self.primary = durable, settings or {}, primary
        self.pid = None
        self.standbys, self.awaited, self.n_standbys = [], [], 0
        self.name = f'standby_{primary.n_standbys}' if primary else 'primary'
        self.keeper = Kept('postgres_keeper.py', PostgresError, 'the server', self.binaries, *user())
        self.ask = self.keeper.ask
        try:
            self.folder = self.keeper.answer()
            self.port = free_port() if tcp else PORT
            self.tcp = tcp
            self.make()
            self.start_first()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def make(self):
        data = os.path.join(self.folder, 'data')
        if self.primary:
            self.ask('run', ['pg_basebackup', '-D', data, '-d', self.primary.uri(), '-c', 'fast', '--no-sync'])
            self.ask('write', 'standby.signal', '')
        else:
            # Small segments of the log make it, and standbys, faster; a durable server has what real ones have.
            self.ask('run', ['initdb', '-D', data, '--no-sync', '-A', 'trust', '--encoding=UTF8', '--locale=C', '-U',
                             'confab', *([] if self.durable else ['--wal-segsize=1'])])

    def start_first(self):
        for _ in range(N_PORTS):
            self.configure()
            try:
                return self.start()
            except PostgresError as e:
                if not self.tcp or 'Address already in use' not in str(e):
                    raise
            self.port = free_port() # somebody else was faster
        raise PostgresError('others take all ports')

    def configure(self):
        """Writes the server's settings; a server that runs takes over what can be taken over."""
        settings = {
            'listen_addresses': '127.0.0.1' if self.tcp else '',
            'port': self.port,
            'unix_socket_directories': self.folder,
            'shared_buffers': '32MB',
            'dynamic_shared_memory_type': 'mmap', # in the folder, so that it is removed with that
            'huge_pages': 'off',
            'max_connections': 50,
            'min_wal_size': '32MB',
            'wal_keep_size': '256MB', # for standbys that are stopped a while
            'fsync': 'on' if self.durable else 'off',
            'synchronous_standby_names': f'FIRST {len(self.awaited)} ({", ".join(self.awaited)})' if self.awaited else '',
            'log_line_prefix': '%m [%p] ',
            'log_timezone': 'UTC',
            'timezone': 'UTC',
        }
        if self.primary:
            settings['primary_conninfo'] = f'{self.primary.uri()}&application_name={self.name}'
        settings.update(self.more)
        self.ask('write', 'postgresql.conf', ''.join(f'{name} = {quote(value)}\n' for name, value in settings.items()))
        self.ask('reload')

    def uri(self, schema=None, tcp=False):
        """For libpq; with tcp, of the server's port of 127.0.0.1. A schema is the whole search path."""
        options = {} if tcp else {'host': self.folder}
        if self.port != PORT and not tcp:
            options['port'] = self.port
        if schema:
            options['options'] = f'-csearch_path={schema}'
        host = f'127.0.0.1:{self.port}' if tcp else ''
        query = urllib.parse.urlencode(options, quote_via=urllib.parse.quote)
        return f'postgresql://confab@{host}/postgres' + ('?' + query.replace('%2F', '/') if query else '')

    def psql(self, schema=None, tcp=False):
        """The command and the environment of a psql that stops at the first error."""
        command = [os.path.join(self.binaries, 'psql'), '-X', '-q', '-t', '--csv', '-v', 'ON_ERROR_STOP=1',
                   self.uri(schema, tcp)]
        return command, {'PATH': os.environ.get('PATH', os.defpath), 'HOME': self.folder, 'LC_ALL': 'C',
                         'PGCLIENTENCODING': 'UTF8'}

    def sql(self, text, schema=None, timeout=LIMIT, tcp=False):
        """Runs statements, each a transaction of its own; returns the rows of all of them. A null is ''.

        What takes more than `timeout` seconds raises subprocess.TimeoutExpired; what the server does may go on.
        """
        command, environment = self.psql(schema, tcp)
        done = subprocess.run(command, env=environment, input=text, capture_output=True, encoding='utf-8', check=False,
                              timeout=timeout)
        if done.returncode:
            raise PostgresError(done.stderr.strip())
        # A line without anything is a row of one value.
        return [row or [''] for row in csv.reader(io.StringIO(done.stdout, newline=''))]

    def schema(self):
        """The name of a new schema."""
        name = f'test_{secrets.token_hex(6)}'
        self.sql(f'create schema {name}')
        return name

    def drop(self, schema):
        self.sql(f'set client_min_messages = warning; drop schema {schema} cascade')

    def log(self):
        with open(os.path.join(self.folder, 'log'), encoding='utf-8', errors='replace') as f:
            return f.read()

    def start(self):
        """Starts the server again, on what it has stored."""
        self.pid = self.ask('start')

    def stop(self):
        """Ends the server in good order, without waiting for clients; but it waits for a standby that is paused."""
        self.ask('stop')
        self.pid = None

    def kill(self):
        """As a crash does: all processes of the server end at one moment."""
        self.ask('kill')
        self.pid = None

    def pause(self):
        """Stops all processes of the server; it takes connections, and says nothing."""
        self.ask('pause')

    def resume(self):
        self.ask('resume')

    def standby(self, sync=True):
        """A new server that follows this one; with sync, this one's transactions wait for it until it is closed.

        It is closed with this one at the latest.
        """
        self.n_standbys += 1
        standby = Postgres(self.durable, self.tcp, self.more, primary=self)
        self.standbys.append(standby)
        try:
            if sync:
                self.awaited.append(standby.name)
                self.configure()
            self.await_standby(standby, 'sync' if sync else 'async')
        except BaseException:
            standby.close()
            raise
        return standby

    def await_standby(self, standby, state):
        deadline = time.monotonic() + LIMIT
        asked = ('select 1 from pg_stat_replication where (application_name, state, sync_state) = '
                 f"('{standby.name}', 'streaming', '{state}')")
        while not self.sql(asked):
            if time.monotonic() > deadline:
                raise PostgresError(f'the standby does not follow: {standby.log()}')
            time.sleep(0.02)

    def promote(self):
        """Makes a primary of a standby. The old primary, if it lives, goes on waiting for it."""
        if self.sql(f'select pg_promote(true, {LIMIT})') != [['t']]:
            raise PostgresError(f'the standby was not promoted: {self.log()}')

    def forget(self, standby):
        self.standbys.remove(standby)
        if standby.name in self.awaited:
            self.awaited.remove(standby.name)
            self.configure()

    def close(self):
        """Ends the server and removes its folder."""
        if self.keeper.closed:
            return
        for standby in list(self.standbys):
            standby.close()
        self.pid = None
        try:
            self.keeper.close()
        finally:
            if self.primary and self in self.primary.standbys and not self.primary.keeper.closed:
                self.primary.forget(self)
