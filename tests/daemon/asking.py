#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""asking.py CONFABD CONFAB SOURCE: verbs that generate, with the real daemon and the bundled model: ask, map, say --best-of,
say --wait, attach, wait, open --from. What they answer is compared with what say answers in a fork; and after each of
them, whatever happened, nothing is left but what the user opened."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

confabd, confab, source = sys.argv[1:4]
model = os.path.join(source, 'models/confab-small.q8_0.gguf')
if not os.path.exists(model):
    print('SKIP: no model')
    sys.exit(77)


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


class Daemon:
    def __init__(self, folder):
        self.folder, self.socket, self.process = folder, f'{folder}/socket', None

    def start(self):
        with open(f'{self.folder}/log', 'ab') as log:
            self.process = subprocess.Popen(
                [confabd, '--model', model, '--socket', self.socket, '--state', f'{self.folder}/state', '--pool-size',
                 '256M', '--disk-floor', '0', '--threads', '2'], stderr=log)
        deadline = time.monotonic() + 60
        while self.command('stats').returncode:
            need(self.process.poll() is None and time.monotonic() < deadline, 'no daemon')
            time.sleep(0.02)

    def end(self, sig):
        self.process.send_signal(sig)
        self.process.wait(60)

    def begin(self, *args, **how):
        how = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **how}
        return subprocess.Popen([confab, '--socket', self.socket, *args], text=True, **how)

    def command(self, *args, **how):
        if 'input' not in how:
            how['stdin'] = subprocess.DEVNULL
        return subprocess.run([confab, '--socket', self.socket, *args], capture_output=True, text=True, timeout=120,
                              check=False, **how)

    def run(self, *args, status=0, **how):
        done = self.command(*args, **how)
        need(done.returncode == status, f'{args}: status {done.returncode}: {done.stdout}{done.stderr}')
        return done.stdout

    def events(self, *args, **how):
        return [json.loads(line) for line in self.run('--json', *args, **how).splitlines()]

    def show(self, name):
        return json.loads(self.run('--json', 'show', name))

    def names(self):
        return {c['name']: c for c in json.loads(self.run('--json', 'ls'))['conversations']}

    def only(self, *names):
        got = set(self.names())
        need(got == set(names), f'left behind: {got - set(names)}, or missing: {set(names) - got}')


