# SPDX-License-Identifier: MIT
"""The PostgreSQL servers of tests (postgres.py) and what runs programs beside one (with-postgres.py): that a crash, a
pause and a standby are what they are called, and that nothing is left, however the test ends.
"""
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import postgres
import postgres_keeper

HERE = pathlib.Path(__file__).resolve().parent
PASSES = 'echo "ok 1 - test_a"; echo "# words"; echo "ok 2 - test_b"; echo 1..2'
FAILS = 'echo "not ok 1 - test_c"; echo 1..1; exit 1'
SKIPS = 'echo "SKIP: no reason"; echo "not ok 1 # SKIP test_d"; echo 1..1'
LEAVES = 'echo "SKIP: no time"; exit 77'
DIES = 'echo "ok 1 - test_e"; kill -9 $$'
CONNECTS = 'case $CONFAB_TEST_POSTGRESQL in postgresql://confab@/postgres?host=/*) echo "ok 1 - test_f"; echo 1..1;; esac'


def wait_until(true, words):
    """For what no event tells of."""
    deadline = time.monotonic() + postgres.LIMIT
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(words)
        time.sleep(postgres_keeper.STEP)


def gone(pids):
    return not any(postgres_keeper.processes().get(pid, (0, 'X'))[1] not in 'ZX' for pid in pids)


def family(pid):
    """The processes below one, with it."""
    parents = {child: parent for child, (parent, _) in postgres_keeper.processes().items()}
    found = [pid]
    for member in found:
        found += [child for child, parent in parents.items() if parent == member]
    return found


def segments():
    """The shared memory that the kernel keeps for servers, by number: a server's number is in its file."""
    with open('/proc/sysvipc/shm', encoding='ascii') as f:
        return {int(line.split()[1]) for line in f.readlines()[1:]}


def segment(folder):
    with open(f'{folder}/data/postmaster.pid', encoding='utf-8') as f:
        return int(f.readlines()[6].split()[1])


class Servers(unittest.TestCase):
    """All on one primary, as making one is what takes the time."""

    @classmethod
    def setUpClass(cls):
        cls.server = postgres.Postgres(durable=True)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def schema(self):
        schema = self.server.schema()
        self.addCleanup(self.server.drop, schema)
        self.server.sql('create table t (n int)', schema)
        return schema

    def test_rows(self):
        rows = self.server.sql("select 1, E'a,\"b\"\\n'; select null; select where false; create temp table x (n int)")
        self.assertEqual(rows, [['1', 'a,"b"\n'], ['']])
        with self.assertRaisesRegex(postgres.PostgresError, 'ERROR: .*division by zero'):
            self.server.sql('select 1; select 1/0')
        self.assertEqual(self.server.sql('show fsync; show autovacuum; show max_connections; select current_user'),
                         [['on'], ['on'], ['50'], ['confab']])

    def test_schemas(self):
        one, other = self.schema(), self.schema()
        self.server.sql('insert into t values (1)', one)
        self.assertEqual(self.server.sql('select n from t', one), [['1']])
        self.assertEqual(self.server.sql('select n from t', other), [])
        with self.assertRaisesRegex(postgres.PostgresError, 'does not exist'):
            self.server.sql('select n from t')

    def test_crash(self):
        schema = self.schema()
        self.server.sql('insert into t values (1)', schema)
        command, environment = self.server.psql(schema)
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as client:
            client.stdin.write(b'begin; insert into t values (2); select 3;\n')
            client.stdin.flush()
            self.assertEqual(client.stdout.readline(), b'3\n')
            members, number = family(self.server.pid), segment(self.server.folder)
            self.assertGreater(len(members), 3)
            self.server.kill()
            self.assertTrue(gone(members))
            self.assertNotIn(number, segments())
            client.communicate()
        with self.assertRaises(postgres.PostgresError):
            self.server.sql('select 1')
        self.server.start()
        self.assertIn('automatic recovery in progress', self.server.log())
        self.assertEqual(self.server.sql('select n from t', schema), [['1']])

    def test_stop(self):
        schema = self.schema()
        self.server.sql('insert into t values (1)', schema)
        pid = self.server.pid
        self.server.stop()
        self.assertTrue(gone([pid]))
        self.assertIsNone(self.server.pid)
        self.server.start()
        with self.assertRaisesRegex(postgres.PostgresError, 'runs already'):
            self.server.start()
        self.assertEqual(self.server.sql('select n from t', schema), [['1']])

    def test_pause(self):
        command, environment = self.server.psql()
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            def ask(n):
                client.stdin.write(f'select {n};\n'.encode())
                client.stdin.flush()
            ask(1)
            self.assertEqual(client.stdout.readline(), b'1\n')
            self.server.pause()
            ask(2)
            with self.assertRaises(subprocess.TimeoutExpired): # who comes anew waits as well
                self.server.sql('select 3', timeout=0.3)
            self.assertEqual(select.select([client.stdout], [], [], 0)[0], [])
            states = postgres_keeper.processes()
            self.assertEqual({states[pid][1] for pid in family(self.server.pid)}, {'T'})
            self.server.resume()
            self.assertEqual(client.stdout.readline(), b'2\n')
        self.server.pause()
        self.server.stop() # wakes it
        self.server.start()
        self.server.pause()
        self.server.kill()
        self.server.start()
        self.assertEqual(self.server.sql('select 4'), [['4']])

    def test_settings(self):
        self.server.more['work_mem'] = '1MB'
        self.server.configure()
        wait_until(lambda: self.server.sql('show work_mem') == [['1MB']], 'the server does not take over a setting')

    def test_standby(self):
        schema = self.schema()
        standby = self.server.standby()
        self.addCleanup(standby.close)
        self.server.sql('insert into t values (1)', schema)
        wait_until(lambda: standby.sql('select n from t', schema) == [['1']], 'the standby does not follow')
        with self.assertRaisesRegex(postgres.PostgresError, 'read-only transaction'):
            standby.sql('insert into t values (2)', schema)
        standby.pause()
        with self.assertRaises(subprocess.TimeoutExpired): # it waits for the standby
            self.server.sql('insert into t values (3)', schema, timeout=0.3)
        standby.resume()
        self.server.sql('insert into t values (4)', schema)
        self.server.kill()
        standby.promote()
        standby.sql('insert into t values (5)', schema)
        self.assertEqual(standby.sql('select n from t order by n', schema), [['1'], ['3'], ['4'], ['5']])
        standby.kill()
        standby.start()
        self.assertEqual(standby.sql('select count(*) from t', schema), [['4']])
        self.server.start()
        folder = standby.folder
        standby.close() # so that the primary no longer waits for it
        self.assertFalse(os.path.exists(folder))
        self.server.sql('insert into t values (6)', schema)

    def test_two(self):
        """Two beside each other, one by TCP; of that the standby is closed with its primary."""
        with postgres.Postgres(tcp=True) as other:
            self.assertNotEqual(other.folder, self.server.folder)
            other.sql('create table only_here (n int)', tcp=True)
            self.assertEqual(other.sql('select * from only_here; show fsync'), [['off']])
            with self.assertRaisesRegex(postgres.PostgresError, 'does not exist'):
                self.server.sql('select * from only_here')
            standby = other.standby(sync=False)
            self.assertNotEqual(standby.port, other.port)
            pids, folders = [standby.pid, other.pid], [standby.folder, other.folder]
        self.assertTrue(gone(pids))
        self.assertFalse(any(map(os.path.exists, folders)))
        standby.close() # once more does nothing


