#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The clients of one user in the cluster test: a process of that user, and a thread for each client.

usage: client.py work|look '{"history": ..., "package": ..., "sockets": {NAME: PATH}, "uid": ..., "letter": ..., ...}'

work: random operations at random daemons, until the standard input ends. look: what there is, at each daemon.
"""
import json
import os
import random
import struct
import sys
import threading
import time
import traceback

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
from history import Recorder, is_refusal

setting = json.loads(sys.argv[2])
sys.path[:0] = [setting['package']]
import confab

recorder = Recorder(setting['history']) # before the user changes: only root may write there
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(*[setting['uid']] * 3)

TOPICS = ['hills', 'birds', 'rain', 'bread', 'ships', 'trees', 'snow', 'horses', 'clocks', 'rivers', 'songs', 'stones']
FEW, MANY, LONG = 4, 10, 22 # conversations of a user; turns of one
PATIENCE = [1.5, 5.0, 15.0, 15.0] # seconds, after which a client hangs up
DEADLINE = 300 # seconds, in which a whole cluster answers
stopping = threading.Event()


def conversation(c):
    told = {name: getattr(c, name) for name in ('id', 'name', 'uid', 'parent', 'fork_pos', 'revision', 'n_tokens', 'n_turns')}
    if c.turn_list:
        told['turns'] = [[confab.word(confab.messages.Role, t.role), t.start, t.end, t.text.decode(errors='surrogateescape'),
                          t.run.seed if t.HasField('run') else None, t.run.n_generated if t.HasField('run') else None]
                         for t in c.turn_list]
    if c.token_list:
        told['tokens'] = list(c.token_list)
    return told


class Crew:
    """What the clients of this user know together."""

    def __init__(self):
        self.lock = threading.Lock()
        self.known = {} # id: (revision, number of turns)
        self.gone = []

    def learn(self, c):
        with self.lock:
            if c['id'] not in self.gone and c['revision'] >= self.known.get(c['id'], (0, 0))[0]:
                self.known[c['id']] = c['revision'], c['n_turns']

    def forget(self, number):
        with self.lock:
            if self.known.pop(number, None):
                self.gone.append(number)

    def living(self):
        with self.lock:
            return sorted(self.known)


class Client:
    def __init__(self, crew, number):
        self.crew, self.number = crew, number
        self.rng = random.Random(f'{setting["seed"]}/{setting["uid"]}/{number}')
        self.connections, self.n, self.reply = {}, 0, None

    def connect(self, at, timeout):
        client = self.connections.get(at)
        if not client:
            client = self.connections[at] = confab.blocking.Client.connect(setting['sockets'][at], timeout=timeout)
        client.timeout = timeout
        return client

    def hang_up(self, at):
        client = self.connections.pop(at, None)
        if client:
            client.disconnect()

    def word(self):
        """Nobody else ever says it."""
        return f'{setting["letter"] * 2}{self.number:02d}{self.n:05d}'

    def run(self, op, at, conv=None, timeout=15.0, **args):
        """One operation, recorded. Its answer, or None."""
        try:
            client = self.connect(at, timeout)
        except (confab.ConfabError, OSError):
            self.hang_up(at)
            stopping.wait(0.05)
            return None
        self.n += 1
        call = f'{setting["letter"]}{self.number}.{self.n}'
        args = {key: value for key, value in args.items() if value is not None}
        recorder.write('call', id=call, uid=setting['uid'], at=at, op=op, conv=conv, **args)
        self.reply = {'tokens': [], 'logprobs': []}
        try:
            told = getattr(self, f'do_{op}')(client, call, conv, args)
            recorder.write('ok', id=call, r=told)
            return told
        except confab.ConfabError as e:
            came = self.reply if self.reply['tokens'] else {}
            recorder.write('fail' if is_refusal(e.code, e.message) else 'unknown', id=call, code=e.code, text=e.message, r=came)
            if e.code == 'not_found' and conv:
                self.crew.forget(conv)
            if e.code in ('disconnected', 'shutdown', 'protocol', 'unavailable'):
                self.hang_up(at)
        except (TimeoutError, OSError) as e:
            came = self.reply if self.reply['tokens'] else {}
            recorder.write('unknown', id=call, code='timeout', text=str(e), r=came)
            self.hang_up(at)
        return None

    def learnt(self, c):
        told = conversation(c)
        self.crew.learn(told)
        return told

    def do_open(self, client, _call, _conv, args):
        return self.learnt(client.open(args['name'], system=args['system']))

    def do_fork(self, client, _call, conv, args):
        return self.learnt(client.fork(conv, args['name'], at_turn=args.get('at_turn'), expect_revision=args.get('expect')))

    def do_rewind(self, client, _call, conv, args):
        return self.learnt(client.rewind(conv, turns=args['turns'], expect_revision=args.get('expect')))

    def do_close(self, client, _call, conv, _args):
        client.close(conv)
        self.crew.forget(conv)
        return {}

    def do_get(self, client, _call, conv, args):
        return self.learnt(client.get(conv, turns=True, tokens=bool(args.get('tokens'))))

    def do_list(self, client, _call, _conv, _args):
        page = client.list(limit=1000)
        return {'list': [self.learnt(c) for c in page.conversations], 'more': page.more}

    def do_answer(self, client, call, conv, args):
        return self.do_say(client, call, conv, args)

    def do_say(self, client, call, conv, args):
        stream = client.continue_(
            conv, args.get('text'), sampling={'seed': args['seed']}, max_tokens=args['n'], ignore_eos=True, want_logprobs=True,
            expect_revision=args.get('expect'), at_turn=args.get('at_turn'), wait=args.get('wait'))
        for event in stream:
            if isinstance(event, confab.messages.Accepted):
                recorder.write('accepted', id=call, revision=event.revision, n_prompt=event.n_prompt, n_ram=event.n_ram,
                               n_disk=event.n_disk, n_shared=event.n_shared, n_computed=event.n_computed)
            elif isinstance(event, confab.messages.Delta):
                for token in event.tokens:
                    self.reply['tokens'].append(token.token)
                    self.reply['logprobs'].append(struct.unpack('<I', struct.pack('<f', token.logprob))[0])
            elif isinstance(event, confab.messages.Done):
                finish = confab.word(confab.messages.FinishReason, event.finish)
                told = {'revision': event.revision, 'n_prompt': event.n_prompt, 'finish': finish, **self.reply}
                with self.crew.lock:
                    if conv in self.crew.known:
                        self.crew.known[conv] = max(self.crew.known[conv], (event.revision, self.crew.known[conv][1] + 2))
        return told

    def step(self):
        rng, living = self.rng, self.crew.living()
        at = rng.choice(sorted(setting['sockets']))
        timeout = rng.choice(PATIENCE)
        weights = {'say': 46, 'get': 18, 'list': 6, 'fork': 5, 'rewind': 8, 'close': 5, 'open': 5, 'answer': 6}
        if len(living) < FEW:
            weights['open'] = 200
        if len(living) > MANY:
            weights.update(close=25, open=1, fork=1)
        op = rng.choices(list(weights), weights.values())[0]
        if not living:
            op = 'open'
        if op == 'open':
            self.run(op, at, name=f'{self.word()}', system=f'You answer {self.word()} in a sentence.', timeout=timeout)
            return
        if op == 'list':
            self.run(op, at, timeout=timeout)
            return
        if op == 'get' and self.crew.gone and rng.random() < 0.1:
            self.run(op, at, rng.choice(self.crew.gone), timeout=timeout)
            return
        conv = rng.choice(living)
        revision, n_turns = self.crew.known.get(conv, (1, 1))
        expect = rng.choices([None, revision, max(1, revision - 1)], [60, 35, 5])[0]
        if op in ('say', 'answer') and n_turns > LONG:
            op = rng.choice(['rewind', 'close', 'fork'])
        if op in ('say', 'answer'):
            args = {'seed': rng.getrandbits(31), 'n': rng.randint(1, 12), 'wait': rng.random() < 0.6 or None, 'expect': expect}
            if op == 'say':
                args['text'] = f'Tell me of the {rng.choice(TOPICS)}, {self.word()}.'
                if rng.random() < 0.08 and n_turns > 2:
                    args.update(at_turn=rng.randrange(1, n_turns), expect=revision)
            self.run(op, at, conv, timeout=timeout, **args)
        elif op == 'fork':
            at_turn = rng.choice([None, rng.randint(1, max(1, n_turns))])
            self.run(op, at, conv, name=self.word(), at_turn=at_turn, expect=expect, timeout=timeout)
        elif op == 'rewind':
            most = n_turns - 1 if n_turns > LONG else 4
            self.run(op, at, conv, turns=rng.randint(1, max(1, min(most, n_turns - 1))), expect=expect, timeout=timeout)
        elif op == 'get':
            self.run(op, at, conv, tokens=rng.random() < 0.5 or None, timeout=timeout)
        else:
            self.run(op, at, conv, timeout=timeout)

    def work(self):
        try:
            while not stopping.is_set():
                self.step()
                stopping.wait(self.rng.expovariate(1 / setting['pause']))
        except BaseException:
            traceback.print_exc()
            os._exit(1) # the run is worth nothing
        for at in list(self.connections):
            self.hang_up(at)

    def insist(self, op, at, conv=None, **args):
        deadline = time.monotonic() + DEADLINE
        while (told := self.run(op, at, conv, **args)) is None:
            if time.monotonic() > deadline:
                sys.exit(f'{op} {conv} at {at}: no answer')
            time.sleep(0.1)
        return told

    def look(self):
        for at in sorted(setting['sockets']):
            for c in self.insist('list', at)['list']:
                self.insist('get', at, c['id'], tokens=True)


def main():
    crew = Crew()
    if sys.argv[1] == 'look':
        Client(crew, 99).look()
        return
    clients = [threading.Thread(target=Client(crew, i).work) for i in range(setting['clients'])]
    for client in clients:
        client.start()
    sys.stdin.read()
    stopping.set()
    for client in clients:
        client.join()


main()
