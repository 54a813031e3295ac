#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""backup.py CONFABD PACKAGE-FOLDER SOURCE CONVERSATIONS: how long commits take while a backup of a large register is made.

One connection opens conversations, one after the other, each of which is a commit: for five seconds alone, then as long as
another connection takes a backup, then alone again. The register has CONVERSATIONS conversations of 4 KB."""
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

confabd, package, source, count = *sys.argv[1:4], int(sys.argv[4])
sys.path.insert(0, package)
from confab import ConfabError, blocking  # noqa: E402


class Daemon:
    def __init__(self, folder):
        self.path = f'{folder}/socket'
        self.args = [confabd, '--model', f'{source}/models/confab-small.q8_0.gguf', '--socket', self.path, '--state',
                     f'{folder}/state', '--pool-size', '64M', '--threads', '1', '--max-conversations', '1000000']
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(self.args, stderr=subprocess.DEVNULL)
        while True:
            try:
                blocking.Client.connect(self.path).disconnect()
                return self
            except ConfabError:
                time.sleep(0.02)

    def __exit__(self, *_why):
        self.process.terminate()
        self.process.wait()


def fill(path):
    """Conversations like the first one, with a turn each."""
    with sqlite3.connect(path) as db:
        columns = ', '.join(row[1] for row in db.execute('PRAGMA table_info(conversation)') if row[1] not in ('id', 'name'))
        db.execute('WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < ? + 99) '
                   f"INSERT INTO conversation (id, name, {columns}) SELECT i, 'c' || i, {columns} FROM n, conversation",
                   (count,))
        db.execute('UPDATE conversation SET n_turns = 1 WHERE id >= 100')
        db.execute('INSERT INTO turn (conversation, n, role, first, past, created_usec, token_hash, text, tokens, chain) '
                   "SELECT id, 0, 'user', 0, 0, 1, 0, hex(randomblob(2000)), x'', 1 FROM conversation WHERE id >= 100")
        db.execute("UPDATE sqlite_sequence SET seq = ? + 99 WHERE name = 'conversation'", (count,))


def commits(client, goes_on):
    times = []
    while goes_on():
        before = time.perf_counter()
        client.open()
        times.append(1000 * (time.perf_counter() - before))
    times.sort()
    return f'{len(times)} commits, p50 {times[len(times) // 2]:.1f} ms, longest {times[-1]:.1f} ms'


def alone(client):
    end = time.monotonic() + 5
    return commits(client, lambda: time.monotonic() < end)


def main():
    with tempfile.TemporaryDirectory() as folder:
        with Daemon(folder) as daemon:
            blocking.Client.connect(daemon.path).open()
        register = f'{folder}/state/register.db'
        fill(register)
        print(f'register: {os.path.getsize(register) >> 20} MiB')
        with Daemon(folder) as daemon:
            client, other = (blocking.Client.connect(daemon.path) for _ in range(2))
            print(f'alone: {alone(client)}')
            archive = pathlib.Path(folder, 'archive')

            def backup():
                with open(archive, 'wb') as out:
                    for piece in other.backup():
                        out.write(piece)

            thread = threading.Thread(target=backup)
            before = time.monotonic()
            thread.start()
            print(f'beside a backup: {commits(client, thread.is_alive)}')
            print(f'it took {time.monotonic() - before:.1f} s and has {archive.stat().st_size >> 20} MiB')
            print(f'alone: {alone(client)}')


main()
