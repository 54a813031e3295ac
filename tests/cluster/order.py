# SPDX-License-Identifier: MIT
"""One order of operations for each conversation that explains all that was answered and seen, if there is one.

The revision of a conversation rises by one with each change of its tokens, so an order is: which operation made which
revision. Operations that were acknowledged tell theirs. A revision that nobody claims was made by an operation whose outcome
nobody knows, or by the reply of one that was accepted; which one, is searched for.

A state is a tuple of turns. A turn is known by its text, which nobody says twice, or of a reply by its seed, which no two
operations have in common; so states can be compared without their tokens. An input makes one revision, its reply the next.
"""
from collections import defaultdict

from history import NEVER

MAX_STEPS = 200000 # of a search; more than any history of clients has taken


class Sight:
    """What an answer tells of a conversation: at some moment between begin and end it was at this revision."""

    def __init__(self, op, begin, end, revision, told=None):
        self.op, self.begin, self.end, self.revision = op, begin, end, revision
        self.n_turns = told.get('n_turns') if told else None
        self.told = told or {}
        self.turns = keys(self.told['turns']) if 'turns' in self.told else None
        if self.told.get('n_turns') == 0:
            self.turns = ()


def keys(turns):
    return tuple((role, seed if role == 'assistant' else text) for role, _, _, text, seed, _ in turns)


class Part:
    """A change that an operation makes: its input, its reply, or what it drops."""

    def __init__(self, op, kind):
        self.op, self.kind = op, kind

    def apply(self, state, last):
        """The state after it; None if it can't follow."""
        op, args = self.op, self.op.args
        if self.kind == 'input':
            at = args.get('at_turn')
            if at is not None and at > len(state):
                return None
            return (state if at is None else state[:at]) + (('user', args['text']),)
        if self.kind == 'reply':
            if op.op == 'say' and (not last or last.op is not op):
                return None
            return state + (('assistant', args['seed']),)
        return state[:-args['turns']] if args['turns'] <= len(state) else None

    def expects(self, revision):
        """Whether it may follow this one."""
        expected = self.op.args.get('expect')
        return expected in (None, revision) or (self.kind == 'reply' and self.op.op == 'say')

    def __repr__(self):
        return f'the {self.kind} of {self.op}'


class Conversation:
    """What a history tells of one, and in the end the order: made[revision] is a Part, states[revision] a tuple."""

    def __init__(self, number, uid):
        self.number, self.uid = number, uid
        self.maker = None # open or fork
        self.names = set()
        self.sights = []
        self.claims = defaultdict(list) # revision: parts that were acknowledged with it
        self.maybe = [] # parts that may have happened
        self.alive, self.gone, self.closes = [], [], [] # operations
        self.made, self.states, self.origin = {}, {}, {}
        self.why = None # nothing explains it

    @property
    def last(self):
        return max((s.revision for s in self.sights), default=0)

    def at(self, revision):
        return [s for s in self.sights if s.revision == revision]


class Bounds:
    """When each revision can have been made: not before earliest[r], not after latest[r]."""

    def __init__(self, conversation, made):
        last = conversation.last
        self.earliest, self.latest = [0] * (last + 2), [NEVER] * (last + 2)
        self.earliest[last + 1] = NEVER
        self.because = [[None, None] for _ in range(last + 2)]
        for sight in conversation.sights:
            if sight.begin > self.earliest[min(sight.revision + 1, last + 1)] and sight.revision < last:
                self.earliest[sight.revision + 1] = sight.begin # it was not made when that began
                self.because[sight.revision + 1][0] = sight.op
            if sight.end < self.latest[sight.revision]:
                self.latest[sight.revision] = sight.end
                self.because[sight.revision][1] = sight.op
        for revision, part in made.items():
            if revision <= last and part and part.op.begin > self.earliest[revision]:
                self.earliest[revision] = part.op.begin
                self.because[revision][0] = part.op
        for r in range(1, last + 1):
            if self.earliest[r - 1] > self.earliest[r]:
                self.earliest[r], self.because[r][0] = self.earliest[r - 1], self.because[r - 1][0]
        for r in range(last - 1, -1, -1):
            if self.latest[r + 1] < self.latest[r] and r + 1 <= last:
                self.latest[r], self.because[r][1] = self.latest[r + 1], self.because[r + 1][1]


class Search:
    def __init__(self, conversation, beginnings):
        self.c, self.beginnings = conversation, beginnings
        self.sights = defaultdict(list)
        for sight in conversation.sights:
            self.sights[sight.revision].append(sight)
        self.last, self.steps = conversation.last, 0
        self.latest = Bounds(conversation, {}).latest
        self.far, self.why = -1, 'there is no beginning'

    def fits(self, revision, state):
        for sight in self.sights[revision]:
            if sight.turns is not None and sight.turns != state:
                return self.fail(revision, f'{sight.op} saw {show(sight.turns)}; by the operations it is {show(state)}')
            if sight.n_turns is not None and sight.n_turns != len(state):
                return self.fail(revision, f'{sight.op} saw {sight.n_turns} turns; by the operations it is {show(state)}')
        return True

    def fail(self, revision, why):
        if revision > self.far:
            self.far, self.why = revision, why
        return False

    def candidates(self, revision, state, last, used):
        claimed = self.c.claims.get(revision)
        if claimed:
            return claimed
        found = [p for p in self.c.maybe if p not in used and p.op.begin <= self.latest[revision] and p.expects(revision - 1)]
        # A reply is stored at once, or never; and what is seen next is likelier.
        following = next((s.turns for r in range(revision, self.last + 1) for s in self.sights[r] if s.turns is not None), ())
        wanted = following[len(state)] if len(following) > len(state) else None
        return sorted(found, key=lambda p: (not (last and p.op is last.op), wanted not in ((p.apply(state, last) or ((),))[-1:]),
                                            p.op.begin))

    def run(self):
        for origin, beginning in self.beginnings:
            if self.fits(1, beginning):
                found = self.go_on(beginning)
                if found:
                    self.c.origin = origin
                    return found
        return None

    def go_on(self, beginning):
        """Depth first: (revision, state, part, options that are left, used)."""
        states, parts, used = [None, beginning], [None, None], []
        stack = [self.options(2, beginning, None, used)]
        while stack:
            revision = len(states)
            if revision > self.last:
                return states, parts
            self.steps += 1
            if self.steps > MAX_STEPS:
                self.why = 'the search takes too long'
                return None
            part = next(stack[-1], None)
            if part is None:
                stack.pop()
                states.pop()
                part = parts.pop()
                if part in used:
                    used.remove(part)
                continue
            state = part.apply(states[-1], parts[-1])
            if state is None:
                self.fail(revision, f'{part} cannot follow {show(states[-1])}')
                continue
            if not self.fits(revision, state):
                continue
            states.append(state)
            parts.append(part)
            used.append(part)
            stack.append(self.options(revision + 1, state, part, used))
        return None

    def options(self, revision, state, last, used):
        if revision > self.last:
            return iter(())
        found = self.candidates(revision, state, last, used)
        if not found:
            self.fail(revision, f'no operation can have made revision {revision} of {show(state)}')
        return iter(found)


def show(state):
    words = [text if role == 'user' else f'{role} {text}' for role, text in state[-4:]]
    return f'{len(state)} turns [{"..., " if len(state) > 4 else ""}{", ".join(map(repr, words))}]'