class Ends(unittest.TestCase):
    """The test is killed: while its server is paused, and while it is made."""

    def start(self, words):
        program = f'import sys; sys.path.insert(0, {str(HERE)!r}); sys.dont_write_bytecode = True\n{words}'
        test = subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE, text=True)
        self.addCleanup(test.wait)
        self.addCleanup(test.stdout.close)
        return test

    def test_paused(self):
        test = self.start('import postgres\np = postgres.Postgres()\np.pause()\n'
                          'print(p.folder, p.keeper.pid, flush=True)\nsys.stdin.read()')
        folder, keeper = test.stdout.readline().split()
        members, number = family(int(keeper)), segment(folder)
        self.assertGreater(len(members), 3)
        test.kill()
        wait_until(lambda: gone(members), 'the server outlives the test')
        self.assertFalse(os.path.exists(folder))
        self.assertNotIn(number, segments())

    def test_young(self):
        test = self.start('import postgres\nmake = postgres.Postgres.make\n'
                          'def shown(self):\n    print(self.folder, self.keeper.pid, flush=True)\n    make(self)\n'
                          'postgres.Postgres.make = shown\npostgres.Postgres()')
        folder, keeper = test.stdout.readline().split()
        wait_until(lambda: len(family(int(keeper))) > 1, 'initdb does not run')
        members = family(int(keeper))
        test.kill()
        wait_until(lambda: gone(members), 'initdb outlives the test')
        self.assertFalse(os.path.exists(folder))

    def test_keeper(self):
        """Without its keeper the server ends by itself."""
        server = postgres.Postgres()
        members, number = family(server.keeper.pid), segment(server.folder)
        server.keeper.kill()
        wait_until(lambda: gone(members), 'the server outlives its keeper')
        with self.assertRaisesRegex(postgres.PostgresError, 'has ended'):
            server.start()
        with self.assertRaisesRegex(postgres.PostgresError, 'status -9'):
            server.close()
        shutil.rmtree(server.folder)
        postgres_keeper.LIBC.shmctl(number, postgres_keeper.IPC_RMID, None)


class Programs(unittest.TestCase):
    def run_programs(self, **programs):
        """with-postgres.py on shell programs: its status, and what it says."""
        with tempfile.TemporaryDirectory(prefix='confab-test-pg-') as folder:
            paths = []
            for name, text in programs.items():
                paths.append(pathlib.Path(folder, f'test-store-{name}'))
                paths[-1].write_text(f'#!/bin/sh\n{text}\n', encoding='utf-8')
                paths[-1].chmod(0o755)
            done = subprocess.run([sys.executable, HERE / 'with-postgres.py', *paths], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, text=True, check=False)
            return done.returncode, done.stdout.splitlines()

    def test_stream(self):
        status, lines = self.run_programs(conv=PASSES, list=CONNECTS, chain=SKIPS, gap=LEAVES, kill=DIES, plan=FAILS,
                                          log='exit 3')
        self.assertEqual(status, 1)
        self.assertEqual(lines, [
            'ok 1 - conv: test_a', '# words', 'ok 2 - conv: test_b',
            'ok 3 - list: test_f',
            '# SKIP: no reason', 'ok 4 - chain: test_d # SKIP no reason',
            '# SKIP: no time', 'ok 5 - gap # SKIP no time',
            'ok 6 - kill: test_e', 'not ok 7 - kill: test-store-kill was ended by SIGKILL',
            'not ok 8 - plan: test_c',
            'not ok 9 - log: test-store-log ended with status 3',
            '1..9'])


if not postgres.find():
    print('SKIP: PostgreSQL is not installed')
    sys.exit(77)
unittest.main()
