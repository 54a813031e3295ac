# SPDX-License-Identifier: MIT
"""What a daemon alone, with a register of its own and no other machine, replies in place of the cluster.

All turns that an order of operations has (order.py) make trees: a conversation and its forks, with what was rewound. Each
tree is one conversation of the lone daemon, which goes back to where branches begin. The replies are added to the history.
"""
import contextlib
import queue
import struct
import sys
import threading

from check import Checker
from parts import Daemon, await_that

N_THREADS = 3


class Turn:
    def __init__(self, key):
        self.key, self.children, self.op, self.n = key, {}, None, None


class Here:
    """In place of the cluster's network: none."""

    addresses = {}

    @staticmethod
    def inside(_name):
        return contextlib.nullcontext()


def trees(checker):
    """Turns without a turn before; each has below it all that followed."""
    roots = {}
    replies = {op.args['seed']: op for op, _, _ in checker.made_replies()}
    for c in checker.conversations.values():
        for revision, state in c.states.items():
            turn = None
            for i, key in enumerate(state):
                turn = (turn.children if turn else roots).setdefault(key, Turn(key))
                if key[0] == 'assistant' and not turn.n:
                    turn.op = replies.get(key[1]) # none: of a conversation that nothing explains
                    seen = checker.turn(checker.instance(c, revision, i)).get('n')
                    turn.n = len(turn.op.tokens) if turn.op and turn.op.ok else seen and seen[0]
    return roots.values()


class Alone:
    """A connection, and the conversation that it goes through."""

    def __init__(self, package, path, recorder):
        sys.path[:0] = [package] * (package not in sys.path)
        import confab # pylint: disable=import-outside-toplevel
        self.confab, self.recorder = confab, recorder
        self.client = confab.blocking.Client.connect(path)

    def tree(self, root):
        role, text = root.key
        self.conv = self.client.open(system=text if role == 'system' else None).id
        self.length = 1 if role == 'system' else 0 # the system message may have been rewound
        stack = [(child, 1) for child in root.children.values()] if role == 'system' else [(root, 0)]
        while stack:
            turn, place = stack.pop()
            while turn:
                if turn.key[0] == 'user':
                    first = next((t for t in turn.children.values() if t.n), None)
                    self.say(place, turn.key[1], first)
                    others = [t for t in turn.children.values() if t is not first]
                    stack += [(t, place + 1) for t in others]
                    turn, place = first, place + 2
                else:
                    if not turn.n: # nobody knows how long it was, or it is empty
                        self.skip(turn)
                        break
                    self.say(place, None, turn)
                    place += 1
                if turn:
                    stack += [(t, place) for t in turn.children.values()]
                    turn = None
        self.client.close(self.conv)

    def say(self, place, text, reply):
        n = reply.n if reply else 0
        told = {'tokens': [], 'logprobs': []}
        at = place if place != self.length else None
        for event in self.client.continue_(self.conv, text, sampling={'seed': reply.key[1]} if reply else None, max_tokens=n,
                                           ignore_eos=True, want_logprobs=True, at_turn=at):
            if isinstance(event, self.confab.messages.Accepted):
                told['n_prompt'] = event.n_prompt
            elif isinstance(event, self.confab.messages.Delta):
                for token in event.tokens:
                    told['tokens'].append(token.token)
                    told['logprobs'].append(struct.unpack('<I', struct.pack('<f', token.logprob))[0])
        self.length = place + (text is not None) + bool(n)
        if reply and reply.op:
            self.recorder.write('replay', op=reply.op.id, **told)

    def skip(self, turn):
        stack = [turn]
        while stack:
            turn = stack.pop()
            stack += turn.children.values()
            if turn.op:
                self.recorder.write('replay', op=turn.op.id, skipped=True)


def replay(chosen, folder, lines, recorder):
    checker = Checker(lines)
    checker.run()
    alone = Daemon('alone', Here, folder, chosen, '2g', {'threads': 1, 'pool-size': '512M', 'pressure': 'no', 'disk-floor': 0})
    work = queue.SimpleQueue()
    for root in trees(checker):
        work.put(root)
    alone.start()
    await_that('the lone daemon serves', alone.serves)
    failures = []

    def go():
        try:
            one = Alone(chosen.package, alone.socket, recorder)
            while True:
                one.tree(work.get_nowait())
        except queue.Empty:
            pass
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=go) for _ in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone.stop()
    for failure in failures:
        raise failure
