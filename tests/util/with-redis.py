#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""with-redis.py [--cluster] [--tls] PROGRAM: runs a cmocka program beside a Redis or Valkey server (tests/util/redis.py).
with-redis.py [--cluster] [--tls] -- PROGRAM ARGUMENT...: runs any program beside it, whose exit status is the result.

The program finds in its environment:

    CONFAB_TEST_REDIS          the URI of the server's socket
    CONFAB_TEST_REDIS_TCP      that of its port
    CONFAB_TEST_REDIS_CLUSTER  with --cluster: that of a cluster of three, whose first master has a replica
    CONFAB_TEST_REDIS_TLS      with --tls, where the server can: that of its port for TLS
    CONFAB_TEST_REDIS_CERTS    with --tls, where the server can: the folder of server.crt, which is to be trusted, and other.crt
    CONFAB_TEST_REDIS_CONTROL  a Unix socket that takes one line for each connection, and answers it by one that begins with "ok" or
                               "error" when it is done: "redis kill", "redis start", "redis pause", "redis resume", the same of
                               node0, node1, node2, "cluster move 3999 1", begin_move, move_keys, end_move, "cluster await_whole",
                               "cluster fail_over"
"""
import contextlib
import os
import socket
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
import redis

TAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tap.py')
VERBS = {
    'server': {'start', 'kill', 'pause', 'resume'},
    'cluster': {'await_whole', 'begin_move', 'move_keys', 'end_move', 'move', 'fail_over'},
}


def do(targets, line):
    """What came of one line."""
    name, verb, *numbers = line.split()
    target = targets.get(name)
    if target is None or verb not in VERBS['cluster' if name == 'cluster' else 'server']:
        return f'error: no {name} {verb}'
    try:
        getattr(target, verb)(*map(int, numbers))
    except (redis.RedisError, OSError) as e:
        return f'error: {name} {verb}: {e}'.replace('\n', ' ')
    return 'ok'


def control(listener, targets):
    while True:
        try:
            peer, _ = listener.accept()
        except OSError: # closed
            return
        with peer, peer.makefile('r', encoding='utf-8') as f, contextlib.suppress(OSError):
            peer.sendall(f'{do(targets, f.readline())}\n'.encode())


@contextlib.contextmanager
def controlled(folder, targets):
    path = os.path.join(folder, 'control')
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=control, args=(listener, targets), daemon=True)
        thread.start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def run(command, with_cluster, with_tls):
    with contextlib.ExitStack() as stack:
        tls = with_tls and redis.has_tls()
        server = stack.enter_context(redis.Redis(tls=tls))
        env = dict(os.environ, CONFAB_TEST_REDIS=server.uri(), CONFAB_TEST_REDIS_TCP=server.uri(tcp=True))
        targets = {'redis': server}
        if tls:
            env.update(CONFAB_TEST_REDIS_TLS=server.uri(tls=True), CONFAB_TEST_REDIS_CERTS=server.folder)
        if with_cluster:
            cluster = stack.enter_context(redis.RedisCluster(replica=True))
            env['CONFAB_TEST_REDIS_CLUSTER'] = cluster.uri()
            targets.update({'cluster': cluster}, **{node.name: node for node in cluster.nodes})
        env['CONFAB_TEST_REDIS_CONTROL'] = stack.enter_context(controlled(server.folder, targets))
        return subprocess.run(command, env=env, check=False).returncode


def main(words):
    options = set()
    while words and words[0] in ('--cluster', '--tls'):
        options.add(words.pop(0))
    plain = words[:1] == ['--']
    if not redis.find():
        print('SKIP: neither Redis nor Valkey is installed' if plain else '1..0 # SKIP neither Redis nor Valkey is installed')
        return 77 if plain else 0
    command = words[1:] if plain else [sys.executable, TAP, *words]
    status = run(command, '--cluster' in options, '--tls' in options)
    return status if status >= 0 else 128 - status


sys.exit(main(sys.argv[1:]))
