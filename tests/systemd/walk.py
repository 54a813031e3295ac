# SPDX-License-Identifier: MIT
"""What the walks of walks.py have in common: who walks, and how their conversations are looked at."""
import json
import subprocess

import container
from debs import need

USERS = ('anna', 'bob', 'carl')
QUESTION = 'What do you know of it?'


def run_json(box, *words, user=None, status=0):
    """The objects that a command prints with --json, one on a line."""
    done = box.execute(('confab', '--json', *words), user)
    need(done.returncode == status, f'{words}: status {done.returncode}, not {status}: {done.stdout}{done.stderr}')
    return [json.loads(line) for line in done.stdout.splitlines()]


def names(box, user, *flags):
    [answer] = run_json(box, *flags, 'ls', user=user)
    return [c['name'] for c in answer['conversations']]


def turns(box, user, name, *flags):
    """What was said, as (role, text)."""
    [answer] = run_json(box, *flags, 'show', name, user=user)
    return [(turn['role'], turn.get('text')) for turn in answer['turns']]


def number(box, user, name):
    return run_json(box, 'show', name, user=user)[0]['id']


def bits(box, user, name, *flags):
    """How the conversation would go on, token for token with all digits of their log-probabilities. It stays as it is."""
    events = run_json(box, *flags, 'ask', name, '--temperature', '0', '--max-tokens', '8', '--ignore-eos', '--logprobs', '2',
                      QUESTION, user=user)
    tokens = [token for event in events if event['event'] == 'delta' for token in event['tokens']]
    need(len(tokens) == 8 and all('logprob' in token for token in tokens), f'no log-probabilities: {events}')
    return tokens


class Memory:
    """How each conversation of each user would go on, to be compared with later."""

    def __init__(self, box, conversations):
        self.box = box
        self.kept = {who: (turns(box, *who), bits(box, *who)) for who in conversations}

    def compare(self, when, *flags):
        for who, (said, bit) in self.kept.items():
            need(turns(self.box, *who, *flags) == said, f'{when}, turns of {who} are others')
            need(bits(self.box, *who, *flags) == bit, f'{when}, {who} goes on with other bits')


def stats(box):
    [answer] = run_json(box, 'stats')
    return answer


def users(box):
    """What each user has, by name and tenant."""
    [answer] = run_json(box, 'admin', 'users')
    return {(u['uid'], u.get('tenant')): u for u in answer['users']}


class Reply:
    """A reply that has begun, and that stands still until end(): nobody reads it, and with output-high as here the daemon
    makes no more of it than a few hundred of its tokens, which have much to tell."""

    def __init__(self, box, user, *words, length=1500):
        words = ('confab', *words, '--json', '--logprobs', '20', '--max-tokens', str(length), '--ignore-eos')
        self.process = subprocess.Popen(box.command(words, user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, cwd='/', env=container.environment())
        for line in self.process.stdout:
            if json.loads(line)['event'] == 'delta':
                return
        raise container.Broken(f'no reply: {words}: {self.process.communicate()}')

    def end(self, *statuses):
        """What it tells last, when it has come to its end."""
        out, said = self.process.communicate(timeout=container.DEADLINE)
        need(self.process.returncode in statuses, f'the reply ended with status {self.process.returncode}: {said}')
        return json.loads(out.splitlines()[-1])