class Case:
    def __init__(self, daemon, folder):
        self.d, self.folder = daemon, folder
        d = daemon
        d.run('open', 'doc', '--system', 'You are brief.')
        d.run('say', 'doc', '--seed', '1', 'My cat is called Tom. My dog is called Rex.')
        self.mine = ['doc']

    def in_a_fork(self, text, *options):
        """What say answers."""
        self.d.run('fork', 'doc', 'check')
        reply = self.d.run('say', 'check', *options, text)
        self.d.run('close', 'check')
        return reply

    def ask(self):
        d, before = self.d, self.d.show('doc')
        for seed in '2', '3':
            question = 'What is my cat called?'
            need(d.run('ask', 'doc', '--seed', seed, question) == self.in_a_fork(question, '--seed', seed),
                 'ask is not what say is in a fork')
        done = d.events('ask', 'doc', 'What is my dog called?')[-1]
        need(done['event'] == 'done' and done['n_computed'] < 40 and done['n_ram'] + done['n_shared'] > 0,
             f'a question computes the history again: {done}')
        need(d.run('say', 'doc', '--ephemeral', '--seed', '2', 'Hello') ==
             d.run('ask', 'doc', '--seed', '2', '-', input='Hello\n'), 'say --ephemeral is not ask')
        need(d.run('ask', '--system', 'You are brief.', 'Hello'), 'no reply without a conversation')
        after = d.show('doc')
        need(after['turns'] == before['turns'] and after['revision'] == before['revision'], 'ask has changed it')
        d.run('ask', 'nobody', 'Hello', status=3)
        for words in ('ask', 'doc'), ('say', 'doc', '--ephemeral'): # nobody reads the reply, as behind head
            reader, writer = os.pipe()
            os.close(reader)
            unread = d.begin(*words, '--max-tokens', '1500', '--ignore-eos', 'Tell me a story.', stdout=writer)
            os.close(writer)
            need(unread.wait(60) == 141 and unread.stderr.read() == '', f'status {unread.returncode}')
        d.only(*self.mine)

    def best(self):
        d = self.d
        d.run('fork', 'doc', 'best')
        text = 'Tell me a story.'
        events = d.events('say', 'best', '--best-of', '5', '--seed', '11', text)
        candidates = [e for e in events if e['event'] == 'candidate']
        seeds = [c['seed'] for c in candidates if c['best']]
        need([c['seed'] for c in candidates] == [11, 12, 13, 14, 15] and len(seeds) == 1, f'{candidates}')
        need(max(c['mean_logprob'] for c in candidates) ==
             next(c['mean_logprob'] for c in candidates if c['best']), 'it is not the likeliest')
        need(d.show('best')['turns'][-1]['text'] + '\n' == self.in_a_fork(text, '--seed', str(seeds[0])),
             'what it kept is not what the seed gives')
        need(events[-1]['event'] == 'done' and events[-1]['seed'] == seeds[0], f'{events[-1]}')
        d.run('close', 'best')
        d.only(*self.mine)

    def map(self):
        d, words = self.d, [f'word{i}' for i in range(30)]
        text, options = '\n'.join(words), ['--template', 'Say {}.', '--temperature', '0', '--max-tokens', '12']
        whole = d.run('map', 'doc', *options, input=text)
        lines = whole.splitlines()
        need(len(lines) == len(words), f'{len(lines)} lines')
        for i in 0, 7, 29:
            need(lines[i] == d.run('ask', 'doc', '--temperature', '0', '--max-tokens', '12', f'Say {words[i]}.').strip(),
                 f'line {i} is not what ask answers')
        d.only(*self.mine)
        record = f'{self.folder}/record'
        # ended by Ctrl-C, by kill -9, and by its daemon: the same command goes on
        for sig, status, victim in ((signal.SIGINT, 130, None), (signal.SIGKILL, -9, None), (None, None, d)):
            self.interrupt(record, text, options, sig, status, victim)
            if sig == signal.SIGINT:
                d.only(*self.mine)
            self.close_what_is_left()
        n = self.recorded(record)
        need(d.run('map', 'doc', *options, '--resume', record, input=text) == whole, 'what was resumed differs')
        need(2 <= n <= 9, f'{n} answers were recorded by runs that were interrupted')
        need(self.recorded(record) == len(words), 'something was asked twice')
        d.only(*self.mine)

    def close_what_is_left(self):
        """By a program that was killed: the daemon would close it in two minutes."""
        deadline = time.monotonic() + 60
        while left := {name: c for name, c in self.d.names().items() if name not in self.mine}:
            need(all(c['about']['expires_after'] == 120 for c in left.values()), f'these stay for good: {left}')
            need(time.monotonic() < deadline, f'{left} cannot be closed')
            for name in left: # that may be busy for a moment, or gone: a Close was under way
                self.d.command('close', name)

    @staticmethod
    def recorded(record):
        with open(record, encoding='utf-8') as f:
            return f.read().count('\n')

    def interrupt(self, record, text, options, sig, status, victim):
        """Begin a map, and end it, or its daemon, when it has recorded two answers more."""
        before = self.recorded(record) if os.path.exists(record) else 0
        p = self.d.begin('map', 'doc', *options, '--jobs', '1', '--resume', record, stdin=subprocess.PIPE)
        p.stdin.write(text[:text.index('word9')]) # so that it has an end to wait for, whatever the machine's speed
        p.stdin.flush()
        deadline = time.monotonic() + 60
        while not os.path.exists(record) or self.recorded(record) < min(before + 2, 9):
            need(time.monotonic() < deadline and p.poll() is None, 'map answers nothing')
            time.sleep(0.01)
        if victim:
            victim.end(signal.SIGKILL)
        else:
            p.send_signal(sig)
        out, err = p.communicate(timeout=60)
        need(p.returncode == status if status else p.returncode > 0, f'map: status {p.returncode}: {out}{err}')
        if victim:
            victim.start()

    def follow(self):
        d = self.d
        d.run('fork', 'doc', 'long')
        d.run('say', 'long', '--detach', '--max-tokens', '300', '--ignore-eos', '--seed', '5', 'Count.')
        asked = d.run('ask', 'long', '--max-tokens', '5', 'Hello') # a reply that is written holds up no question
        follower = d.begin('attach', 'long')
        d.run('wait', 'long', 'doc')
        need(not d.show('long')['generating'], 'wait did not wait')
        out, _ = follower.communicate(timeout=60)
        text = d.show('long')['turns'][-1]['text']
        need(follower.returncode == 0 and out.rstrip('\n') == text.rstrip('\n'), 'attach is not what was written')
        need(d.run('attach', 'long').rstrip('\n') == text.rstrip('\n') and asked, 'attach is not the last reply')
        # two that wait go one after the other
        waiting = [d.begin('say', 'long', '--wait', '--max-tokens', '20', 'More.') for _ in range(3)]
        need(all(p.communicate(timeout=60)[0] and p.returncode == 0 for p in waiting), 'say --wait does not wait')
        need(d.show('long')['n_turns'] == 5 + 6, 'not all was said')
        d.run('wait', 'long', 'nobody', status=3)
        for _ in range(10):  # nothing is printed of a reply that goes on by itself, however soon its first tokens come
            printed = d.run('say', 'long', '--detach', '--wait', '--max-tokens', '3', 'More.')
            need(printed == '', f'say --detach prints {printed!r}')
            d.run('wait', 'long')
        d.run('close', 'long')
        d.only(*self.mine)

    def transcripts(self):
        d = self.d
        shown = d.run('--json', 'show', 'doc')
        d.run('open', 'copy', '--from', '-', input=shown)
        said = [[(t['role'], t['text']) for t in d.show(name)['turns']] for name in ('doc', 'copy')]
        need(said[0] == said[1], f'{said}')
        need('about' not in d.names()['copy'] or not d.names()['copy']['about'].get('expires_after'), 'it is thrown away')
        messages = [{'role': role, 'content': text} for role, text in said[0]]
        d.run('open', 'other', '--from', '-', input=json.dumps({'messages': messages}))
        need([(t['role'], t['text']) for t in d.show('other')['turns']] == said[0], 'OpenAI\'s form differs')
        for name in 'copy', 'other':
            need(d.run('ask', name, '--seed', '3', 'What is my cat called?') ==
                 self.in_a_fork('What is my cat called?', '--seed', '3'), f'{name} answers otherwise')
            d.run('close', name)
        d.run('open', 'long', '--from', '-', status=5, input=json.dumps([{'role': 'user', 'content': 'word ' * 30000}]))
        d.only(*self.mine)


with tempfile.TemporaryDirectory(prefix='confab-asking-') as where:
    the_daemon = Daemon(where)
    try:
        the_daemon.start()
        case = Case(the_daemon, where)
        for step in case.ask, case.best, case.follow, case.transcripts, case.map:
            step()
        the_daemon.end(signal.SIGTERM)
    finally:
        if the_daemon.process and the_daemon.process.poll() is None:
            the_daemon.end(signal.SIGKILL)
print('ok')
