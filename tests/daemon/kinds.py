#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kinds.py CONFABD CONFAB CONFAB-MODEL MAKE-MODEL KIND: what one user does in a day, with the daemon and the
command, on a model whose memory is not attention over everything alone. KIND is an architecture of
util/tiny-model.h, with states (granitehybrid) or windows (gemma3).

What is compared: each reply with that of a second daemon, in which a conversation of the same messages and seeds has
never left RAM. What is counted: going on and giving a reply once more compute at most 64 tokens of the history."""
import grp
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

confabd, confab, confab_model, make_model, KIND = sys.argv[1:6]

MOST_AGAIN = 64 # tokens of the history that a return may compute
REPLY = 20
SMALL_POOL = {'granitehybrid': '3M', 'gemma3': '4M'} # for about half of the conversations
SYSTEM = ('You are a patient assistant. You answer in one or two plain sentences, you say so when you do not know '
          'something, and you never invent names, numbers or places.')


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {KIND}: {words}')


class Daemon:
    """One daemon with a state folder of its own, and the command that talks to it."""

    def __init__(self, folder, name, model):
        self.socket, self.state = f'{folder}/{name}.socket', f'{folder}/{name}.state'
        self.confab = f'{folder}/confab' # another user may not be able to reach the build folder
        self.model, self.log, self.process = model, f'{folder}/{name}.log', None

    def start(self, pool='64M', *flags):
        args = [confabd, '--model', self.model, '--socket', self.socket, '--state', self.state, '--pool-size', pool,
                '--threads', '2', '--disk-floor', '0', '--socket-mode', '0666']
        if os.getuid():
            args += ['--admin-group', grp.getgrgid(os.getgid()).gr_name]
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen([*args, *flags], stderr=log)
        deadline = time.monotonic() + 60
        while self.command('stats').returncode:
            need(self.process.poll() is None and time.monotonic() < deadline, f'no daemon: {self.said()}')
            time.sleep(0.02)

    def said(self):
        with open(self.log, encoding='utf-8', errors='replace') as f:
            return f.read()

    def stop(self):
        process, self.process = self.process, None
        process.terminate()
        need(process.wait(60) == 0, f'the daemon did not end well: {self.said()}')

    def kill(self):
        process, self.process = self.process, None
        process.kill()
        need(process.wait(60) == -signal.SIGKILL, f'it was not killed: {self.said()}')

    def command(self, *args, **how):
        how = {'stdin': subprocess.DEVNULL, 'timeout': 120, **how}
        return subprocess.run([self.confab, '--socket', self.socket, *args], capture_output=True, check=False, **how)

    def run(self, *args, status=0, **how):
        """What it prints, after it ended with the right status."""
        done = self.command(*args, text=True, errors='replace', **how)
        need(done.returncode == status, f'{args}: status {done.returncode}: {done.stdout}{done.stderr}')
        return done.stdout

    def json(self, *args, **how):
        return json.loads(self.run('--json', *args, **how))

    def talk(self, *args, **how):
        """One reply: the Accepted and the Done event, and its tokens."""
        lines = [json.loads(line) for line in self.run('--json', *args, **how).splitlines()]
        accepted, done = ([e for e in lines if e['event'] == kind] for kind in ('accepted', 'done'))
        need(len(accepted) == 1 and len(done) == 1, f'{args}: events {lines}')
        for e in accepted[0], done[0]:
            need(e['n_ram'] + e['n_disk'] + e['n_shared'] + e['n_computed'] == e['n_prompt'], f'{args}: sum of {e}')
            need(e['differs_at'] <= e['n_prompt'], f'{args}: {e}')
            need(e['differs_why'] != 'token' or e['differs_at'] < e['n_prompt'],
                 f'{args}: there is no such token: {e}')
        return accepted[0], done[0], [t['token'] for e in lines if e['event'] == 'delta' for t in e['tokens']]

    def ls(self):
        return {c['name']: c for c in self.json('ls')['conversations']}

    def row(self, name):
        """The columns of its line in the table of ls."""
        titles, *lines = [line.split() for line in self.run('ls').splitlines()]
        return dict(next(zip(titles, line) for line in lines if line[1] == name))


def options(seed, length=REPLY):
    """Greedy with seed 0, else drawn."""
    how = ['--max-tokens', str(length), '--ignore-eos', '--seed', str(seed)]
    return how + ['--temperature', '0'] if seed == 0 else how


class Case:
    def __init__(self, folder):
        model = f'{folder}/model.gguf'
        subprocess.run([make_model, model, f'tiny:{KIND}', '2048'], check=True)
        shutil.copy(confab, f'{folder}/confab')
        self.folder, self.model = folder, model
        self.main, self.reference = Daemon(folder, 'main', model), Daemon(folder, 'reference', model)
        self.known, self.going_on = {}, {} # replies of the reference and its conversations, by what was said
        self.said = {} # of each conversation: [(text, seed, length)]

    # --- what is right ---

    def expect(self, said):
        """The tokens of the last reply of a conversation of these messages that never left RAM."""
        said = tuple(said)
        if said not in self.known:
            # One that has said just what is before goes on.
            n = next((n for n in range(len(said) - 1, 0, -1) if said[:n] in self.going_on), 0)
            name = self.going_on.pop(said[:n]) if n else self.reference.run('open', '--system', SYSTEM).strip()
            for n in range(n, len(said)):
                text, seed, length = said[n]
                a, _, tokens = self.reference.talk('say', name, *options(seed, length), text)
                need(a['n_disk'] == 0, f'the reference left RAM: {a}')
                need(self.known.setdefault(said[:n + 1], tokens) == tokens, f'the reference itself: {said}')
            self.going_on[said] = name
        return self.known[said]

    def say(self, name, text, seed, *flags, length=REPLY, again=MOST_AGAIN, daemon=None, **how):
        """Says it, compares the reply, and counts: at most @again tokens of the history are computed."""
        daemon = daemon or self.main
        before = daemon.json('show', name, **how)['n_tokens'] if self.said[name] else 0
        said = [*self.said[name], (text, seed, length)]
        accepted, done, tokens = daemon.talk('say', name, *flags, *options(seed, length), text, **how)
        need(tokens == self.expect(said), f'{name}: another reply to {text!r}: {tokens}, not {self.expect(said)}')
        for e in accepted, done:
            need(e['n_computed'] <= e['n_prompt'] - before + again,
                 f'{name}: {text!r} computed {e["n_computed"]} of {e["n_prompt"]} tokens, {before} were there: {e}')
        self.said[name] = said
        return accepted

    def open(self, name, n=0):
        self.main.run('open', name, '--system', SYSTEM)
        self.said[name] = []
        for i in range(n):
            self.say(name, f'Question {i}: what do you know about the {("sea", "sky", "wood")[i % 3]}?', i)

    def where(self, name, residency, daemon=None):
        """All three views tell the same of a conversation's memory."""
        daemon = daemon or self.main
        c, row = daemon.json('show', name), daemon.row(name)
        need(c['residency'] == residency and row['STATE'] == residency, f'{name}: {row} {c}, not {residency}')
        need(f', {residency}, ' in daemon.run('show', name).splitlines()[1], f'show {name}')
        need(row['TOKENS'] == str(c['n_tokens']) and row['TURNS'] == str(c['n_turns']), f'{row} {c}')
        need((c['ram_bytes'] > 0) == (residency in ('resident', 'partial')), f'{name}: bytes in RAM: {c}')
        return c

    # --- the day ---

    def about_the_model(self):
        """model, stats and --check tell of the kinds of memory that the file has."""
        self.info = info = json.loads(
            subprocess.run([confab_model, 'info', self.model, '--json'], stdout=subprocess.PIPE, check=True).stdout)
        m, stats = self.main.json('model'), self.main.json('stats')
        need(m['architecture'] == KIND and m['context'] == 2048, f'{m}')
        need(m['state_bytes'] == stats['state_bytes'] == info['state_size'], f'states: {m} {stats}')
        need(m['window'] == max(info['window'], info['chunk']), f'{m} {info}')
        need(m['window_block_bytes'] == stats['window_block_bytes'] == info['window_block_size'], f'{m} {stats}')
        need(stats['block_bytes'] == info['block_size'] and
             m['block_bytes'] == stats['block_bytes'] + stats['window_block_bytes'], f'{m} {stats}')
        text = self.main.run('model')
        for label, key in (('state, bytes', 'state_bytes'), ('window, tokens', 'window'),
                           ('window, bytes', 'window_block_bytes')):
            need(f'\n{label:14} {m[key]}\n' in text, f'model: {text}')
        others = self.main.run('stats').partition('# Others')[2]
        need(not any(name in others for name in ('block', 'state', 'window', 'memory')), f'at the end: {others}')
        check = subprocess.run(
            [confabd, '--check', '--model', self.model, '--state', f'{self.folder}/none', '--socket',
             f'{self.folder}/none.socket'], stdout=subprocess.PIPE, text=True, check=True).stdout
        need(f"memory per token: {info['block_size'] // 32} bytes (f16)" in check, check)
        need(not m['window'] or f"more for each of the last {m['window']} tokens" in check, check)
        need(not m['state_bytes'] or 'state of the recurrent layers: ' in check, check)

    def talking(self):
        """Several turns, the last reply once more, another message in place of one."""
        self.open('trip', 5)
        held = self.main.json('stats')
        need((held['pool_states'] > 0) == (self.info['state_size'] > 0), f'states: {held}')
        need((held['pool_window_blocks'] > 0) == (self.info['window_block_size'] > 0), f'blocks of windows: {held}')
        need(self.where('trip', 'resident')['ram_bytes'] == held['pool_live_bytes'], f'bytes: {held}')
        self.regenerate('trip', 77)
        self.regenerate('trip', 0)
        self.say('trip', 'And then?', 5)
        self.main.run('fork', 'trip', 'edited')
        turn = 7 # the fourth message
        accepted, _, tokens = self.main.talk('edit', 'edited', str(turn), *options(8), 'No: tell me of birds.')
        self.said['edited'] = [*self.said['trip'][:3], ('No: tell me of birds.', 8, REPLY)]
        need(tokens == self.expect(self.said['edited']), 'edit: another reply')
        need(accepted['differs_why'] in ('end', 'new', 'token', 'partial'), f'{accepted}')
        self.say('edited', 'Which of them sing?', 9)

    def regenerate(self, name, seed):
        accepted, done, tokens = self.main.talk('regenerate', name, *options(seed))
        self.said[name][-1] = (self.said[name][-1][0], seed, REPLY)
        need(tokens == self.expect(self.said[name]), f'regenerate {name}: another reply')
        need(done['n_computed'] <= MOST_AGAIN, f'regenerate {name} computed {done["n_computed"]}: {accepted}')

    def leaving_ram(self):
        """evict and warm; going on from disk, and a reply once more from there."""
        out = self.main.run('evict', 'trip')
        need(out.startswith('trip: spilled, 0 in RAM, '), f'evict: {out}')
        self.where('trip', 'spilled')
        a = self.say('trip', 'What did I ask first?', 11)
        need(a['n_disk'] > 0 and a['n_ram'] == 0, f'from disk: {a}')
        self.main.run('evict', 'trip')
        self.regenerate('trip', 12)
        self.main.run('evict', 'trip')
        out = self.main.run('warm', 'trip')
        need(out.startswith('trip: resident, '), f'warm: {out}')
        self.where('trip', 'resident')
        a = self.say('trip', 'And second?', 0)
        need(a['n_disk'] == 0 and a['n_ram'] > 0, f'after warm: {a}')

    def branches(self):
        """Forks at a turn and at a position, of memory in RAM and on disk; fork and original take turns."""
        self.main.run('evict', 'trip')
        turns = self.main.json('show', 'trip')['turns']
        for turn in 5, 9, len(turns):
            name = f'at-{turn}'
            self.main.run('fork', 'trip', name, '--at', str(turn))
            self.said[name] = self.said['trip'][:(turn - 1) // 2]
            self.say(name, f'In branch {turn}: go on.', turn, again=turns[-1]['end'])
            self.say(name, 'And on.', 3)
        self.say('trip', 'Here again?', 13)
        self.say('at-5', 'And here?', 14)
        self.say('trip', 'Still?', 15)
        need(f'at-{len(turns)}' in self.main.run('tree'), 'tree')
        self.cut_reply('fork', 'middle')

    def cut_reply(self, verb, name):
        """A conversation that ends in the middle of a reply, by fork or rewind: it goes on with a message."""
        turns = self.main.json('show', 'trip')['turns']
        reply = turns[-5]
        position = reply['start'] + (reply['end'] - reply['start']) // 2
        if verb == 'fork':
            self.main.run('fork', 'trip', name, '--at-position', str(position))
        else:
            out = self.main.run('rewind', name, '--to-position', str(position))
            need(out == f'{name}: {len(turns) - 4} turns, {position} tokens\n', f'rewind: {out}')
        start = len(self.expect(self.said['trip'][:-2])) - (reply['end'] - position)
        text, seed, _ = self.said['trip'][-3]
        self.said[name] = [*self.said['trip'][:-3], (text, seed, start)]
        self.say(name, 'Stop. Something else.', 16, again=position)
        self.say(name, 'Well?', 17)

    def back(self):
        """Rewinds by turns, to a turn and to a position; Accepted tells what is computed again."""
        self.main.run('fork', 'trip', 'back')
        self.said['back'] = list(self.said['trip'])
        self.main.run('rewind', 'back', '--turns', '2')
        self.said['back'] = self.said['back'][:-1]
        self.say('back', 'Instead of the last.', 18, again=MOST_AGAIN)
        self.main.run('evict', 'back')
        out = self.main.run('rewind', 'back', '--to-turn', '5')
        c = self.main.json('show', 'back')
        need(out == f'back: 5 turns, {c["n_tokens"]} tokens\n' and c['n_turns'] == 5, f'rewind: {out} {c}')
        self.said['back'] = self.said['back'][:2]
        a = self.say('back', 'From the fifth turn on.', 19, again=c['n_tokens'])
        replayed = a['n_computed'] - (a['n_prompt'] - c['n_tokens'])
        need(replayed <= 1 or (a['differs_why'] == 'partial' and a['differs_at'] == c['n_tokens'] - replayed),
             f'replayed {replayed} of {c["n_tokens"]}: {a}')
        self.main.run('fork', 'trip', 'cut')
        self.cut_reply('rewind', 'cut')

    def sharing(self):
        """Two conversations with one system message; then one of another user's, where that was published."""
        self.open('first', 1)
        system = self.main.json('show', 'first')['turns'][0]['end'] // 32 * 32
        need(system >= 64, f'the system message is short: {system}')
        a = self.share('second')
        need(a['n_shared'] >= system, f'of {system} tokens in RAM: {a}')
        for c in self.main.ls():
            self.main.run('evict', c)
        a = self.share('third')
        need(a['n_disk'] >= system, f'of {system} tokens on disk: {a}')
        out = self.main.run('publish', 'first', '--turns', '1')
        need(out.startswith('first: all users share the memory of its first '), out)
        published = self.main.json('show', 'first')['n_published']
        need(published > 0 and f'first {published} tokens' in self.main.run('show', 'first'), 'published')
        if os.getuid() == 0:
            self.another_user(system)
        need(self.main.run('publish', 'first', '--off') == 'first: not published\n', 'publish --off')

    def share(self, name):
        self.main.run('open', name, '--system', SYSTEM)
        self.said[name] = []
        return self.say(name, f'I am the {name}.', 21, again=MOST_AGAIN)

    def another_user(self, system):
        nobody = {'user': 65534, 'group': 65534, 'extra_groups': []}
        self.main.run('open', 'guest', '--system', SYSTEM, **nobody)
        self.said['guest'] = []
        a = self.say('guest', 'I am a guest.', 22, **nobody)
        need(a['n_shared'] + a['n_disk'] >= system, f'of {system} published tokens: {a}')
        self.main.run('publish', 'guest', status=1, **nobody)
        self.main.run('evict', 'guest', **nobody)
        self.say('guest', 'I am back.', 23, **nobody)
        self.main.run('close', 'guest', **nobody)

    def files(self):
        """export and import: here, at another daemon, and without memory."""
        path = f'{self.folder}/trip.confab'
        for name, flags, where in (('copy', [], self.main), ('abroad', [], self.reference),
                                   ('told', ['--without-memory'], self.main)):
            with open(path, 'wb') as f:
                subprocess.run([confab, '--socket', self.main.socket, 'export', 'trip', *flags], stdout=f, check=True)
            with open(path, 'rb') as f:
                need(where.run('import', name, stdin=f) == f'{name}\n', 'import')
            c = where.json('show', name)
            need(c['private_memory'] == (where is self.reference), f'{name}: {c}')
            need(flags or c['residency'] == 'spilled', f'{name}: {c}')
            self.said[name] = list(self.said['trip'])
            if flags:
                need(c['residency'] == 'cold' and c['disk_bytes'] == 0, f'{name}: {c}')
                self.main.run('evict', 'trip')
            self.expect([*self.said[name], ('After the journey?', 24, REPLY)]) # before it is there
            a = self.say(name, 'After the journey?', 24, daemon=where, again=c['n_tokens'] if flags else MOST_AGAIN)
            need(a['n_computed'] < a['n_prompt'], f'{name}: {a}')
        self.reference.run('close', 'abroad')

    def restart(self):
        self.say('trip', 'Good night.', 25)
        self.main.stop()
        self.fsck()
        self.main.start()
        self.where('trip', 'spilled')
        a = self.say('trip', 'Good morning.', 26)
        need(a['n_disk'] > 0, f'after a restart: {a}')
        self.regenerate('trip', 27)
        self.say('copy', 'And the copy?', 28)
        self.say('at-5', 'And the branch?', 29)

    def crash(self):
        """kill -9: with memory on disk, and during a reply."""
        self.main.run('evict', 'trip')
        self.main.run('warm', 'trip')
        before = self.main.json('show', '--tokens', 'trip')
        self.main.run('say', '--detach', 'trip', *options(1, 1500), 'Tell me a long story.')
        self.main.kill()
        self.main.start()
        after = self.main.json('show', '--tokens', 'trip')
        if after['n_turns'] > before['n_turns']: # it was quick
            self.main.run('rewind', 'trip', '--to-turn', str(before['n_turns']))
            after = self.main.json('show', '--tokens', 'trip')
        need([after[k] for k in ('turns', 'tokens')] == [before[k] for k in ('turns', 'tokens')], 'after kill -9')
        a = self.say('trip', 'Where were we?', 30)
        need(a['n_disk'] > 0, f'after kill -9: {a}')
        self.main.kill() # nothing of this turn is on disk
        self.main.start()
        self.say('trip', 'And now?', 31, again=len(after['tokens']) + 200)
        self.main.stop()
        self.fsck()

    def long(self):
        """Past the end of the context, evicted before each message, beside one that stays in RAM."""
        dropped = 0
        for daemon in self.main, self.reference:
            daemon.run('open', 'long', '--overflow', 'shift', '--system', SYSTEM)
        for i in range(9):
            text = f'{i}: ' + 'and the sea ' * 30
            said = [daemon.talk('say', 'long', *options(i), text) for daemon in (self.main, self.reference)]
            need(said[0][2] == said[1][2], f'long: another reply to message {i}')
            dropped += said[0][0].get('n_dropped', 0)
            self.main.run('evict', 'long')
        c = self.main.json('show', 'long')
        need(dropped > 0 and c['dropped_to'] - c['dropped_from'] == dropped, f'dropped {dropped}')
        need(f'not in memory: tokens {c["dropped_from"]} to {c["dropped_to"]}, ' in self.main.run('show', 'long'),
             'show long')
        for daemon in self.main, self.reference:
            daemon.run('close', 'long')

    def small(self):
        """A pool that holds a few of them: they take turns."""
        self.main.start(SMALL_POOL[KIND])
        for i in range(2):
            for name in 'trip', 'copy', 'at-5', 'edited', 'first', 'second':
                self.say(name, f'Round {i}.', 40 + i)
                s = self.main.json('stats')
                need(s['ledger_peak'] <= s['budget_max'], f'{s}')
        need(s['evictions'] > 0 and s['restores'] > 0, f'there was room for all: {s}')
        need(s['restore_failures'] == s['spill_corrupt'] == s['blocks_lost'] == 0, f'{s}')
        for name in list(self.main.ls())[:4]:
            self.main.run('close', name)
        self.main.stop()
        self.fsck()

    def fsck(self):
        done = subprocess.run([confab_model, 'fsck', self.main.state, '--model', self.model, '--audit', '200'],
                              capture_output=True, text=True, check=False)
        need(done.returncode == 0, f'fsck: {done.stdout}{done.stderr}')

    def check(self):
        self.reference.start()
        self.main.start()
        for part in (self.about_the_model, self.talking, self.leaving_ram, self.branches, self.back, self.sharing,
                     self.files, self.long, self.restart, self.crash, self.small):
            t = time.monotonic()
            part()
            print(f'{part.__name__}: {time.monotonic() - t:.2f} s', flush=True)
        self.reference.stop()
        for daemon in self.main, self.reference:
            need('warning' not in daemon.said() and 'error' not in daemon.said(), f'the journal: {daemon.said()}')


with tempfile.TemporaryDirectory(prefix='confab-test-') as folder:
    os.chmod(folder, 0o711) # another user reaches the socket
    case = Case(folder)
    try:
        case.check()
    finally:
        for daemon in case.main, case.reference:
            if daemon.process:
                daemon.process.kill()
                daemon.process.wait()
