#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py CONFABD CONFAB SOURCE PACKAGE CLOCK [OPTION...]: the cluster test; tools/cluster-test has the options.

A process outside looks after one inside. The one inside is the first process of a PID namespace, and has mounts and a network of its
own: when it ends, for whatever reason, all processes end, and mounts and networks go. It is killed when the one outside dies. What may
stay then is a folder, which the next run removes (each run holds a lock in its own).
"""
import argparse
import contextlib
import ctypes
import fcntl
import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '../util')]
import check
import history
import plant
import postgres
import redis
import replay
from nemesis import Nemesis
from net import Net
from parts import DEADLINE, Daemon, Database, Memory, await_that

PREFIX = 'confab-cluster-'
PR_SET_PDEATHSIG = 1
USERS = [(65531, 'b'), (65532, 'f'), (65533, 'k')] # with a letter that begins their words


def options(args):
    parser = argparse.ArgumentParser(prog='cluster-test')
    for name in 'confabd', 'confab', 'source', 'package', 'clock':
        parser.add_argument(name)
    parser.add_argument('--faults', type=int)
    parser.add_argument('--minutes', type=float)
    parser.add_argument('--seed', type=int)
    parser.add_argument('--clients', type=int)
    parser.add_argument('--daemons', type=int)
    parser.add_argument('--kinds', type=lambda text: text.split(','))
    parser.add_argument('--keep')
    parser.add_argument('--short', action='store_true')
    parser.add_argument('--check')
    parser.add_argument('--replay')
    parser.add_argument('--self-test', action='store_true')
    parser.add_argument('--inside', help=argparse.SUPPRESS)
    chosen = parser.parse_args(args)
    usual = {'faults': 12, 'minutes': 2, 'clients': 6, 'daemons': 2} if chosen.short else {
        'faults': 500, 'minutes': 60, 'clients': 30, 'daemons': 3}
    for name, value in usual.items():
        if getattr(chosen, name) is None:
            setattr(chosen, name, value)
    if chosen.seed is None:
        chosen.seed = 1 if chosen.short else int(time.time())
    chosen.model = f'{chosen.source}/models/confab-small.q4_0.gguf'
    return chosen


def missing():
    """What there is not, if anything."""
    if os.geteuid() != 0:
        return 'it takes root'
    for program in 'ip', 'tc', 'unshare':
        if not shutil.which(program):
            return f'there is no program {program}'
    if not postgres.find():
        return 'PostgreSQL is not installed'
    if not redis.find():
        return 'neither Redis nor Valkey is installed'
    try:
        import google.protobuf # pylint: disable=unused-import
    except ImportError:
        return f'{sys.executable} has no module google.protobuf'
    trial = ('mount -t tmpfs cluster /run && ip link add hub type bridge && mkdir /run/netns && ip netns add one && '
             'ip link add v-one type veth peer name eth0 netns one')
    done = subprocess.run(['unshare', '--mount', '--net', '--pid', '--fork', '--kill-child', 'sh', '-c', trial],
                          capture_output=True, text=True, check=False)
    return f'no network namespaces here: {done.stderr.strip()}' if done.returncode else None


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# --- outside ---

@contextlib.contextmanager
def own_folder():
    for old in glob.glob(f'{tempfile.gettempdir()}/{PREFIX}*/lock'):
        with contextlib.suppress(OSError), open(old, 'rb') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB) # its run is dead
            shutil.rmtree(os.path.dirname(old), ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=PREFIX)
    os.chmod(folder, 0o711)
    try:
        with open(f'{folder}/lock', 'wb') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end(process):
    """Returns when all that runs inside has ended: the first process of a PID namespace is the last one to end."""
    with contextlib.suppress(OSError):
        with open(f'/proc/{process.pid}/task/{process.pid}/children', encoding='ascii') as f:
            handles = [os.pidfd_open(int(pid)) for pid in f.read().split()]
        process.kill() # which kills them
        for handle in handles:
            select.select([handle], [], [], DEADLINE)
            os.close(handle)


def outside(chosen, args):
    why = missing()
    if why:
        print(f'SKIP: {why}')
        return 77
    for number in signal.SIGTERM, signal.SIGHUP, signal.SIGINT:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with own_folder() as folder:
        inside_of = ['unshare', '--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc', sys.executable,
                     os.path.abspath(__file__), *args, '--seed', str(chosen.seed), '--inside', folder]
        with subprocess.Popen(inside_of, preexec_fn=die_with_parent) as process:
            try:
                status = process.wait()
            except BaseException: # ^C as well
                end(process)
                raise
        keep(folder, chosen.keep or (tempfile.mkdtemp(prefix='cluster-test-') if status else None))
        return status


def keep(folder, where):
    if where:
        os.makedirs(where, exist_ok=True)
        for path in glob.glob(f'{folder}/*.log') + glob.glob(f'{folder}/*.jsonl'):
            shutil.copy(path, where)
        print(f'history and journals: {where}')


# --- inside ---

class Cluster:
    """All parts, running."""

    def __init__(self, chosen, folder):
        self.chosen, self.folder = chosen, folder
        self.net = Net()
        daemons, nodes = ([f'{kind}{i + 1}' for i in range(n)] for kind, n in (('d', chosen.daemons), ('r', 3)))
        for name in ['db1', 'db2', *nodes, *daemons]:
            self.net.add(name)
        self.database = Database(self.net, folder, ['db1', 'db2'])
        self.memory = Memory(self.net, folder, nodes)
        settings = {'threads': 1, 'pool-size': '9M', 'pressure': 'no', 'socket-mode': '0666', 'disk-floor': 0, 'disk-limit': '24M',
                    'spill-delay': '300ms', 'lease-time': '2s', 'store': self.database.uri(), 'store-timeout': '3s',
                    'remote': self.memory.uri(), 'remote-timeout': '300ms', 'remote-write-share': 100}
        self.daemons = [Daemon(name, self.net, folder, chosen, '48m', settings) for name in daemons]
        self.processes = {p.name: p for p in (*self.daemons, *self.memory.nodes)}


class Supervisor(threading.Thread):
    """Starts again what ended by itself, as systemd does; a daemon that a signal ended is an error."""

    def __init__(self, cluster, recorder):
        super().__init__(daemon=True)
        self.cluster, self.recorder = cluster, recorder
        self.done = threading.Event()

    def run(self):
        while not self.done.wait(0.2):
            for process in self.cluster.processes.values():
                status = process.ended()
                if status is not None:
                    self.recorder.write('exit', on=process.name, status=status)
                    process.start()


def client(chosen, folder, cluster, how, i):
    uid, letter = USERS[i]
    setting = {'history': f'{folder}/history.jsonl', 'package': chosen.package, 'uid': uid, 'letter': letter, 'seed': chosen.seed,
               'sockets': {d.name: d.socket for d in cluster.daemons}, 'clients': chosen.clients // len(USERS),
               'pause': 0.1 if chosen.short else 0.25}
    return subprocess.Popen([sys.executable, f'{HERE}/client.py', how, json.dumps(setting)], stdin=subprocess.PIPE)


def ends_well(processes, what):
    for process in processes:
        if process.wait(DEADLINE):
            raise RuntimeError(f'{what} ended with status {process.returncode}')


def look_after(cluster):
    """The end: everything works again, and tells what there is."""
    cluster.database.whole()
    for daemon in cluster.daemons:
        daemon.skew(0)
        await_that(f'{daemon.name} serves', daemon.serves)


def verdicts(cluster, recorder):
    for daemon in cluster.daemons:
        said = daemon.run('--json', 'admin', 'check', '--rate', 'none')
        recorder.write('verdict', on=daemon.name, status=said.returncode, said=json.loads(said.stdout) if said.stdout else said.stderr)


def own_programs(chosen, folder):
    """Copies, so that a build that goes on beside this harms nothing."""
    for name in 'confabd', 'confab', 'clock':
        setattr(chosen, name, shutil.copy(getattr(chosen, name), f'{folder}/'))


def run_all(chosen, folder, recorder):
    recorder.write('begin', seed=chosen.seed, faults=chosen.faults, daemons=chosen.daemons, clients=chosen.clients)
    began = time.monotonic()
    cluster = Cluster(chosen, folder)
    try:
        start(cluster)
        supervisor = Supervisor(cluster, recorder)
        supervisor.start()
        say(f'{chosen.daemons} daemons, {chosen.clients} clients, seed {chosen.seed}: they run after {time.monotonic() - began:.1f} s')
        break_things(chosen, folder, cluster, recorder, began)
        look_after(cluster)
        ends_well([client(chosen, folder, cluster, 'look', i) for i in range(len(USERS))], 'clients that look')
        verdicts(cluster, recorder)
        supervisor.done.set()
        supervisor.join()
        for daemon in cluster.daemons:
            recorder.write('exit', on=daemon.name, status=daemon.stop(), asked=True)
        say(f'all has ended after {time.monotonic() - began:.1f} s')
    finally:
        cluster.database.close()


def start(cluster):
    for daemon in cluster.daemons:
        daemon.start()
    for daemon in cluster.daemons:
        await_that(f'{daemon.name} serves', lambda daemon=daemon: daemon.serves() or daemon.ended() is not None)
        if daemon.ended() is not None:
            raise RuntimeError(f'{daemon.name} does not start')


def break_things(chosen, folder, cluster, recorder, began):
    clients = [client(chosen, folder, cluster, 'work', i) for i in range(len(USERS))]
    nemesis = Nemesis(cluster, recorder, chosen.seed, (0.1, 0.6) if chosen.short else (0.2, 1.0), chosen.kinds)
    threading.Thread(target=tell, args=(nemesis, chosen, began), daemon=True).start()
    nemesis.wait(1)
    nemesis.run(chosen.faults, began + chosen.minutes * 60)
    nemesis.wait(1)
    say(f'{nemesis.n} faults after {time.monotonic() - began:.1f} s')
    for process in clients:
        process.stdin.close()
    ends_well(clients, 'clients')


def say(words):
    print(words, flush=True)


def tell(nemesis, chosen, began):
    while True:
        time.sleep(60)
        say(f'{nemesis.n} of {chosen.faults} faults, {time.monotonic() - began:.0f} s')


def inside(chosen, folder):
    signal.signal(signal.SIGINT, signal.SIG_IGN) # the process outside ends this one
    path = f'{folder}/history.jsonl'
    own_programs(chosen, folder)
    recorder = history.Recorder(path)
    if chosen.replay:
        history.copy(chosen.replay, path, lambda line: line['t'] != 'replay')
    else:
        run_all(chosen, folder, recorder)
    lines = history.read(path)
    replay.replay(chosen, folder, lines, recorder)
    lines = history.read(path)
    failed = check.report(lines)
    if not failed and chosen.short:
        failed = plant.report(lines, strict=False)
    return 1 if failed else 0


def main():
    args = sys.argv[1:]
    chosen = options(args)
    if chosen.check or chosen.self_test:
        lines = history.read(chosen.check or f'{HERE}/good.jsonl')
        return 1 if (plant if chosen.self_test else check).report(lines) else 0
    return inside(chosen, chosen.inside) if chosen.inside else outside(chosen, args)


if __name__ == '__main__':
    sys.exit(main())
