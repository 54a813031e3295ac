#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""changing-model.py CONFABD CONFAB MAKE-MODEL SOURCE: the commands of docs/models.md, "Changing the model", word for
word, between the bundled model and one with another vocabulary."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

confabd, confab, make_model, source = sys.argv[1:5]
OLD = os.path.join(source, 'models/confab-small.q8_0.gguf')
OTHER_WEIGHTS = os.path.join(source, 'models/confab-small.q4_0.gguf')
for path in OLD, OTHER_WEIGHTS:
    if not os.path.exists(path):
        print(f'SKIP: no {path}')
        sys.exit(77)


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


def blocks(heading):
    """The indented lines of a section, by paragraphs."""
    with open(os.path.join(source, 'docs/models.md'), encoding='utf-8') as f:
        section = re.split(r'^##+ ', f.read(), flags=re.M)
    text = next(s for s in section if s.startswith(heading + '\n'))
    return [re.findall(r'^ {4}(.*)$', p, flags=re.M) for p in text.split('\n\n') if p.startswith('    ')]


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.names = {'STATE': folder + '/state', 'SOCKET': folder + '/socket', 'OLD.gguf': OLD,
                      'NEW.gguf': folder + '/new.gguf'}
        self.daemon = None
        subprocess.run([make_model, self.names['NEW.gguf'], 'arch:qwen3', 'f32'], check=True)

    def start(self, args):
        need(self.daemon is None, 'a daemon runs')
        self.daemon = subprocess.Popen([confabd, *args, '--pool-size', '64M', '--chat-format', 'auto'
                                        if OLD in args or OTHER_WEIGHTS in args else 'chatml'],
                                       stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while subprocess.run([confab, '--socket', self.names['SOCKET'], 'stats'], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, check=False).returncode:
            need(self.daemon.poll() is None and time.monotonic() < deadline, f'no daemon: {args}')
            time.sleep(0.02)

    def stop(self):
        if self.daemon:
            self.daemon.terminate()
            need(self.daemon.wait(60) == 0, 'the daemon did not end well')
            self.daemon = None

    def run(self, *args, status=0):
        result = subprocess.run([confab, '--socket', self.names['SOCKET'], *args], text=True,
                                stdin=subprocess.DEVNULL, capture_output=True, check=False)
        need(result.returncode == status, f'{args}: status {result.returncode}\n{result.stdout}{result.stderr}')
        return result.stdout + result.stderr

    def all(self):
        """Each conversation by its name, with what is only told where there is something to tell."""
        return {c['name']: {'other_vocabulary': False, 'unusable_bytes': 0, **c}
                for c in json.loads(self.run('--json', 'ls'))['conversations']}

    def texts(self, name):
        return [(t['role'], t['text'], t.get('finish'), t['created_usec'])
                for t in json.loads(self.run('--json', 'show', name))['turns']]

    def tokens(self, name):
        return json.loads(self.run('--json', 'show', '--tokens', name))['tokens']

    def follow(self, line):
        """One line of the page: what it prints."""
        for name, path in self.names.items():
            line = re.sub(rf'\b{re.escape(name)}(?![\w])', path, line)
        words = line.split()
        if words[0] == 'confabd' and words[-1] == '&':
            self.stop()
            self.start(words[1:-1])
            return ''
        if words[0] == 'confab':
            return self.run(*words[1:])
        if words[0] == 'confabd':
            words[0] = confabd
        else:
            self.stop() # copies are made while no daemon runs
        return subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout


def check(case):
    (upgrade,) = blocks('Changing the model')
    back, restore = blocks('Going back')
    need(len(upgrade) == 5 and len(back) == 2 and len(restore) == 3, 'the page has other commands')

    case.start(['--model', OLD, '--socket', case.names['SOCKET'], '--state', case.names['STATE']])
    case.run('open', 'trip', '--system', 'You are kind.')
    case.run('say', 'trip', '--temperature', '0', 'Hello, my name is Ada.')
    case.run('open', 'kept')
    case.run('say', 'kept', '--temperature', '0', 'Tell me about dogs.')
    case.run('fork', 'trip', 'before')
    first = {name: (case.texts(name), case.tokens(name)) for name in ('trip', 'kept')}
    expected = case.run('--json', 'say', 'before', '--temperature', '0', 'What is my name?')
    case.run('close', 'before')
    for name in 'trip', 'kept':
        case.run('evict', name)
    case.stop()

    said = [case.follow(line) for line in upgrade]
    need('It would start' in said[0], said[0])
    need(said[3].count('made with another model: confab carry NAME') == 2, said[3])
    need(re.search(r'trip: carried over, 3 turns, \d+ tokens', said[4]) and 'kept: carried' in said[4], said[4])
    need('NOTE' not in case.run('ls'), 'there is still a note')
    for name in 'trip', 'kept':
        need(case.texts(name) == first[name][0] and case.tokens(name) != first[name][1], f'{name} after carrying')
    case.run('say', 'trip', '--max-tokens', '5', 'Hi.')
    case.run('rewind', 'trip', '--turns', '2')
    need('nothing to do' in case.run('carry', 'trip'), 'carried twice')

    said = [case.follow(line) for line in back]
    need('trip: carried over' in said[1] and 'kept: carried over' in said[1], said[1])
    for name in 'trip', 'kept':
        need((case.texts(name), case.tokens(name)) == first[name], f'{name} after going back')
    again = case.run('--json', 'say', 'trip', '--temperature', '0', 'What is my name?')
    deltas = [[e['text'] for e in map(json.loads, out.splitlines()) if e['event'] == 'delta']
              for out in (expected, again)]
    need(deltas[0] == deltas[1], 'another reply')

    for line in restore:
        case.follow(line)
    now = case.all()
    need(case.tokens('kept') == first['kept'][1], 'the copy is another state')
    need(all(c['residency'] == 'spilled' and not c['other_vocabulary'] and not c['unusable_bytes']
             for c in now.values()), f'the memory of before: {now}')

    # What was not touched by another model has its memory when the first one is back.
    case.stop()
    case.start(['--model', case.names['NEW.gguf'], '--socket', case.names['SOCKET'], '--state', case.names['STATE']])
    now = case.all()
    need(all(c['other_vocabulary'] and c['unusable_bytes'] == c['disk_bytes'] > 0 and c['residency'] == 'cold'
             for c in now.values()), f'with another vocabulary: {now}')
    need('carry' in case.run('say', 'trip', 'Hi.', status=1), 'it goes on')
    case.stop()
    case.start(['--model', OTHER_WEIGHTS, '--socket', case.names['SOCKET'], '--state', case.names['STATE']])
    now = case.all()
    need(all(not c['other_vocabulary'] and c['unusable_bytes'] == c['disk_bytes'] > 0 for c in now.values()),
         f'with other weights: {now}')
    need(case.run('ls').count('are of another model: computed again') == 2, 'ls')
    case.run('say', 'kept', '--max-tokens', '3', 'Hm.')
    case.run('evict', 'kept')
    need(case.all()['kept']['unusable_bytes'] == 0, 'its own memory is of use')
    case.stop()
    case.start(['--model', OLD, '--socket', case.names['SOCKET'], '--state', case.names['STATE']])
    now = case.all()
    need(now['trip']['residency'] == 'spilled' and now['trip']['unusable_bytes'] == 0, f'back: {now}')
    need(now['kept']['residency'] == 'cold' and now['kept']['unusable_bytes'] > 0, f'back: {now}')
    accepted = json.loads(case.run('--json', 'say', 'trip', '--max-tokens', '3', 'Hm.').splitlines()[0])
    need(accepted['n_disk'] > 0, 'its memory was computed again')


with tempfile.TemporaryDirectory(prefix='confab-test-') as folder:
    case = Case(folder)
    try:
        check(case)
        case.stop()
    finally:
        if case.daemon:
            case.daemon.kill()
            case.daemon.wait()
