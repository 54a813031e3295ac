# SPDX-License-Identifier: MIT
"""A network of namespaces: each part has one of its own, joined by a pair of veth to a bridge in the caller's namespace.

The caller has a network namespace and a mount namespace of its own (run.py), so nothing of this is seen outside, and all of
it goes with the caller.
"""
import contextlib
import ctypes
import functools
import os
import subprocess

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
NOWHERE = '02:00:00:00:00:99' # an address that no interface has


def ip(*words, check=True):
    return subprocess.run(['ip', *words], capture_output=True, text=True, check=check)


def tc(*words, check=True):
    return subprocess.run(['tc', *words], capture_output=True, text=True, check=check)


class Net:
    def __init__(self):
        os.makedirs('/run/netns', exist_ok=True)
        subprocess.run(['mount', '-t', 'tmpfs', 'cluster', '/run/netns'], check=True)
        ip('link', 'set', 'lo', 'up')
        ip('link', 'add', 'hub', 'type', 'bridge')
        ip('link', 'set', 'hub', 'up')
        self.addresses = {}

    def add(self, name):
        """A namespace; its address."""
        address = f'10.77.0.{10 + len(self.addresses)}'
        ip('netns', 'add', name)
        ip('link', 'add', f'v-{name}', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
        ip('link', 'set', f'v-{name}', 'master', 'hub', 'up')
        ip('-n', name, 'addr', 'add', f'{address}/24', 'dev', 'eth0')
        ip('-n', name, 'link', 'set', 'lo', 'up')
        ip('-n', name, 'link', 'set', 'eth0', 'up')
        self.addresses[name] = address
        return address

    @contextlib.contextmanager
    def inside(self, name):
        """What this thread starts meanwhile is in the namespace."""
        with open('/proc/thread-self/ns/net', encoding='ascii') as own, open(f'/run/netns/{name}', encoding='ascii') as there:
            self.enter(there)
            try:
                yield
            finally:
                self.enter(own)

    @staticmethod
    def enter(file):
        if LIBC.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), 'setns')

    # Faults.

    def cut(self, name, whole=True):
        ip('link', 'set', f'v-{name}', 'down' if whole else 'up')

    def drop(self, name, other):
        """What goes from one to the other gets lost; not what comes."""
        ip('-n', name, 'neigh', 'replace', self.addresses[other], 'lladdr', NOWHERE, 'dev', 'eth0', 'nud', 'permanent')

    def restore(self, name, other):
        ip('-n', name, 'neigh', 'del', self.addresses[other], 'dev', 'eth0', check=False)

    @functools.cached_property
    def has_netem(self):
        done = tc('qdisc', 'add', 'dev', 'hub', 'root', 'netem', 'delay', '1ms', check=False)
        tc('qdisc', 'del', 'dev', 'hub', 'root', check=False)
        return done.returncode == 0

    def delay(self, name):
        """A slow link: with a long way where the kernel has that, else so narrow that queues are long."""
        how = ['netem', 'delay', '60ms', '30ms'] if self.has_netem else ['tbf', 'rate', '400kbit', 'burst', '2kb', 'limit', '1mb']
        tc('qdisc', 'replace', 'dev', f'v-{name}', 'root', *how)
        tc('-n', name, 'qdisc', 'replace', 'dev', 'eth0', 'root', *how)

    def hurry(self, name):
        tc('qdisc', 'del', 'dev', f'v-{name}', 'root', check=False)
        tc('-n', name, 'qdisc', 'del', 'dev', 'eth0', 'root', check=False)
