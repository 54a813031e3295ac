#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""machines.py CONFABD CONFAB SOURCE [CASE...]: conversations that move between daemons, which share a register on
PostgreSQL, with the bundled model and the command; and what comes of machines and servers that die, or stand still.

Each case has two daemons, one and two, on a schema of its own of a private server, and a third one alone with a register
of its own. What is compared: every reply of the two, its tokens and log-probabilities, with what the lone daemon says to
the same messages with the same seeds; and what both tell of a conversation.

Nothing is slept for, and no duration is right or wrong. A reply is kept unfinished by not reading it: its daemon waits for
that, at --output-high.
"""
import fcntl
import grp
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '../util')]
import postgres
from acp_rig import DEADLINE, Daemon, need

confabd, confab, source = sys.argv[1:4]
MODEL = os.path.join(source, 'models/confab-small.q4_0.gguf')
BUSY, UNAVAILABLE = 4, 6 # exit statuses (client/cli.h)
PASSING = {BUSY: ('busy', 'moved'), UNAVAILABLE: ('unavailable',)} # what another try cures, with the codes of --json
GUESTS = [{'user': uid, 'group': 65534, 'extra_groups': []} for uid in (65534, 65533)]
# What a daemon tells of memory is of its own.
OF_MEMORY = {'residency', 'ram_bytes', 'disk_bytes', 'busy', 'generating', 'writing', 'private_memory'}
TOPICS = ['hills', 'birds', 'rain', 'bread', 'ships', 'trees', 'snow', 'horses', 'clocks', 'rivers', 'songs', 'stones']
SYSTEM = 'You are a patient assistant. You answer in one or two plain sentences.'


def options(seed, length=16):
    return ['--max-tokens', str(length), '--ignore-eos', '--seed', str(seed), '--logprobs', '1']


def await_that(what, ready):
    """For what nobody tells of when it happens."""
    deadline = time.monotonic() + DEADLINE
    while not ready():
        need(time.monotonic() < deadline, f'{what}: it does not come about')
        time.sleep(0.02)


def together(*calls):
    """Runs them at the same time; the first failure counts."""
    results, failures = [None] * len(calls), []

    def run(i):
        try:
            results[i] = calls[i]()
        except BaseException as e: # SystemExit as well: need() in a thread
            failures.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure
    return results


class Reply:
    """What `say --json` and the like have printed, and how they ended."""

    def __init__(self, status, out, err):
        self.status, self.err = status, err
        self.events = [json.loads(line) for line in out.splitlines()]
        self.tokens = [(t['token'], t['logprob']) for e in self.events if e['event'] == 'delta' for t in e['tokens']]
        self.text = ''.join(e['text'] for e in self.events if e['event'] == 'delta')
        self.accepted, self.done, self.error = (
            next((e for e in self.events if e['event'] == kind), None) for kind in ('accepted', 'done', 'error'))
        self.code = self.error and self.error['code']

    def passes(self):
        """It has failed, and the same may work in a while."""
        return self.code in PASSING.get(self.status, ())

    def __repr__(self):
        return f'status {self.status}, {self.error or self.done}, {self.err!r}'


class Machine(Daemon):
    """A daemon with a state folder of its own, and the command."""

    def __init__(self, folder, name, store=None, **settings):
        os.mkdir(f'{folder}/{name}', mode=0o711) # another user reaches the socket
        # Another user may not be able to reach the build folder.
        super().__init__(confabd, f'{os.path.dirname(folder)}/confab', f'{folder}/{name}', MODEL)
        self.name = name
        settings = {'threads': 1, 'pool-size': '64M', 'socket-mode': '0666', 'output-high': 4096, 'output-low': 1024,
                    **settings}
        if os.getuid():
            settings['admin-group'] = grp.getgrgid(os.getgid()).gr_name
        if store:
            settings['store'] = store
        self.flags = [f'--{key}={value}' for key, value in settings.items()]

    def start(self):
        """A busy server may need longer than a short store-timeout to make its tables: then once more."""
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                return super().start(*self.flags)
            except SystemExit:
                if time.monotonic() > deadline or not self.said().endswith('no answer within the time\n'):
                    raise

    def kill(self):
        process, self.process = self.process, None
        process.kill()
        process.wait(DEADLINE)

    def command(self, *args, **how):
        how = {'stdin': subprocess.DEVNULL, 'timeout': DEADLINE, **how}
        return subprocess.run([self.confab, '--socket', self.socket, *args], capture_output=True, check=False, text=True,
                              errors='replace', **how)

    def run(self, *args, status=0, **how):
        done = self.command(*args, **how)
        need(done.returncode == status,
             f'{self.name}: {args}: status {done.returncode}, not {status}: {done.stdout}{done.stderr}')
        return done.stdout

    def json(self, *args, **how):
        return json.loads(self.run('--json', *args, **how))

    def try_to_talk(self, *args, **how):
        done = self.command('--json', *args, **how)
        return Reply(done.returncode, done.stdout, done.stderr)

    def talk(self, *args, again=False, **how):
        """A reply. With @again the other machine may be slow to give the conversation, or to be found dead."""
        deadline = time.monotonic() + DEADLINE
        while (reply := self.try_to_talk(*args, **how)).passes() and again:
            need(time.monotonic() < deadline, f'{self.name}: {args}: for ever: {reply}')
        need(reply.status == 0, f'{self.name}: {args}: {reply}')
        need(reply.accepted and reply.done and reply.done['finish'] == 'length', f'{self.name}: {args}: {reply.events}')
        return reply

    def listed(self):
        """What it lists, but for memory."""
        return {c['name']: {k: v for k, v in c.items() if k not in OF_MEMORY} for c in self.json('ls')['conversations']}

    def told(self, name, **how):
        """What it tells of a conversation, but for memory."""
        shown = self.json('show', '--tokens', name, **how)
        return {key: value for key, value in shown.items() if key not in OF_MEMORY}

    def in_flight(self):
        limits = self.json('quota')['limits']
        return next(limit['used'] for limit in limits if limit['name'] == 'max-user-requests')


class Held:
    """A reply that is not read, but for its first events: it does not end before it is let go, or its daemon."""

    def __init__(self, machine, name, text, seed):
        self.text, self.seed = text, seed
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        self.process = subprocess.Popen(
            [machine.confab, '--socket', machine.socket, '--json', 'say', name, text, '--max-tokens', '1500', '--ignore-eos',
             '--seed', str(seed), '--logprobs', '20'], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
            text=True)
        os.close(writer)
        self.out = os.fdopen(reader)
        self.first = ''
        while '"delta"' not in self.first:
            line = self.out.readline()
            need(line, f'{machine.name}: no reply to {text}: {self.first}')
            self.first += line
        need('"accepted"' in self.first, f'it was not accepted: {self.first}')

    def let_go(self):
        out = self.first + self.out.read()
        err = self.process.stderr.read()
        return Reply(self.process.wait(DEADLINE), out, err)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.out.close()
        self.process.stderr.close()


class Pair:
    """The machines one and two on a new schema, and one alone."""

    def __init__(self, folder, server, case, uri=None, **settings):
        self.folder = f'{folder}/{case}'
        os.mkdir(self.folder, mode=0o711)
        self.schema = server.schema()
        self.uri = uri(self.schema) if uri else server.uri(self.schema)
        settings = {'lease-time': '1h', **settings}
        self.one, self.two = (Machine(self.folder, name, self.uri, **settings) for name in ('one', 'two'))
        self.alone = Machine(self.folder, 'alone')
        self.machines = self.one, self.two
        self.warned = [] # what may be in the journals

    def __enter__(self):
        try:
            together(*(daemon.start for daemon in (*self.machines, self.alone)))
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.stop()
        finally:
            self.end()

    def end(self):
        for daemon in (*self.machines, self.alone):
            if daemon.process:
                daemon.kill()

    def stop(self):
        """What is right at the end of each case."""
        self.same_list()
        for machine in self.machines:
            found = machine.json('admin', 'check', '--rate', 'none')
            need(found['problems'] == [] and found['found'] == 0, f'{machine.name}: check: {found}')
        together(*(daemon.stop for daemon in (*self.machines, self.alone)))
        for daemon in (*self.machines, self.alone):
            for line in daemon.said().splitlines():
                need(not re.search(r'warning|error', line) or any(words in line for words in self.warned),
                     f'{daemon.name}: the journal: {line}')

    def other(self, machine):
        return self.two if machine is self.one else self.one

    def same(self, name, **how):
        """Both tell the same of a conversation: this."""
        told = [machine.told(name, **how) for machine in self.machines]
        need(told[0] == told[1], f'{name}: one and two tell different things: {told}')
        return told[0]

    def same_list(self):
        listed = [machine.listed() for machine in self.machines]
        need(listed[0] == listed[1], f'one and two list different things: {listed}')
        return listed[0]

    def equal(self, machine, *args, **how):
        """A reply of a machine: it is that of the lone daemon."""
        together_said = machine.talk(*args, again=True, **how)
        said = self.alone.talk(*args, **how)
        need(together_said.tokens == said.tokens and said.tokens,
             f'{machine.name}: {args}: {together_said.tokens}, alone {said.tokens}')
        return together_said

    def as_alone(self, name):
        """The present turns of a conversation are those that the lone daemon gives to the same messages. Both tell them."""
        told = self.same(name)
        alone, turns = self.alone.run('open').strip(), told['turns']
        for turn, reply in zip(turns, [*turns[1:], None]):
            if turn['role'] == 'user':
                answered = reply and reply['role'] == 'assistant'
                how = options(reply['run']['seed'], reply['run']['n_generated']) if answered else ['--max-tokens', '0']
                self.alone.run('say', alone, *how, turn['text'])
        found = self.alone.told(alone)
        keys = 'role', 'text', 'start', 'end', 'finish'
        need([[t.get(k) for k in keys] for t in found['turns']] == [[t.get(k) for k in keys] for t in turns],
             f'{name}: other turns: {told["turns"]}, alone {found["turns"]}')
        need(found['tokens'] == told['tokens'], f'{name}: other tokens: {told}, alone {found}')
        self.alone.run('close', alone)
        return turns


def once(texts):
    """Without those that were said again, because nobody knew whether they were stored."""
    return list(dict.fromkeys(texts))


def messages(turns):
    return [turn['text'] for turn in turns if turn['role'] == 'user']


# --- 1: from machine to machine ---

def moves(folder, server):
    with Pair(folder, server, 'moves') as pair:
        for daemon in pair.one, pair.alone:
            daemon.run('open', 'trip', '--system', SYSTEM)
        for i, topic in enumerate(TOPICS):
            pair.equal(pair.machines[i % 2], 'say', 'trip', f'Tell me of the {topic}.', *options(i))
        turns = pair.same('trip')['turns']
        need(len(turns) == 1 + 2 * len(TOPICS), f'turns: {turns}')
        # What is on a machine's disk is of use when the conversation comes back.
        pair.two.run('evict', 'trip')
        pair.equal(pair.one, 'say', 'trip', 'And who was first?', *options(20))
        reply = pair.equal(pair.two, 'say', 'trip', 'And who is last?', *options(21))
        need(reply.accepted['n_disk'] > 0, f'nothing was read from disk: {reply.accepted}')
        for i, verb in enumerate((about, rename, fork, rewind, publish, regenerate, edit, system, transfer, close)):
            there = pair.machines[i % 2]
            pair.equal(there, 'say', 'trip', f'{i}: go on.', *options(30 + i))
            verb(pair, pair.other(there), there)
            if verb is not close:
                pair.same('trip')
            pair.same_list()


def everywhere(pair, here, *args):
    """At a machine, and at the lone daemon; both print the same."""
    said = here.run(*args), pair.alone.run(*args)
    need(said[0] == said[1], f'{here.name}: {args}: {said}')
    return said[0]


def about(pair, here, there):
    everywhere(pair, here, 'set', 'trip', "title=A trip to 'Rome'", '+italy', '+work', 'metadata={"a": 1}')
    about = pair.same('trip')['about']
    need(about['title'] == "A trip to 'Rome'" and about['tags'] == ['italy', 'work'], f'{about}')
    need(there.run('ls', '--names', '--tag', 'italy') == 'trip\n', 'found by its tag')
    for words in 'italy rome', 'horses':
        need(there.run('ls', '--names', '--search', words) == 'trip\n', f'found by {words}')


def rename(pair, here, there):
    everywhere(pair, here, 'rename', 'trip', 'journey')
    there.run('show', 'trip', status=3)
    here.run('open', 'trip')
    there.run('rename', 'journey', 'trip', status=4)
    there.run('close', 'trip')
    everywhere(pair, there, 'rename', 'journey', 'trip')


def fork(pair, here, there):
    everywhere(pair, here, 'fork', 'trip', 'branch', '--at', '7')
    pair.equal(there, 'say', 'branch', 'In the branch: go on.', *options(50))
    pair.equal(here, 'say', 'branch', 'And on.', *options(51))
    need(pair.same('branch')['parent'] == pair.same('trip')['id'], 'the parent of a fork')
    need(here.run('tree') == there.run('tree') or 'branch' in there.run('tree'), 'tree')


def rewind(pair, here, there):
    everywhere(pair, here, 'rewind', 'trip', '--turns', '4')
    pair.equal(there, 'say', 'trip', 'Instead of that.', *options(52))


def publish(pair, here, there):
    out = here.run('publish', 'trip', '--turns', '1')
    need(out.startswith('trip: all users share the memory of its first '), out)
    need(here.json('show', 'trip')['n_published'] > 0, 'it is not published')
    need(there.json('show', 'trip')['n_published'] == here.json('show', 'trip')['n_published'], 'how much is published')
    need(there.run('publish', 'trip', '--off') == 'trip: not published\n', 'publish --off')
    need(here.json('show', 'trip')['n_published'] == 0, 'it is published here')


def regenerate(pair, here, there):
    before = pair.same('trip')['turns']
    pair.equal(here, 'regenerate', 'trip', *options(53))
    need(len(pair.same('trip')['turns']) == len(before), 'one reply in place of another')


def edit(pair, here, there):
    pair.equal(here, 'edit', 'trip', '9', 'No: tell me of bees.', *options(54))
    need(len(pair.same('trip')['turns']) == 11, 'what was behind is gone')


def system(pair, here, there):
    everywhere(pair, here, 'system', 'branch', 'You are brief.')
    pair.equal(there, 'say', 'branch', 'Are you?', *options(55))


def transfer(pair, here, there):
    for flags in [], ['--without-memory']:
        path = f'{pair.folder}/trip.confab'
        with open(path, 'wb') as f:
            subprocess.run([here.confab, '--socket', here.socket, 'export', 'trip', *flags], stdout=f, check=True,
                           stdin=subprocess.DEVNULL, timeout=DEADLINE)
        for daemon in there, pair.alone:
            with open(path, 'rb') as f:
                need(daemon.run('import', 'copy', stdin=f) == 'copy\n', 'import')
        pair.equal(here, 'say', 'copy', 'Are you the copy?', *options(56))
        everywhere(pair, there, 'close', 'copy')


def close(pair, here, there):
    everywhere(pair, here, 'close', 'trip')
    for machine in pair.machines:
        machine.run('show', 'trip', status=3)
        machine.run('say', 'trip', 'Are you there?', status=3)
    pair.equal(there, 'say', 'branch', 'But you are.', *options(57))


# --- 2: all at once ---

def at_once(folder, server):
    """Eight clients, each in its own conversation and in one of all, each time at another machine."""
    with Pair(folder, server, 'at-once') as pair:
        pair.one.run('open', 'all')
        n_again = [0] * 8

        def client(k):
            choose, name = random.Random(k), f'talk-{k}'
            choose.choice(pair.machines).run('open', name)
            for i in range(10):
                machine = choose.choice(pair.machines)
                while (reply := machine.try_to_talk('say', name, f'{i}: tell me of {TOPICS[k]}.',
                                                    *options(100 * k + i, 8))).status:
                    need(reply.passes(), f'{name}: {reply}')
                    n_again[k] += 1
            machine = choose.choice(pair.machines)
            while (reply := machine.try_to_talk('say', '--wait', 'all', f'{k} was here.', *options(k, 8))).status:
                need(reply.passes(), f'all: {reply}')
                n_again[k] += 1

        together(*(lambda k=k: client(k) for k in range(8)))
        print(f'    tried again: {n_again}')
        for k in range(8):
            turns = pair.as_alone(f'talk-{k}')
            need(messages(turns) == [f'{i}: tell me of {TOPICS[k]}.' for i in range(10)], f'{turns}')
        turns = pair.as_alone('all')
        need(len(turns) == 16 and sorted(messages(turns)) == [f'{k} was here.' for k in range(8)], f'{turns}')


# --- 3: asked for elsewhere during a reply ---

def in_use(folder, server):
    with Pair(folder, server, 'in-use') as pair:
        for name in 'kept', 'behind', 'left':
            pair.one.run('open', name)
            pair.one.talk('say', name, 'Hello.', *options(1))
        with Held(pair.one, 'kept', 'Tell me all of it.', 2) as kept, \
                Held(pair.one, 'behind', 'Tell me all of that.', 3) as behind, \
                Held(pair.one, 'left', 'Tell me everything.', 4) as left:
            before = pair.same('kept')
            need(messages(before['turns'])[-1] == 'Tell me all of it.' and len(before['turns']) == 3, f'{before}')
            refusals(pair, before)
            at_rest = pair.two.in_flight()
            waiting = [begin(pair.two, 'say', *how, 'From the other machine.', *options(5))
                       for how in (['--wait', 'kept'], ['behind'], ['--wait', 'left'])]
            await_that('they wait', lambda: pair.two.in_flight() >= at_rest + 3)
            waiting[2].send_signal(signal.SIGINT)
            out = ended(waiting[2])
            need(out.status != 0 and not out.accepted, f'interrupted: {out}')
            whole = together(kept.let_go, behind.let_go, left.let_go)
            for reply in whole:
                need(reply.status == 0 and len(reply.tokens) == 1500, f'{reply}')
        need(ended(waiting[0]).status == 0, 'who waits goes on')
        late = ended(waiting[1])
        need(late.status == 0 or late.passes(), f'who does not goes on, or fails: {late}')
        if late.status:
            pair.two.talk('say', 'behind', 'From the other machine.', *options(5), again=True)
        need(len(pair.as_alone('kept')) == 6 and len(pair.as_alone('behind')) == 6 and len(pair.as_alone('left')) == 4,
             'turns')


def begin(machine, *args):
    return subprocess.Popen([machine.confab, '--socket', machine.socket, '--json', *args], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    out, err = process.communicate(timeout=DEADLINE)
    return Reply(process.returncode, out, err)


def refusals(pair, before):
    """Who changes what is used at the other machine hears why it fails, and nothing is changed."""
    verbs = (['say', 'kept', 'Me, too.'], ['set', 'kept', 'title=Mine'], ['rename', 'kept', 'mine'],
             ['rewind', 'kept', '--turns', '1'], ['regenerate', 'kept'], ['edit', 'kept', '0', 'Good bye.'],
             ['close', 'kept'], ['evict', 'kept'], ['warm', 'kept'], ['system', 'kept', 'You are brief.'],
             ['fork', 'kept', 'mine'], ['export', 'kept'], ['cancel', 'kept'])
    said = together(*(lambda verb=verb: pair.two.command(*verb) for verb in verbs))
    for verb, done in zip(verbs, said):
        need(done.returncode == BUSY and "is in use at machine '" in done.stderr, f'{verb}: {done}')
        need(('--wait' in done.stderr) == (verb[0] in ('say', 'regenerate', 'edit')), f'{verb}: {done.stderr}')
    told = pair.two.try_to_talk('say', 'kept', 'Me, too.').error
    need(told and told['code'] == 'moved' and told['machine'] == os.uname().nodename and
         told['address'] == f'unix:{pair.one.socket}', f'who has it: {told}')
    need(pair.same('kept') == before, 'refused, and changed')


# --- 4: a machine dies ---

def killed(folder, server):
    with Pair(folder, server, 'killed', **{'lease-time': '1s'}) as pair:
        for name in 'taken', 'kept', 'cut':
            pair.one.run('open', name)
            for i in range(3):
                pair.one.talk('say', name, f'{i}: {name}.', *options(i))
        pair.one.run('evict', 'kept')
        with Held(pair.one, 'cut', 'Tell me all.', 7) as cut:
            pair.one.kill()
            reply = cut.let_go()
            need(reply.code == 'disconnected' and not reply.done, f'its daemon has died: {reply}')
        for name in 'taken', 'cut':
            pair.two.talk('say', name, 'And you?', *options(3), again=True)
            pair.two.talk('say', name, 'Well?', *options(4))
        pair.one.start()
        need(pair.same('kept') and messages(pair.same('cut')['turns'])[-3:] == ['Tell me all.', 'And you?', 'Well?'], 'cut')
        for name in 'taken', 'kept', 'cut':
            reply = pair.one.talk('say', name, 'Back again.', *options(5), again=True)
            need(name != 'kept' or reply.accepted['n_disk'] > 0, f'its own memory is lost: {reply.accepted}')
            pair.two.talk('say', name, 'Here as well.', *options(6), again=True)
        need([len(pair.as_alone(name)) for name in ('taken', 'kept', 'cut')] == [14, 10, 15], 'turns')


def copied(folder, server):
    """A state folder that was copied has the same identity: the daemon that came last has it."""
    with Pair(folder, server, 'copied') as pair:
        pair.one.run('open', 'trip')
        pair.one.talk('say', 'trip', 'Hello.', *options(1))
        copy = Machine(pair.folder, 'copy', pair.uri)
        os.mkdir(copy.state, mode=0o700)
        shutil.copy(f'{pair.one.state}/machine', copy.state)
        copy.start()
        try:
            copy.talk('say', 'trip', 'Here I am.', *options(2))
            reply = pair.one.try_to_talk('say', 'trip', 'And I?', *options(3))
            need(reply.status == 1 and 'was the state folder copied?' in reply.err, f'{reply}')
            pair.two.talk('say', 'trip', 'And here.', *options(4), again=True)
            copy.talk('say', 'trip', 'Me again.', *options(5), again=True)
            said = messages(pair.as_alone('trip'))
            need(said == ['Hello.', 'Here I am.', 'And here.', 'Me again.'], f'{said}')
            copy.stop()
        finally:
            if copy.process:
                copy.kill()
        pair.one.stop()
        pair.one.start() # now it comes last
        pair.one.talk('say', 'trip', 'And now I.', *options(6), again=True)
        pair.warned += ['was the state folder copied?', 'spill'] # its memory is where the copy is


# --- 5: a machine stands still ---

def stopped(folder, server):
    with Pair(folder, server, 'stopped', **{'lease-time': '1s'}) as pair:
        names = ['held', 'idle', *(f'short-{k}' for k in range(4))]
        for name in names:
            pair.one.run('open', name)
            pair.one.talk('say', name, 'Hello.', *options(1), again=True)
        with Held(pair.one, 'held', 'Tell me all.', 7) as held:
            # Caught anywhere: before the message is stored, in the reply, behind it.
            short = [begin(pair.one, 'say', f'short-{k}', 'And you?', *options(8, 1 + 60 * k)) for k in range(4)]
            need('accepted' in short[0].stdout.readline(), 'the first one is accepted')
            pair.one.process.send_signal(signal.SIGSTOP)
            for name in names:
                pair.two.talk('say', name, 'You are away.', *options(9), again=True)
            before = {name: pair.two.told(name) for name in names}
            pair.one.process.send_signal(signal.SIGCONT)
            reply = held.let_go()
            need(reply.passes() and not reply.done, f'a reply over that of the other machine: {reply}')
            need('machine' in reply.err, f'who hears of it hears why: {reply.err}')
            replies = [ended(process) for process in short]
        for name in names[:2]:
            need(pair.same(name) == before[name], f'{name}: it was changed by who did not hold it')
        for reply, name in zip(replies, names[2:]):
            turns, now = before[name]['turns'], pair.same(name)['turns']
            said, more = messages(turns), [turn['text'] for turn in now[len(turns):]]
            need(said in (['Hello.', 'You are away.'], ['Hello.', 'And you?', 'You are away.']), f'{name}: {said}')
            need(now[:len(turns)] == turns, f'{name}: what was said meanwhile was changed: {now}')
            # Stopped before it began, it may begin behind that: the conversation comes back for it.
            need(not more or more == ['And you?', reply.text] and len(said) == 2, f'{name}: {said}, then {more}')
            need(reply.passes() and not more or reply.status == 0 and (more or len(turns) == 6), f'{name}: {reply}, {now}')
        for name in names:
            pair.one.talk('say', name, 'I am back.', *options(10), again=True)
            pair.two.talk('say', name, 'Welcome.', *options(11), again=True)
            turns = pair.as_alone(name)
            need(len(messages(turns)) == len(set(messages(turns))), f'{name}: a turn twice: {messages(turns)}')
        pair.warned.append('is held by another machine') # memory that it was about to write to disk


def taken_and_left(folder, server):
    """What another machine had while this one stood still, and has given up since, is read anew here, at the first try."""
    with Pair(folder, server, 'left', **{'lease-time': '1s'}) as pair:
        pair.one.run('open', 'trip')
        pair.one.talk('say', 'trip', 'Hello.', *options(1), again=True)
        pair.one.process.send_signal(signal.SIGSTOP)
        # Not asked for it, so that nothing tells the holder but the register.
        await_that('its lease ends', lambda: server.sql(
            'SELECT 1 FROM machine WHERE seen_usec < extract(epoch FROM clock_timestamp()) * 1000000 - 1500000', pair.schema))
        pair.two.talk('say', 'trip', 'You are away.', *options(2), again=True)
        pair.two.stop() # an orderly end: nobody holds it
        pair.one.process.send_signal(signal.SIGCONT)
        pair.one.talk('say', 'trip', 'I am back.', *options(3))
        pair.two.start()
        said = messages(pair.as_alone('trip'))
        need(said == ['Hello.', 'You are away.', 'I am back.'], f'{said}')


# --- 6, 7: the server dies, or stands still ---

class Talkers:
    """Clients that go on talking, each in its own conversation, at any machine, whatever fails in a way that passes."""

    def __init__(self, pair, n):
        self.pair, self.stopping = pair, False
        self.changed = threading.Condition()
        self.up = threading.Event() # the server may be there
        self.up.set()
        self.said = [[] for _ in range(n)] # (text, Reply)
        self.failure = None
        for k in range(n):
            pair.machines[k % 2].run('open', f'talk-{k}')
        self.threads = [threading.Thread(target=self.talk, args=(k,)) for k in range(n)]
        for thread in self.threads:
            thread.start()

    def talk(self, k):
        choose = random.Random(k)
        i = 0
        try:
            while not self.stopping:
                text = f'{i}: of {TOPICS[k]}.'
                reply = choose.choice(self.pair.machines).try_to_talk('say', f'talk-{k}', text, *options(i, 6))
                need(reply.status == 0 or reply.passes(), f'talk-{k}: {text}: {reply}')
                with self.changed:
                    self.said[k].append((text, reply))
                    self.changed.notify_all()
                i += 1
                if reply.status:
                    self.up.wait(DEADLINE)
        except BaseException as e: # SystemExit as well
            with self.changed:
                self.failure = e
                self.changed.notify_all()

    def wait(self, what, ready):
        with self.changed:
            need(self.changed.wait_for(lambda: self.failure or ready(), DEADLINE), f'{what}: it does not come about')
        if self.failure:
            raise self.failure

    def all_said(self, n=2):
        """All of them have talked, from now on, and were answered."""
        before = [len(said) for said in self.said]
        self.wait('they go on', lambda: all(sum(r.status == 0 for _, r in said[b:]) >= n
                                            for said, b in zip(self.said, before)))

    def one_failed(self):
        before = [len(said) for said in self.said]
        self.wait('one fails', lambda: any(r.status for said, b in zip(self.said, before) for _, r in said[b:]))

    def stop(self):
        self.stopping = True
        self.up.set()
        for thread in self.threads:
            thread.join()
        if self.failure:
            raise self.failure

    def check(self):
        """What was acknowledged is there, once; what was not is there once at most, and no reply without its message."""
        n_failed, n_half = 0, 0
        for machine in self.pair.machines: # each of its connections finds the server when it is used, a second later at most
            await_that('the server is found', lambda m=machine: m.command('show', 'talk-0').returncode == 0)
        for k, said in enumerate(self.said):
            turns = self.pair.as_alone(f'talk-{k}')
            texts = messages(turns)
            need(len(set(texts)) == len(texts), f'talk-{k}: a turn twice: {texts}')
            need(texts == [text for text, _ in said if text in set(texts)], f'talk-{k}: in another order: {texts}')
            for text, reply in said:
                at = next((i for i, turn in enumerate(turns) if turn['text'] == text), None)
                answer = turns[at + 1]['text'] if at is not None and at + 1 < len(turns) and \
                    turns[at + 1]['role'] == 'assistant' else None
                need(reply.status or answer == reply.text, f'talk-{k}: {text}: acknowledged, and not there: {texts}')
                n_failed += reply.status != 0
                n_half += at is not None and answer is None
        print(f'    {sum(map(len, self.said))} messages, {n_failed} of them failed, {n_half} of these without a reply')


def server_dies(folder, server):
    def impatient(schema):
        return f'{server.uri(schema)}&connect_timeout=2' # the least that libpq takes

    with Pair(folder, server, 'server-dies', uri=impatient, **{'store-timeout': '1s'}) as pair:
        talkers = Talkers(pair, 4)
        try:
            for i in range(2):
                talkers.all_said()
                talkers.up.clear()
                server.kill()
                if i: # away for longer than requests wait
                    talkers.one_failed()
                server.start()
                talkers.up.set()
            talkers.all_said()
        finally:
            talkers.stop()
        talkers.check()
        pair.one.run('open', 'still')
        pair.one.talk('say', 'still', 'Hello.', *options(1), again=True)
        server.pause()
        try:
            replies = together(*(lambda m=m: m.try_to_talk('say', 'still', 'Are you there?', *options(2))
                                 for m in pair.machines))
            shown = pair.two.command('show', 'still')
            whole = pair.one.run('stats')
        finally:
            server.resume()
        for reply in replies:
            need(reply.status == UNAVAILABLE and reply.code == 'unavailable', f'the server stands still: {reply}')
            need(re.search(r'PostgreSQL|register', reply.err), f'the message is clear: {reply.err}')
        need(shown.returncode == UNAVAILABLE, f'show: {shown}')
        need('requests' in whole, 'what needs no server goes on')
        for i, machine in enumerate(pair.machines):
            machine.talk('say', 'still', f'{i}: here I am.', *options(3), again=True)
        said = [text for text in once(messages(pair.as_alone('still'))) if text != 'Are you there?']
        need(said == ['Hello.', '0: here I am.', '1: here I am.'], f'{said}')
        pair.warned += ['PostgreSQL', 'register']


def unknown(folder, server, second):
    """A commit whose answer comes too late, since the standby stands still: who said it hears that nobody knows, and nobody is
    shown it."""
    with Pair(folder, server, 'unknown', **{'store-timeout': '1s'}) as pair:
        pair.one.run('open', 'trip')
        pair.one.talk('say', 'trip', 'Hello.', *options(1), again=True)
        second.pause()
        try:
            # On a busy machine it may have failed before.
            await_that('a commit without an answer', lambda: 'is not known' in (reply := pair.one.try_to_talk(
                'say', 'trip', 'Is it there?', *options(2))).err or need(reply.passes(), f'{reply}'))
            # After a crash the server has it. Until the standby has it, too, it may go again: nobody is shown it.
            server.kill()
            server.start()
            done = pair.two.command('show', 'trip')
            need(done.returncode == UNAVAILABLE and not done.stdout, f'shown before a standby has it: {done}')
        finally:
            second.resume()
        # Its holder does not know what it holds, and gives it up all the same.
        pair.two.talk('say', 'trip', 'At two.', *options(3), again=True)
        pair.one.talk('say', 'trip', 'At one.', *options(4), again=True)
        pair.two.talk('say', 'trip', 'At last.', *options(5), again=True)
        said = [text for text in once(messages(pair.as_alone('trip'))) if text != 'Is it there?']
        need(said == ['Hello.', 'At two.', 'At one.', 'At last.'], f'{said}')
        pair.warned += ['PostgreSQL', 'register']


def standby(folder, server):
    second = server.standby()
    unknown(folder, server, second)

    def both(schema):
        return f'postgresql://confab@/postgres?host={server.folder},{second.folder}&options=-csearch_path%3D{schema}'

    with Pair(folder, server, 'standby', uri=both) as pair:
        talkers = Talkers(pair, 4)
        try:
            talkers.all_said(4)
            talkers.up.clear()
            server.kill()
            second.promote()
            talkers.up.set()
            talkers.all_said(4)
        finally:
            talkers.stop()
        talkers.check()
        pair.one.run('open', 'after')
        pair.two.talk('say', 'after', 'Hello.', *options(1), again=True)
        pair.as_alone('after')
        pair.warned += ['PostgreSQL', 'register']


# --- 8: users apart ---

def users(folder, server):
    if os.getuid():
        print('    SKIP in part: only root acts for another user')
        return
    with Pair(folder, server, 'users') as pair:
        for i, guest in enumerate(GUESTS):
            pair.machines[i].run('open', 'diary', **guest)
            pair.machines[i].talk('say', 'diary', f'I am number {i}.', *options(i), **guest)
        told = [pair.same('diary', **guest) for guest in GUESTS]
        need(told[0]['id'] != told[1]['id'] and [t['uid'] for t in told] == [guest['user'] for guest in GUESTS], f'{told}')
        need([messages(t['turns']) for t in told] == [['I am number 0.'], ['I am number 1.']], f'{told}')
        for machine in pair.machines:
            for of, guest in zip(told, reversed(GUESTS)):
                number = f'#{of["id"]}'
                need([c['id'] for c in machine.json('ls', **guest)['conversations']] != [of['id']], 'what a guest sees')
                for verb in (['show', number], ['log', number], ['fork', number, 'mine'], ['say', number, 'Hello?'],
                             ['export', number], ['rewind', number, '--turns', '1'], ['set', number, 'title=Mine'],
                             ['rename', number, 'mine'], ['close', number], ['cancel', number], ['regenerate', number],
                             ['attach', number], ['evict', number], ['warm', number], ['edit', number, '0', 'No.'],
                             ['wait', number]):
                    done = machine.command(*verb, **guest)
                    need(done.returncode == 3 and 'number' not in done.stdout, f'{machine.name}: {verb}: {done}')
                machine.run('admin', 'status', status=1, **guest)
        need([pair.same('diary', **guest) for guest in GUESTS] == told, 'refused, and changed')
        for i, machine in enumerate((pair.two, pair.one)):
            for guest in GUESTS:
                machine.talk('say', 'diary', f'{i}: more.', *options(5), **guest)
        need([len(pair.same('diary', **guest)['turns']) for guest in GUESTS] == [6, 6], 'both go on')
        need(len(pair.one.json('ls', '--all')['conversations']) == 2, 'an administrator sees all')


# --- 9: a backup ---

def backup(folder, server):
    with Pair(folder, server, 'backup') as pair:
        names = [f'talk-{k}' for k in range(4)]
        for i, name in enumerate(names):
            for daemon in pair.machines[i % 2], pair.alone:
                daemon.run('open', name)
                daemon.run('set', name, f'title=Of {TOPICS[i]}', '+tag')
            for k in range(2):
                pair.equal(pair.machines[(i + k) % 2], 'say', name, f'Tell me of {TOPICS[i + k]}.', *options(k))
        for machine in pair.machines:
            machine.run('admin', 'evict', str(os.getuid()))
        for how in [], ['--memory']:
            archive, name = f'{pair.folder}/backup{len(how)}.tar', f'restored-{len(how)}'
            pair.one.run('admin', 'backup', archive, *how)
            with tarfile.open(archive) as tar:
                need(any('/memory/' in member for member in tar.getnames()) == bool(how), f'{tar.getnames()}')
            restored = Machine(pair.folder, name)
            need('4 conversations' in restored.run('admin', 'restore', archive, restored.state), 'restore')
            restored.start()
            try:
                before = {n: pair.same(n) for n in names}
                need({n: restored.told(n) for n in names} == before, 'other conversations')
                need(restored.listed() == pair.same_list(), 'another list')
                need(restored.run('ls', '--names', '--search', TOPICS[0]) == 'talk-0\n', 'found by words')
                from_disk = 0
                for n in names:
                    reply = restored.talk('say', n, 'And what then?', *options(9))
                    restored.run('rewind', n, '--turns', '2')
                    restored.run('fork', n, f'{n}-fork')
                    from_disk += reply.accepted['n_disk']
                    last = pair.alone.talk('say', n, 'And what then?', *options(9))
                    pair.alone.run('rewind', n, '--turns', '2')
                    need(reply.tokens == last.tokens, f'{n}: it goes on otherwise')
                need((from_disk > 0) == bool(how), f'{from_disk} tokens from disk')
                need(restored.json('admin', 'check', '--rate', 'none')['found'] == 0, 'check')
                restored.stop()
                need('warning' not in restored.said() and 'error' not in restored.said(), restored.said())
            finally:
                if restored.process:
                    restored.kill()
        # The machines go on, with the names that the lone one has not used.
        for i, n in enumerate(names):
            pair.equal(pair.machines[i % 2], 'say', n, 'Go on.', *options(10))


# --- 10: settings ---

def settings(folder, server):
    place = f'{folder}/settings'
    os.mkdir(place)
    schema = server.schema()
    uri = server.uri(schema)

    def start(status, store, *flags):
        done = subprocess.run(
            [confabd, '--model', MODEL, '--state', f'{place}/state', '--socket', f'{place}/socket', '--pool-size', '64M',
             '--threads', '1', '--store', store, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=DEADLINE)
        need(done.returncode == status, f'{store} {flags}: status {done.returncode}, not {status}: {done.stdout}')
        return done.stdout

    for secret in ('postgresql://confab:hush@/postgres', f'{uri}&password=hush', 'postgresql://confab:hush@host:5432/db?x=y',
                   f'{uri}&sslpassword=hush', f'{uri}&%70assword=hush'):
        for flags in [], ['--check-settings'], ['--check']:
            said = start(2, secret, *flags)
            need('no password in settings' in said and 'passfile' in said and 'hush' not in said, said)
    for other in 'mysql://confab@/confab', '/var/lib/confab.db', 'host=/run/postgresql':
        said = start(2, other)
        need('postgresql://' in said, said)
    nowhere = f'postgresql://confab@/postgres?host={place}/none'
    said = start(3, nowhere, '--store-timeout', '1s')
    need('PostgreSQL' in said and len(said.splitlines()) <= 2, said)
    state = '--state', f'{place}/fresh'
    said = start(3, nowhere, '--store-timeout', '1s', '--check', *state)
    need('PROBLEM' in said and 'PostgreSQL' in said, said)
    said = start(0, uri, '--check', *state)
    need('Register\n  none yet' in said, said)
    need(not os.path.exists(f'{place}/fresh'), 'a check makes no folder')
    need(server.sql('select count(*) from pg_tables where schemaname = current_schema()', schema) == [['0']],
         'a check makes no tables')
    with Pair(folder, server, 'check') as pair:
        pair.one.run('open', 'trip')
        pair.one.talk('say', 'trip', 'Hello.', *options(1))
        tables = [row[0] for row in server.sql('select tablename from pg_tables where schemaname = current_schema() '
                                               "and tablename <> 'machine'", pair.schema)]
        whole = ''.join(f'select * from {table};' for table in tables) + 'select number, id, name from machine order by 1'

        def rows():
            return sorted(map(str, server.sql(whole, pair.schema)))

        before = rows()
        said = start(0, pair.uri, '--check', *state)
        need('Register\n  1 conversations' in said, said)
        said = start(0, pair.uri, '--check', '--state', pair.one.state)
        need('in use by a running daemon' in said, said)
        need(rows() == before and not os.path.exists(f'{place}/fresh'), 'a check changes something')
        pair.one.talk('say', 'trip', 'Still there?', *options(2))
        shown = pair.one.run('admin', 'settings', 'store')
        need(pair.uri in shown, shown)
        pair.as_alone('trip')


# --- 11: upkeep ---

def limits(folder, server):
    """What an administrator sets at one machine holds at the other, also if it was set while that one could not hear."""

    def overrides(machine):
        return machine.json('admin', 'quota')

    def hold(pair):
        await_that('limits of one at two', lambda: overrides(pair.one) == overrides(pair.two))

    def named(schema): # other cases are on the same server
        return f'{server.uri(schema)}&application_name=limits'

    with Pair(folder, server, 'limits', uri=named) as pair:
        none = overrides(pair.two)
        pair.one.run('admin', 'quota', '4711', 'max-conversations=3', 'max-user-tokens=none')
        need(overrides(pair.one) != none, 'nothing was set')
        hold(pair)
        pair.two.run('admin', 'quota', '4711', 'max-conversations=default', 'max-user-requests=2')
        pair.one.run('admin', 'quota', '4711:anna', 'max-conversations=7')
        hold(pair)
        need(len(server.sql('select 1 from quota', pair.schema)) == 3, overrides(pair.one))
        # The connection that hears is lost.
        need(server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'limits' and "
                        "(query like 'LISTEN%' or query like 'UPDATE machine %')"), 'nobody hears')
        pair.one.run('admin', 'quota', '4711', 'max-user-connections=5')
        hold(pair)
        # Who stops goes on hearing it for a while.
        tell = ("do $$ begin for i in 1 .. 400 loop perform pg_notify('confab_' || 'conversation'::regclass::oid || '_' || number, "
                "'limits') from machine; commit; perform pg_sleep(0.002); end loop; end $$")
        together(lambda: server.sql(tell, pair.schema), pair.one.stop)
        pair.one.start()


def drained(folder, server):
    """A machine that is drained holds nothing any more, and gives work to nobody; the other goes on with everything."""
    with Pair(folder, server, 'drained') as pair:
        for name in 'trip', 'visit':
            for daemon in pair.one, pair.alone:
                daemon.run('open', name)
            pair.equal(pair.one, 'say', name, 'Tell me of the hills.', *options(1))
        held = "select count(*) from conversation where holder is not null"
        need(server.sql(held, pair.schema) == [['2']], 'one holds both')
        pair.one.run('admin', 'drain')
        need(server.sql(held, pair.schema) == [['0']], 'one still holds some')
        refused = pair.one.command('say', 'trip', 'And of the birds?')
        need(refused.returncode != 0 and 'drained' in refused.stderr, refused)
        pair.equal(pair.two, 'say', 'trip', 'And of the birds?', *options(2))
        # What is no work goes on, and then is given up when it is wanted.
        pair.one.run('set', 'visit', 'title=A visit')
        pair.equal(pair.two, 'say', 'visit', 'And of the birds?', *options(3))
        pair.one.run('admin', 'drain', '--off')
        pair.equal(pair.one, 'say', 'trip', 'And of the rain?', *options(4))
        for name in 'trip', 'visit':
            pair.as_alone(name)


# Each lane is a thread: most of them wait most of the time.
LANES = [[moves, at_once, users, backup, limits, drained], [in_use, killed, copied, stopped, taken_and_left, settings], [server_dies], [standby]]


def run_lane(folder, server, cases):
    for case in cases:
        t = time.monotonic()
        case(folder, server)
        print(f'{case.__name__}: {time.monotonic() - t:.2f} s', flush=True)


def run_lanes(folder, lanes, **how):
    """Beside one server."""
    chosen = [[case for case in lane if not sys.argv[4:] or case.__name__ in sys.argv[4:]] for lane in lanes]
    if any(chosen):
        with postgres.Postgres(**how) as server:
            together(*(lambda cases=cases: run_lane(folder, server, cases) for cases in chosen))


def main():
    if not postgres.find():
        print('SKIP: PostgreSQL is not installed')
        return 77
    if not os.path.exists(MODEL):
        print(f'SKIP: no {MODEL}')
        return 77
    with tempfile.TemporaryDirectory(prefix='confab-test-') as folder:
        os.chmod(folder, 0o711)
        shutil.copy(confab, f'{folder}/confab')
        together(lambda: run_lanes(folder, LANES[:2]), lambda: run_lanes(folder, LANES[2:3], durable=True),
                 lambda: run_lanes(folder, LANES[3:], durable=True))
    return 0


if __name__ == '__main__': # remote.py has more cases
    sys.exit(main())
