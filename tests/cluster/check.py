# SPDX-License-Identifier: MIT
"""Checks the record of a run (history.py): does one order of operations explain all that clients were told?

    one order    of the changes of each conversation, by revisions, that fits what each operation was told, and real time: what
                 began after another had ended comes after it (order.py)
    not lost     what was acknowledged is in that order, and in all that was seen later
    not twice    an operation makes its changes once; one that was refused, or whose outcome nobody knows, not at all or once
    expected     with `expect` it changed that very revision; a conflict had a reason
    forks        begin with the turns and tokens that the parent had
    closed       stays closed; nothing else goes away
    apart        nobody is told of conversations, words or names of others
    tokens       a turn has the same tokens wherever it is seen, and they are those that came with the reply
    the same     each reply is that of a lone daemon, token for token, bit for bit
"""
import functools
import re
from collections import Counter, defaultdict

from history import NEVER, History
from order import Bounds, Conversation, Part, Search, Sight, show

WORD = re.compile(r'\b[a-z]{2}[0-9]{7}\b')
CONFLICT = re.compile(r'the conversation is at revision (\d+), not \d+$')
# What no client may be answered, whatever fails.
WRONG = {'corrupt', 'protocol', 'format', 'unsupported', 'system', 'no_memory', 'permission', 'exists'}
# The daemons are small: requests that wait behind a slow link may have all memory that requests share, and then nothing was done.
MAY_BE_LIMIT = re.compile(r'.* takes \d+ bytes of memory; requests share \d+, and \d+ of them are in use$')
MOST_UNSEEN = 3 # changes one behind the other
MAX_SHOWN = 12 # errors of one rule
MAY_BE_INVALID = re.compile(r'cannot drop \d+ turns|turn \d+ of \d+|the conversation is empty') # places that are gone by then


