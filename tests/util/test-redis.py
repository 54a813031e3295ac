# SPDX-License-Identifier: MIT
"""The Redis or Valkey servers of tests (redis.py) and what runs programs beside one (with-redis.py): that a crash, a pause
and a moved slot are what they are called, and that nothing is left, however the test ends.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import postgres_keeper
import redis

HERE = pathlib.Path(__file__).resolve().parent


def wait_until(true, words):
    """For what no event tells of."""
    deadline = time.monotonic() + redis.LIMIT
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(words)
        time.sleep(postgres_keeper.STEP)


def state_of(pid):
    return postgres_keeper.processes().get(pid, (0, 'X'))[1]


def gone(pids):
    return all(state_of(pid) in 'ZX' for pid in pids)


class Servers(unittest.TestCase):
    def test_one(self):
        with redis.Redis() as server:
            self.assertEqual(server.command('SET', 'key', b'a\r\n\0b'), b'OK')
            self.assertEqual(server.command('GET', 'key'), b'a\r\n\0b')
            self.assertEqual(server.command('KEYS', '*'), [b'key'])
            self.assertEqual(server.command('EXISTS', 'key', 'other'), 1)
            self.assertIsNone(server.command('GET', 'other'))
            with self.assertRaisesRegex(redis.RedisError, 'unknown command'):
                server.command('NONSENSE')
            self.assertEqual(server.uri(), f'redis://{server.socket}')
            with socket.create_connection(('127.0.0.1', server.port)) as s:
                s.sendall(b'PING\r\n')
                self.assertEqual(s.recv(16), b'+PONG\r\n')
            pid = server.pid
            with self.assertRaisesRegex(redis.RedisError, 'runs already'):
                server.start()
            server.kill()
            self.assertTrue(gone([pid]))
            with self.assertRaisesRegex(redis.RedisError, 'does not run'):
                server.kill()
            with self.assertRaises(OSError):
                server.command('PING')
            server.start()
            self.assertIsNone(server.command('GET', 'key'))
            folder, pid = server.folder, server.pid
        self.assertTrue(gone([pid]))
        self.assertFalse(os.path.exists(folder))
        server.close() # once more does nothing

    def test_pause(self):
        with redis.Redis() as server:
            server.pause()
            self.assertEqual(state_of(server.pid), 'T')
            with self.assertRaises(TimeoutError):
                server.command('PING', timeout=0.3)
            server.resume()
            self.assertEqual(server.command('PING'), b'PONG')
            server.pause()
            server.kill()
            server.start()
            server.pause() # so it is when it is closed

    def test_options(self):
        with redis.Redis(password='secret', maxmemory=1, settings={'databases': 3}) as server:
            self.assertEqual(server.command('CONFIG', 'GET', 'databases')[1], b'3')
            with self.assertRaisesRegex(redis.RedisError, 'OOM'):
                server.command('SET', 'key', 'value')
            server.password = None
            with self.assertRaisesRegex(redis.RedisError, 'NOAUTH'):
                server.command('PING')
        with self.assertRaisesRegex(redis.RedisError, 'did not start'):
            redis.Redis(settings={'no-such-setting': 1})

    @unittest.skipUnless(redis.has_tls(), 'no TLS')
    def test_tls(self):
        with redis.Redis(tls=True) as server:
            for name in 'server.crt', 'other.crt':
                self.assertIn('BEGIN CERTIFICATE', pathlib.Path(server.folder, name).read_text(encoding='ascii'))
            with socket.create_connection(('127.0.0.1', server.tls_port)):
                self.assertEqual(server.uri(tls=True), f'rediss://127.0.0.1:{server.tls_port}')

    def test_cluster(self):
        with redis.RedisCluster(replica=True) as cluster:
            self.assertEqual(cluster.uri(), 'redis://' + ','.join(f'127.0.0.1:{m.port}' for m in cluster.masters))
            slot = cluster.slot_of('key')
            owner = cluster.owner_of(slot)
            to = (owner + 1) % 3
            first, second = cluster.masters[owner], cluster.masters[to]
            first.command('SET', 'key', 'value')
            with self.assertRaisesRegex(redis.RedisError, f'MOVED {slot} 127.0.0.1:{first.port}'):
                second.command('GET', 'key')
            cluster.begin_move(slot, to)
            self.assertEqual(first.command('GET', 'key'), b'value')
            cluster.move_keys(slot, to)
            with self.assertRaisesRegex(redis.RedisError, f'ASK {slot} 127.0.0.1:{second.port}'):
                first.command('GET', 'key')
            cluster.end_move(slot, to)
            self.assertEqual(second.command('GET', 'key'), b'value')
            with self.assertRaisesRegex(redis.RedisError, 'MOVED'):
                first.command('GET', 'key')
            cluster.move(slot, owner)
            self.assertEqual(first.command('GET', 'key'), b'value')
            cluster.fail_over()
            with self.assertRaisesRegex(redis.RedisError, f'MOVED 0 127.0.0.1:{cluster.replica.port}'):
                cluster.masters[1].command('GET', '{3560}') # of slot 0
            pids = [node.pid for node in cluster.nodes[1:]]
        self.assertTrue(gone(pids))
        self.assertFalse(os.path.exists(cluster.servers.folder))


class Ends(unittest.TestCase):
    def test_killed(self):
        """The test is killed, while its server is paused."""
        program = (f'import sys; sys.path.insert(0, {str(HERE)!r}); sys.dont_write_bytecode = True\nimport redis\n'
                   's = redis.Redis()\ns.pause()\nprint(s.folder, s.servers.keeper.pid, s.pid, flush=True)\nsys.stdin.read()')
        with subprocess.Popen([sys.executable, '-c', program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as test:
            folder, *pids = test.stdout.readline().split()
            test.kill()
        wait_until(lambda: gone(map(int, pids)), 'the server outlives the test')
        self.assertFalse(os.path.exists(folder))

    def test_keeper(self):
        """Without its keeper the server ends at once."""
        server = redis.Redis()
        pid = server.pid
        server.servers.keeper.kill()
        wait_until(lambda: gone([pid]), 'the server outlives its keeper')
        with self.assertRaisesRegex(redis.RedisError, 'has ended'):
            server.kill()
        with self.assertRaisesRegex(redis.RedisError, 'status -9'):
            server.close()
        shutil.rmtree(server.folder)


class Programs(unittest.TestCase):
    def run_beside(self, *words, env=None):
        done = subprocess.run([sys.executable, HERE / 'with-redis.py', *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              text=True, check=False, env=env)
        return done.returncode, done.stdout.splitlines()

    def test_any(self):
        status, lines = self.run_beside('--', 'sh', '-c', 'echo $CONFAB_TEST_REDIS $CONFAB_TEST_REDIS_TCP; exit 3')
        self.assertEqual(status, 3)
        self.assertRegex(lines[0], r'^redis:///.*\.sock redis://127\.0\.0\.1:\d+$')

    def test_cmocka(self):
        with tempfile.TemporaryDirectory(prefix='confab-test-redis-') as folder:
            path = pathlib.Path(folder, 'test-x')
            path.write_text('#!/bin/sh\necho "ok 1 - test_a"; echo "not ok 2 - test_b"; echo 1..2; exit 1\n', encoding='utf-8')
            path.chmod(0o755)
            self.assertEqual(self.run_beside(path), (1, ['ok 1 - test_a', 'not ok 2 - test_b', '1..2']))

    def test_control(self):
        program = ('import os, socket\ndef say(line):\n    s = socket.socket(socket.AF_UNIX)\n'
                   '    s.connect(os.environ["CONFAB_TEST_REDIS_CONTROL"])\n    s.sendall(line.encode() + b"\\n")\n'
                   '    print(s.makefile().readline().strip())\n'
                   'say("redis pause")\nsay("redis resume")\nsay("redis kill")\nsay("redis kill")\nsay("redis start")\nsay("redis close")\n'
                   'say("cluster move 1 1")\n')
        status, lines = self.run_beside('--', sys.executable, '-c', program)
        self.assertEqual(status, 0)
        self.assertEqual([line.split(':')[0] for line in lines], ['ok', 'ok', 'ok', 'error', 'ok', 'error', 'error'])

    def test_none(self):
        with tempfile.TemporaryDirectory(prefix='confab-test-redis-') as folder:
            env = dict(os.environ, PATH=folder)
            self.assertEqual(self.run_beside('--', 'true', env=env), (77, ['SKIP: neither Redis nor Valkey is installed']))
            self.assertEqual(self.run_beside('true', env=env), (0, ['1..0 # SKIP neither Redis nor Valkey is installed']))


if not redis.find():
    print('SKIP: neither Redis nor Valkey is installed')
    sys.exit(77)
unittest.main()
