#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""remote.py CONFABD CONFAB SOURCE [CASE...]: memory that comes along with conversations, through a Redis or Valkey server.

As machines.py, whose rig this is: two daemons on one schema of a private PostgreSQL, one alone that tells what is right,
and a server of memory for each case. How much comes from there is known only of a daemon that has just started: it always
tries the first time, and later only if that is faster than computing, which for the bundled model it seldom is.
"""
import os
import random
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
from machines import (GUESTS, MODEL, SYSTEM, TOPICS, Pair, Talkers, await_that, confab, everywhere, messages, need, options, run_lanes,
                      together)
import postgres
import redis

TELLS = re.compile(r'(?P<fails>remote store: )|(?P<works>the remote store can be used again)')
PASSWORD = 'not the one of the letters'


class Far(Pair):
    """A pair with a server of memory."""

    def __init__(self, folder, server, case, memory, **settings):
        super().__init__(folder, server, case, remote=memory.uri(), **{
            'remote-write-share': 100, 'remote-timeout': '30s', 'spill-delay': 'never', **settings})
        self.memory = memory

    def keys(self, kind='m'):
        return set(self.memory.command('KEYS', f'confab:{kind}:*'))

    def sent(self, machine, *names, **how):
        """All memory of these conversations is on the machine's disk, and on the server."""
        for name in names:
            machine.run('evict', name, **how)
        await_that('it is sent', lambda: figure(machine, 'remote_pending') == 0)

    def begin(self, name, *topics, at=None, **how):
        """A conversation, here and at the lone daemon; all of its memory is sent."""
        at = at or self.one
        for daemon in at, self.alone:
            daemon.run('open', name, '--system', SYSTEM, **how)
        for i, topic in enumerate(topics):
            self.equal(at, 'say', name, f'Tell me of the {topic}.', *options(i), **how)
        self.sent(at, name, **how)

    def comes_whole(self, machine, name, seed, **how):
        """What the next message gets from the server: all that can be."""
        block, there = (figure(machine, key) for key in ('block_tokens', 'remote_blocks_read'))
        before = machine.told(name, **how)['n_tokens']
        reply = self.equal(machine, 'say', name, 'And what then?', *options(seed), **how)
        need(reply.accepted['n_disk'] >= before // block * block > 0, f'of {before} tokens: {reply.accepted}')
        need(figure(machine, 'remote_blocks_read') > there, 'they did not come from there')
        return reply


def figure(machine, name):
    return machine.json('stats')[name]


def tells(machine):
    """What the journal says of the server: that it fails, that it works."""
    return [match.lastgroup for match in map(TELLS.search, machine.said().splitlines()) if match]


def fails_once(machine):
    """It is told when the server fails, and then not again before it works."""
    told = tells(machine)
    need(told == (['fails', 'works'] * len(told))[:len(told)], f'{machine.name}: {told}')
    return len(told) // 2


# --- from machine to machine ---

def moves(folder, server):
    with redis.Redis() as memory, Far(folder, server, 'far-moves', memory) as pair:
        pair.begin('trip', *TOPICS)
        need(len(pair.keys('c')) == 1 and len(pair.keys()) >= figure(pair.one, 'remote_blocks_sent') > 0, 'what is there')
        pair.comes_whole(pair.two, 'trip', 20)
        need(figure(pair.two, 'remote_damaged') == figure(pair.two, 'remote_failures') == 0, 'it came, and something failed')
        # Back again: one has its own memory, and two's.
        pair.sent(pair.two, 'trip')
        pair.equal(pair.one, 'say', 'trip', 'And who was first?', *options(21))
        pair.sent(pair.one, 'trip')
        # What is rewound here is not read there.
        everywhere(pair, pair.one, 'rewind', 'trip', '--turns', '4')
        for i in range(4):
            pair.equal(pair.machines[i % 2], 'say', 'trip', f'{i}: instead of that.', *options(22 + i))
        # A daemon that has lost its disk has it from there.
        pair.sent(pair.two, 'trip')
        pair.one.stop()
        shutil.rmtree(f'{pair.one.state}/spill')
        pair.one.start()
        pair.comes_whole(pair.one, 'trip', 30)
        need(len(pair.same('trip')['turns']) == 1 + 2 * (len(TOPICS) + 5), 'turns')
        pair.warned.append('spill')


# --- users apart ---

def users(folder, server):
    """Two who say the same have nothing of each other's."""
    who = [{'user': os.getuid()}, GUESTS[0]] if os.getuid() == 0 else [{}]
    with redis.Redis() as memory, Far(folder, server, 'far-users', memory) as pair:
        before, n = set(), []
        for k, how in enumerate(who):
            pair.begin('diary', *TOPICS[:4], **how)
            need(before < pair.keys() and len(pair.keys('c')) == k + 1, f'keys of user {k}')
            n.append(len(pair.keys() - before))
            before = pair.keys()
        need(len(set(n)) == 1, f'of the same text: {n} blocks')
        # At the other machine a third one finds nothing, in spite of all that is there.
        if len(who) > 1:
            for daemon in pair.two, pair.alone:
                daemon.run('open', 'diary', '--system', SYSTEM, **GUESTS[1])
            reply = pair.equal(pair.two, 'say', 'diary', f'Tell me of the {TOPICS[0]}.', *options(0), **GUESTS[1])
            need(reply.accepted['n_disk'] == figure(pair.two, 'remote_blocks_read') == 0, f'another user finds it: {reply.accepted}')
        else:
            print('    SKIP in part: only root acts for another user')
        # Whose it is has it in a new conversation, too. (At a daemon that has not computed yet.)
        pair.two.stop()
        pair.two.start()
        for daemon in pair.two, pair.alone:
            daemon.run('open', 'again', '--system', SYSTEM)
        reply = pair.equal(pair.two, 'say', 'again', f'Tell me of the {TOPICS[0]}.', *options(0))
        block = figure(pair.two, 'block_tokens')
        need(reply.accepted['n_disk'] >= block, f'the same user does not find it: {reply.accepted}')


# --- what fails ---

def overwrite(memory):
    """Each value has become another one's, or none at all."""
    keys = sorted(memory.command('KEYS', 'confab:m:*'))
    values = [memory.command('GET', key) for key in keys]
    for i, (key, value) in enumerate(zip(keys, values[1:] + values[:1])):
        memory.command('SET', key, [value, value[:-1] + b'?', b''][i % 3], 'KEEPTTL')


def faults(folder, server):
    with redis.Redis() as memory, Far(folder, server, 'far-faults', memory, **{'remote-timeout': '1s'}) as pair:
        names = ['other', 'gone', 'still', 'dead']
        homes = list(zip(pair.machines, ('home-1', 'home-2'))) # these do not move: what is to be sent of them stays to be sent
        for name in names:
            pair.begin(name, *random.Random(name).sample(TOPICS, 3))
        overwrite(memory)
        reply = pair.equal(pair.two, 'say', 'other', 'And what then?', *options(10))
        need(reply.accepted['n_disk'] == 0, f'it was taken: {reply.accepted}')
        # A server of a busy machine may have been too slow to say anything.
        need(figure(pair.two, 'remote_damaged') > 0 or tells(pair.two), 'nobody looked')
        memory.command('FLUSHALL')
        reply = pair.equal(pair.two, 'say', 'gone', 'And what then?', *options(11))
        need(reply.accepted['n_disk'] == 0, f'it was flushed: {reply.accepted}')
        for machine, home in homes:
            pair.begin(home, 'hills', at=machine)
        for name, stop, start in (('still', memory.pause, memory.resume), ('dead', memory.kill, memory.start)):
            before = [figure(machine, 'remote_failures') for machine in pair.machines]
            stop()
            for i, machine in enumerate((pair.two, pair.one)):
                pair.equal(machine, 'say', name, f'{i}: are you there?', *options(12 + i))
                machine.run('evict', name)
                pair.equal(machine, 'say', name, f'{i}: and now?', *options(14 + i))
            for machine, home in homes:
                pair.equal(machine, 'say', home, f'{name}: are you there?', *options(16))
                machine.run('evict', home)
            await_that('both find out', lambda n=before: all(figure(machine, 'remote_failures') > k and tells(machine)[-1:] == ['fails']
                                                             for machine, k in zip(pair.machines, n)))
            start()
            for machine, home in homes:
                await_that('it works again', lambda m=machine: figure(m, 'remote_up') == 1 and figure(m, 'remote_pending') == 0 and
                           tells(m)[-1:] == ['works'])
            for i, machine in enumerate((pair.two, pair.one)):
                pair.equal(machine, 'say', name, f'{i}: and after that?', *options(17 + i))
        need(len(pair.keys('c')) > 0, 'it was sent anew')
        for i, name in enumerate(names):
            pair.equal(pair.machines[i % 2], 'say', name, 'At last.', *options(20))
            pair.equal(pair.machines[1 - i % 2], 'say', name, 'At the very last.', *options(21))
        need(all(fails_once(machine) >= 2 for machine in pair.machines), 'each has told both')
        pair.warned.append('remote store')


def clients(folder, server):
    """All at once, at any machine, while the server does all of that again and again."""
    with redis.Redis() as memory, Far(folder, server, 'far-clients', memory, **{'remote-timeout': '100ms', 'spill-delay': '1ms'}) as pair:
        talkers = Talkers(pair, 5)
        try:
            for fault in (lambda: overwrite(memory), memory.pause, memory.resume, lambda: memory.command('FLUSHALL'), memory.kill, memory.start,
                          lambda: overwrite(memory), memory.pause, memory.kill, memory.start):
                talkers.all_said(3)
                fault()
            talkers.all_said()
        finally:
            talkers.stop()
        need(all(reply.status == 0 or reply.passes() for said in talkers.said for _, reply in said), 'what passes')
        talkers.check()
        print(f'    {[{key: figure(m, f"remote_{key}") for key in ("blocks_sent", "blocks_read", "damaged", "failures")} for m in pair.machines]}')
        pair.warned.append('remote store')


# --- what is closed ---

def closed(folder, server):
    with redis.Redis() as memory, Far(folder, server, 'far-closed', memory) as pair:
        pair.begin('trip', *TOPICS[:6])
        at_first = pair.keys()
        pair.one.run('fork', 'trip', 'branch')
        for i in range(2):
            pair.two.talk('say', 'branch', f'{i}: in the branch.', *options(i), again=True)
        pair.sent(pair.two, 'branch')
        need(at_first < pair.keys() and len(pair.keys('c')) == 2, 'the branch has its own')
        for machine, name, left in ((pair.two, 'branch', at_first), (pair.one, 'trip', set())):
            machine.run('close', name)
            await_that('it is removed', lambda m=machine: figure(m, 'remote_pending') == 0)
            need(pair.keys() == left, f'{name}: closed, and these are there: {pair.keys() ^ left}')
        need(not pair.keys('c'), 'closed, and their contents are there')
        pair.alone.run('close', 'trip')


# --- passwords ---

def passwords(folder, server):
    with redis.Redis(password=PASSWORD) as memory:
        paths = [f'{folder}/{name}.pass' for name in ('right', 'wrong')]
        for path, words in zip(paths, (PASSWORD, 'guessed')):
            with open(path, 'x', opener=lambda p, flags: os.open(p, flags, 0o600), encoding='utf-8') as f:
                f.write(f'{words}\n')
        pair = Far(folder, server, 'far-passwords', memory, **{'remote-password-file': paths[0]})
        pair.two.flags.append(f'--remote-password-file={paths[1]}')
        with pair:
            pair.begin('trip', *TOPICS[:4])
            need(pair.keys(), 'nothing was sent')
            reply = pair.equal(pair.two, 'say', 'trip', 'And what then?', *options(10))
            need(reply.accepted['n_disk'] == 0 and figure(pair.two, 'remote_failures') > 0, f'{reply.accepted}')
            need(tells(pair.two) == ['fails'] and not tells(pair.one), f'{tells(pair.two)}, {tells(pair.one)}')
            line = next(line for line in pair.two.said().splitlines() if TELLS.search(line))
            need('WRONGPASS' in line or 'invalid' in line, f'why: {line}')
            for machine in pair.machines:
                said = machine.said() + machine.run('admin', 'settings') + machine.run('stats')
                need(not any(words in said for words in (PASSWORD, 'guessed')), f'{machine.name} tells its password')
            pair.two.stop()
            pair.two.flags.append(f'--remote-password-file={paths[0]}')
            pair.two.start()
            pair.begin('walk', *TOPICS[4:8])
            pair.comes_whole(pair.two, 'walk', 11)
            need(messages(pair.same('trip')['turns'])[-1] == 'And what then?', 'turns')
            pair.warned.append('remote store')


# Each lane is a thread, as in machines.py.
LANES = [[moves, users, closed], [faults, passwords], [clients]]


def main():
    for found, name in ((postgres.find, 'PostgreSQL'), (redis.find, 'neither Redis nor Valkey')):
        if not found():
            print(f'SKIP: {name} is {"" if name.startswith("neither") else "not "}installed')
            return 77
    if not os.path.exists(MODEL):
        print(f'SKIP: no {MODEL}')
        return 77
    with tempfile.TemporaryDirectory(prefix='confab-test-') as folder:
        os.chmod(folder, 0o711)
        shutil.copy(confab, f'{folder}/confab')
        run_lanes(folder, LANES)
    return 0


sys.exit(main())