class Checker:
    def __init__(self, lines):
        self.history = History(lines)
        self.operations = list(self.history.operations.values())
        self.errors = []
        self.conversations, self.turns, self.instances = {}, defaultdict(dict), {}
        self.about = defaultdict(list) # conversation: operations
        for op in self.operations:
            self.about[op.conv].append(op)
        self.by_name, self.words = {}, {} # who has it: operation; uid
        self.n_compared = self.n_skipped = self.n_tokens = self.n_guessed = 0

    def bad(self, rule, words):
        self.errors.append((rule, words))

    def run(self):
        self.note_words()
        for op in self.operations:
            self.look_at(op)
        for c in self.conversations.values():
            self.find_maker(c)
        self.find_parts()
        for number in sorted(self.conversations):
            c = self.conversations[number]
            self.explain(c)
            if not c.why:
                self.check_time(c)
                self.check_tokens(c)
        for c in self.conversations.values():
            self.check_end(c)
        for op in self.operations:
            self.check_answer(op)
        self.check_replies()
        self.check_parts()
        return self.errors

    # --- what was told ---

    def note_words(self):
        for op in self.operations:
            for text in op.args.get('text'), op.args.get('name'), op.args.get('system'):
                for word in WORD.findall(text or ''):
                    self.words[word] = op.uid
            if op.op in ('open', 'fork'):
                self.by_name[op.args['name']] = op

    def conversation(self, number, op):
        c = self.conversations.get(number)
        if not c:
            c = self.conversations[number] = Conversation(number, op.uid)
        if c.uid != op.uid:
            self.bad('apart', f'{op} of uid {op.uid} is told of conversation {number} of uid {c.uid}')
        return c

    def look_at(self, op):
        if op.accepted:
            c = self.conversation(op.conv, op)
            c.alive.append(op)
            c.sights.append(Sight(op, op.begin, op.accepted['ns'], op.accepted['revision']))
            if op.op == 'say':
                c.claims[op.accepted['revision']].append(Part(op, 'input'))
        if op.ok and op.op in ('say', 'answer'):
            c = self.conversation(op.conv, op)
            revision = op.result['revision']
            # That it was accepted may have come late, after the reply was stored.
            c.sights.append(Sight(op, op.begin, op.end, revision))
            c.claims[revision].append(Part(op, 'reply'))
            if revision != op.accepted['revision'] + 1:
                self.bad('one order', f'{op}: accepted at revision {op.accepted["revision"]}, done at {revision}')
        elif op.ok and op.op == 'list':
            for told in op.result['list']:
                self.see(op, told)
        elif op.ok and op.op == 'close':
            self.conversation(op.conv, op).closes.append(op)
        elif op.ok:
            c = self.see(op, op.result)
            if op.op == 'rewind' and c:
                c.claims[op.result['revision']].append(Part(op, 'end'))
            if op.op == 'fork':
                self.conversation(op.conv, op).alive.append(op)
            if op.conv is not None and op.op != 'fork' and op.result['id'] != op.conv:
                self.bad('one order', f'{op}: about {op.conv}, answered with {op.result["id"]}')
        at = CONFLICT.match(op.text)
        if op.code == 'conflict' and at and op.conv in self.conversations:
            self.conversations[op.conv].sights.append(Sight(op, op.begin, op.end, int(at[1])))
        if op.code == 'not_found' and op.conv in self.conversations:
            self.conversations[op.conv].gone.append(op)
        elif op.outcome == 'unknown' and op.op == 'close':
            self.conversation(op.conv, op).closes.append(op)

    def see(self, op, told):
        """A conversation, as an answer has it."""
        self.check_own(op, told)
        if told['uid'] != op.uid:
            return None
        c = self.conversation(told['id'], op)
        c.alive.append(op)
        c.names.add(told['name'])
        c.sights.append(Sight(op, op.begin, op.end, told['revision'], told))
        return c

    def check_own(self, op, told):
        if told['uid'] != op.uid:
            self.bad('apart', f'{op} of uid {op.uid} is told of conversation {told["id"]} of uid {told["uid"]}')
        for text in (told['name'], *(turn[3] for turn in told.get('turns', ()))):
            for word in WORD.findall(text):
                if self.words.get(word, op.uid) != op.uid:
                    self.bad('apart', f'{op} of uid {op.uid} is told {text!r}, words of uid {self.words[word]}')

    def find_maker(self, c):
        makers = {name: self.by_name.get(name) for name in c.names}
        if len(makers) != 1:
            self.bad('one order', f'conversation {c.number} has names {sorted(c.names)}')
        for name, maker in makers.items():
            if not maker or maker.uid != c.uid:
                self.bad('one order', f'nobody made conversation {c.number}, {name!r}')
                continue
            if not maker.may_have_happened:
                self.bad('not twice', f'{maker} was refused ({maker.code}), and there is conversation {c.number}')
            c.maker = maker
            if maker.ok and maker.result['id'] != c.number:
                self.bad('not twice', f'{maker} made conversations {maker.result["id"]} and {c.number}')

    def find_parts(self):
        """What may have happened without an answer."""
        for op in self.operations:
            c = self.conversations.get(op.conv)
            if not c or op.ok or op.op not in ('say', 'answer', 'rewind'):
                continue
            if op.op == 'say' and not op.accepted and op.outcome == 'unknown':
                c.maybe.append(Part(op, 'input'))
            if op.op in ('say', 'answer') and op.may_have_happened:
                c.maybe.append(Part(op, 'reply'))
            if op.op == 'rewind' and op.outcome == 'unknown':
                c.maybe.append(Part(op, 'end'))

    # --- one order ---

    def explain(self, c):
        for revision, parts in c.claims.items():
            if len(parts) > 1:
                self.bad('one order', f'conversation {c.number}, revision {revision}: made by {parts}')
                c.why = 'two made one revision'
        self.check_texts(c)
        if not c.maker:
            c.why = 'nobody made it'
        if c.why:
            return
        search = Search(c, list(self.beginnings(c)))
        if c.why: # not an error of its own
            return
        found = search.run()
        unseen = None if found else self.unseen(c)
        if unseen:
            search = Search(c, [unseen])
            found = search.run()
        if not found:
            c.why = search.why
            self.bad('one order', f'conversation {c.number}, revision {search.far}: {search.why}')
            return
        states, parts = found
        c.states = dict(enumerate(states[1:], 1))
        c.made = dict(enumerate(parts[1:], 1))
        self.n_guessed += sum(part is not None and part.op.outcome != 'ok' for part in parts)
        for part in parts[2:]:
            self.check_expected(c, part)

    def check_texts(self, c):
        """What is plain without an order: a clearer word than that there is none."""
        for sight in c.sights:
            if sight.turns and len(set(sight.turns)) < len(sight.turns):
                self.bad('not twice', f'{sight.op}: conversation {c.number} has a turn twice: {show(sight.turns)}')
                c.why = 'a turn twice'
        refused = {('user', op.args['text']): op for op in self.about[c.number]
                   if op.op == 'say' and not op.may_have_happened}
        for sight in c.sights:
            for turn in sight.turns or ():
                if turn in refused:
                    self.bad('not twice', f'{refused[turn]} was refused ({refused[turn].code}), and {sight.op} saw it')
                    c.why = 'a refused operation'

    def beginnings(self, c):
        """Pairs of where turns come from, and the first state."""
        maker = c.maker
        if maker.op == 'open':
            yield None, (('system', maker.args['system']),)
            return
        parent = self.conversations.get(maker.conv)
        if not parent or parent.why:
            seen = next((s.turns for s in c.at(1) if s.turns is not None), None)
            if seen is not None:
                yield None, seen
            else:
                c.why = 'its parent is not explained'
            return
        bounds = Bounds(parent, parent.made)
        until = min([s.end for s in c.sights] + [maker.end])
        done = set()
        for r in sorted((r for r in parent.states if r <= parent.last), reverse=True):
            expect, at = maker.args.get('expect'), maker.args.get('at_turn')
            possible = bounds.earliest[r] <= until and bounds.latest[r + 1] >= maker.begin
            state = parent.states[r] if at is None else parent.states[r][:at]
            if not self.ends_alike(c, parent, r, len(state)):
                continue
            if possible and expect in (None, r) and (at is None or at <= len(parent.states[r])) and state not in done:
                done.add(state)
                yield (parent.number, r, len(state)), state

    def unseen(self, c):
        """As one of beginnings(): of a state of the parent that only this fork tells of, behind changes of which nobody was told."""
        maker, parent = c.maker, self.conversations.get(c.maker.conv)
        if maker.op == 'open' or not parent or parent.why:
            return None
        until = min([s.end for s in c.sights] + [maker.end])
        expect, at = maker.args.get('expect'), maker.args.get('at_turn')

        def go_on(r, more):
            made = parent.made.get(r + 1)
            for part in [made] if made else [p for p in parent.maybe if p not in parent.made.values()]:
                state = part.apply(parent.states[r], parent.made[r]) if part.op.begin <= until and part.expects(r) else None
                if state is None:
                    continue
                parent.states[r + 1], parent.made[r + 1] = state, part
                beginning = state if at is None else state[:at]
                if (expect in (None, r + 1) and (at is None or at <= len(state)) and all(s.n_turns in (None, len(beginning)) for s in c.at(1)) and
                        self.ends_alike(c, parent, r + 1, len(beginning))):
                    return (parent.number, r + 1, len(beginning)), beginning
                found = go_on(r + 1, more - 1) if more else None
                if found or made:
                    return found
                del parent.states[r + 1], parent.made[r + 1]
                self.instances = {key: value for key, value in self.instances.items() if key[:2] != (parent.number, r + 1)}
            return None

        return go_on(max(parent.last, 1), MOST_UNSEEN)

    def ends_alike(self, c, parent, revision, length):
        """Whether the first tokens of a fork may be those of the parent's turns at that revision."""
        known = self.turn(self.instance(parent, revision, length - 1)) if length else {'ends': [(None, 0)]}
        ends = {n for _, n in known.get('ends', ())} | ({known['place'][0][1]} if 'place' in known else set())
        return not ends or all(s.told.get('n_tokens') in (None, *ends) for s in c.at(1))

    def check_expected(self, c, part):
        made = next(r for r, p in c.made.items() if p is part)
        if not part.expects(made - 1):
            self.bad('expected', f'{part} expected revision {part.op.args["expect"]} of conversation {c.number}, and made {made}')

    def check_time(self, c):
        bounds = Bounds(c, c.made)
        for r in range(1, c.last + 1):
            if bounds.earliest[r] > bounds.latest[r]:
                late, early = bounds.because[r]
                self.bad('one order',
                         f'conversation {c.number}, revision {r}: {early} was told of it, or of what follows, and had ended '
                         f'{(bounds.earliest[r] - bounds.latest[r]) / 1e9:.3f} s before {late} began, which made it or saw less')
                return
        for op in self.about[c.number]:
            expect = op.args.get('expect')
            if op.code == 'conflict' and expect is not None and expect <= c.last:
                if bounds.latest[expect] < op.begin and bounds.earliest[expect + 1] > op.end:
                    self.bad('expected', f'{op} expected revision {expect} of conversation {c.number}, which it had, and was a conflict')

    # --- tokens ---

    def instance(self, c, revision, n):
        """The conversation, revision and place that turn n of a state was made with: what forks share is one."""
        key = c.number, revision, n
        found = self.instances.get(key)
        if not found:
            found = self.instances[key] = self.find_instance(c, revision, n)
        return found

    def find_instance(self, c, revision, n):
        if revision > 1 and c.states[revision - 1][n:n + 1] == c.states[revision][n:n + 1]:
            return self.instance(c, revision - 1, n)
        if revision == 1 and c.origin:
            parent, r, length = c.origin
            if n < length:
                return self.instance(self.conversations[parent], r, n)
        return c.number, revision, n

    def check_tokens(self, c):
        for sight in c.sights:
            turns, tokens = sight.told.get('turns'), sight.told.get('tokens')
            state = c.states[sight.revision]
            if turns and sight.told['n_tokens'] != turns[-1][2]:
                self.bad('tokens', f'{sight.op}: {sight.told["n_tokens"]} tokens, and turns end at {turns[-1][2]}')
            if turns and tokens is not None and len(tokens) != turns[-1][2]:
                self.bad('tokens', f'{sight.op}: {len(tokens)} tokens, and turns end at {turns[-1][2]}')
            for n, (role, start, end, text, _, n_generated) in enumerate(turns or ()):
                turn = self.turn(self.instance(c, sight.revision, n))
                self.agree(sight.op, turn, 'place', (start, end))
                self.agree(sight.op, turn, 'text', text)
                if tokens is not None:
                    self.agree(sight.op, turn, 'tokens', tuple(tokens[start:end]))
                if role == 'assistant':
                    self.agree(sight.op, turn, 'n', n_generated)
            if state and sight.told.get('n_tokens') is not None:
                turn = self.turn(self.instance(c, sight.revision, len(state) - 1))
                turn.setdefault('ends', []).append((sight.op, sight.told['n_tokens']))

    def turn(self, instance):
        return self.turns[instance]

    def agree(self, op, turn, name, value):
        if turn.setdefault(name, (value, op))[0] != value:
            self.bad('tokens', f'{op}: the {name} of a turn is {value}; {turn[name][1]} saw {turn[name][0]}')

    # --- there and not there ---

    def absent_from_lists(self, c):
        since = min((s.end for s in c.sights), default=NEVER)
        return [op for op in self.lists[c.uid] if op.begin > since and c.number not in op.numbers]

    @functools.cached_property
    def lists(self):
        found = defaultdict(list)
        for op in self.operations:
            if op.op == 'list' and op.ok and not op.result['more']:
                op.numbers = {told['id'] for told in op.result['list']}
                found[op.uid].append(op)
        return found

    def check_end(self, c):
        gone = c.gone + self.absent_from_lists(c)
        done = [op for op in c.closes if op.ok]
        if len(done) > 1:
            self.bad('closed', f'conversation {c.number}: closed by {done}')
        if not gone and not done:
            return
        first = min(gone + done, key=lambda op: op.end)
        if not c.closes or min(op.begin for op in c.closes) > first.end:
            self.bad('closed', f'conversation {c.number} is gone by {first}, and nobody closed it')
            return
        seen = max(c.alive, key=lambda op: op.begin)
        if seen.begin > first.end:
            self.bad('closed', f'conversation {c.number} was gone by {first}, and {seen}, which began later, found it')

    # --- answers, and what the lone daemon says ---

    def check_answer(self, op):
        allowed = {'invalid': MAY_BE_INVALID, 'limit': MAY_BE_LIMIT}.get(op.code)
        if not allowed.match(op.text) if allowed else op.code in WRONG:
            self.bad('answers', f'{op}: {op.code}: {op.text}')
        if op.ok and op.op == 'fork' and op.result['parent'] != op.conv:
            parent = self.conversations.get(op.conv)
            if not parent or not parent.closes:
                self.bad('forks', f'{op} of {op.conv}: the parent is {op.result["parent"]}')

    def made_replies(self):
        """Operation, conversation, revision of each reply that is in an order."""
        for c in self.conversations.values():
            for revision, part in c.made.items():
                if part and part.kind == 'reply':
                    yield part.op, c, revision

    def check_replies(self):
        for op, c, revision in self.made_replies():
            right = self.history.replays.get(op.id)
            turn = self.turn(self.instance(c, revision, len(c.states[revision]) - 1))
            if not right:
                if op.ok or 'n' in turn:
                    self.bad('the same', f'{op}: no lone daemon has said it')
                continue
            if right.get('skipped'):
                self.n_skipped += 1
                continue
            self.n_compared += 1
            self.n_tokens += len(op.tokens)
            n = len(op.tokens)
            if op.tokens != right['tokens'][:n] or (op.ok and n != len(right['tokens'])):
                self.bad('the same', f'{op}: tokens {op.tokens}, alone {right["tokens"]}')
            elif op.logprobs != right['logprobs'][:n]:
                at = next(i for i in range(n) if op.logprobs[i] != right['logprobs'][i])
                self.bad('the same', f'{op}: log-probability {at} is {op.logprobs[at]:08x}, alone {right["logprobs"][at]:08x}')
            if op.accepted and op.accepted['n_prompt'] != right['n_prompt']:
                self.bad('the same', f'{op}: a prompt of {op.accepted["n_prompt"]} tokens, alone {right["n_prompt"]}')
            if 'tokens' in turn and list(turn['tokens'][0][len(turn['tokens'][0]) - len(right['tokens']):]) != right['tokens']:
                self.bad('the same', f'{op}: it is kept as {turn["tokens"][0]}, alone {right["tokens"]}')
        for turn in self.turns.values():
            for op, n in turn.get('ends', ()):
                if 'place' in turn and turn['place'][0][1] != n:
                    self.bad('tokens', f'{op}: {n} tokens, and its turns end at {turn["place"][0][1]}')

    def check_parts(self):
        for line in self.history.exits:
            if line['status'] < 0:
                self.bad('answers', f'{line["on"]} was ended by signal {-line["status"]}')
            elif line['status'] and line.get('asked'):
                self.bad('answers', f'{line["on"]} was asked to end, and its status is {line["status"]}')
        for line in self.history.verdicts:
            said = line['said']
            if line['status'] or not isinstance(said, dict) or said['found'] or said['problems']:
                self.bad('answers', f'{line["on"]}: check: {said}')

    # --- figures ---

    def figures(self):
        outcomes = Counter(op.outcome for op in self.operations)
        kinds = Counter(op.op for op in self.operations)
        faults = Counter(line['kind'] for line in self.history.faults if line['phase'] == 'begin')
        refused = Counter(op.code for op in self.operations if op.outcome == 'fail')
        lost = Counter(op.code for op in self.operations if op.outcome == 'unknown')
        turns = sum(op.accepted is not None and op.op == 'say' for op in self.operations) + sum(
            op.ok and op.op in ('say', 'answer') for op in self.operations)
        yield f'faults: {sum(faults.values())} ({listing(faults)})'
        yield f'operations: {len(self.operations)} ({listing(kinds)})'
        yield (f'acknowledged {outcomes["ok"]}, refused {outcomes["fail"]} ({listing(refused)}), '
               f'unknown {outcomes["unknown"]} ({listing(lost)})')
        yield (f'conversations: {len(self.conversations)}; acknowledged turns: {turns}; '
               f'changes found without an acknowledgement: {self.n_guessed}')
        accepted = [op.accepted for op in self.operations if op.accepted]
        memory = {name: sum(line.get(f'n_{name}', 0) for line in accepted) for name in ('ram', 'shared', 'disk', 'computed')}
        yield f'tokens of prompts: {", ".join(f"{name} {n}" for name, n in memory.items())}; parts that ended by themselves: ' + (
            f'{sum(not line.get("asked") for line in self.history.exits)}')
        yield f'replies compared with the lone daemon: {self.n_compared}, {self.n_tokens} log-probabilities; {self.n_skipped} could not be'


def listing(counter):
    return ', '.join(f'{key} {n}' for key, n in counter.most_common())


def report(lines):
    """Prints it; whether something is wrong."""
    checker = Checker(lines)
    errors = checker.run()
    for words in checker.figures():
        print(words)
    rules = Counter(rule for rule, _ in errors)
    for rule, n in rules.items():
        for words in [words for other, words in errors if other == rule][:MAX_SHOWN]:
            print(f'ERROR: {rule}: {words}')
        if n > MAX_SHOWN:
            print(f'ERROR: {rule}: {n - MAX_SHOWN} more')
    print(f'errors: {len(errors)}')
    return bool(errors)
