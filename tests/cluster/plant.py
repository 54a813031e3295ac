# SPDX-License-Identifier: MIT
"""The checker finds errors: each is planted, alone, in a history that has none, and must be reported by its rule."""
import copy
import json
from collections import defaultdict

from check import Checker


class Field:
    """A copy of a history, and its operations by what they are."""

    def __init__(self, lines):
        self.lines = lines
        self.calls = {line['id']: line for line in lines if line['t'] == 'call'}
        self.ends = {line['id']: line for line in lines if line['t'] in ('ok', 'fail', 'unknown')}
        self.accepted = {line['id']: line for line in lines if line['t'] == 'accepted'}
        self.compared = {line['op'] for line in lines if line['t'] == 'replay' and not line.get('skipped')}

    def done(self, *kinds, outcome='ok'):
        """Calls with their ends, in the order in which they began."""
        return [(call, self.ends[number]) for number, call in self.calls.items()
                if call['op'] in kinds and number in self.ends and self.ends[number]['t'] == outcome]

    def views(self, conv=None):
        """Answers of get."""
        return [(call, end) for call, end in self.done('get') if 'turns' in end['r'] and conv in (None, call['conv'])]

    def last_views(self):
        """The last answers about each conversation: all at its last revision."""
        last = {}
        for _, end in self.views():
            last[end['r']['id']] = end['r']['revision']
        found = defaultdict(list)
        for _, end in self.views():
            if end['r']['revision'] == last[end['r']['id']]:
                found[end['r']['id']].append(end['r'])
        return found

    def tells(self):
        """All that is told of conversations: answers, and lines of lists."""
        for _, end in self.done('open', 'fork', 'rewind', 'get'):
            yield end['r']
        for _, end in self.done('list'):
            yield from end['r']['list']


def cut(told, first, n=2):
    """Without n turns from the first on; those behind move up."""
    gone = told['turns'][first + n - 1][2] - told['turns'][first][1]
    begin = told['turns'][first][1]
    if 'tokens' in told:
        del told['tokens'][begin:begin + gone]
    del told['turns'][first:first + n]
    for turn in told['turns'][first:]:
        turn[1] -= gone
        turn[2] -= gone
    told['n_turns'] -= n
    told['n_tokens'] -= gone


def pairs(told):
    """Numbers of messages that have a reply."""
    turns = told['turns']
    return [i for i in range(len(turns) - 1) if turns[i][0] == 'user' and turns[i + 1][0] == 'assistant']


def lost_turn(field):
    """A turn that was acknowledged is not there in the end, at any daemon; lists agree."""
    for views in field.last_views().values():
        if pairs(views[0]):
            revision, number = views[0]['revision'], views[0]['id']
            for told in views:
                cut(told, pairs(told)[-1])
            for told in field.tells():
                if told['id'] == number and told['revision'] == revision and 'turns' not in told:
                    told.update(n_turns=views[0]['n_turns'], n_tokens=views[0]['n_tokens'])
            return True
    return False


def lost_with_its_revision(field):
    """In the end a conversation is as it was before the last reply to a message, revision and all."""
    for number, views in field.last_views().items():
        told = views[0]
        reply = next((call for call, end in field.done('say') if call['conv'] == number and end['r']['revision'] == told['revision']), None)
        if reply and pairs(told):
            now = told['revision']
            for other in [t for t in field.tells() if t['id'] == number and t['revision'] == now and 'turns' in t]:
                cut(other, pairs(other)[-1])
                other['revision'] = now - 2
            return True
    return False


def ends_with_pair(told):
    return pairs(told)[-1:] == [len(told['turns']) - 2]


def double_last(views):
    """The last message and its reply, with revisions for it."""
    for told in views:
        turns = copy.deepcopy(told['turns'][-2:])
        size = turns[1][2] - turns[0][1]
        if 'tokens' in told:
            told['tokens'] += told['tokens'][-size:]
        told['turns'] += [[role, start + size, end + size, *rest] for role, start, end, *rest in turns]
        told['n_turns'], told['n_tokens'], told['revision'] = told['n_turns'] + 2, told['n_tokens'] + size, told['revision'] + 2


def applied_twice(field):
    """The last message and its reply are there twice, with revisions for it."""
    for views in field.last_views().values():
        if ends_with_pair(views[0]):
            double_last(views)
            return True
    return False


def reply_twice(field):
    """A reply makes two revisions: all that follows is one later."""
    for call, end in field.done('say'):
        later = [t for t in field.tells() if t['id'] == call['conv'] and t['revision'] > end['r']['revision']]
        if later:
            for told in later:
                told['revision'] += 1
            for number, line in field.accepted.items():
                if field.calls[number]['conv'] == call['conv'] and line['revision'] >= end['r']['revision']:
                    line['revision'] += 1
            for other, done in field.done('say', 'answer'):
                if other['conv'] == call['conv'] and done['r']['revision'] > end['r']['revision']:
                    done['r']['revision'] += 1
            return True
    return False


def changed_token(field):
    for call, end in field.done('say'):
        if call['id'] in field.compared and end['r']['tokens']:
            end['r']['tokens'][0] ^= 1
            return True
    return False


def changed_kept_token(field):
    """What is kept of a reply is not what came."""
    for _, end in field.views():
        if 'tokens' in end['r'] and pairs(end['r']):
            end['r']['tokens'][end['r']['turns'][pairs(end['r'])[0] + 1][2] - 1] ^= 1
            return True
    return False


def flipped_bit(field):
    for call, end in field.done('say'):
        if call['id'] in field.compared and end['r']['logprobs']:
            end['r']['logprobs'][-1] ^= 1
            return True
    return False


def longer_prompt(field):
    for line in field.accepted.values():
        if line['id'] in field.compared and field.ends[line['id']]['t'] == 'ok':
            line['n_prompt'] += 1
            return True
    return False


def foreign_in_list(field):
    lists = field.done('list')
    for call, end in lists:
        for other, theirs in lists:
            if call['uid'] != other['uid'] and theirs['r']['list']:
                end['r']['list'].append(theirs['r']['list'][0])
                return True
    return False


def foreign_renumbered(field):
    """The same, and the list says that it is one's own."""
    lists = field.done('list')
    for call, end in lists:
        for other, theirs in lists:
            if call['uid'] != other['uid'] and theirs['r']['list']:
                end['r']['list'].append({**theirs['r']['list'][0], 'uid': call['uid']})
                return True
    return False


def foreign_text(field):
    for call, end in field.views():
        for turn in end['r']['turns']:
            theirs = next((c['text'] for c in field.calls.values() if c['op'] == 'say' and c['uid'] != call['uid']), None)
            if turn[0] == 'user' and theirs:
                turn[3] = theirs
                return True
    return False


def foreign_reply(field):
    """Somebody else's word in what the assistant said."""
    for call, end in field.views():
        for turn in end['r']['turns']:
            theirs = next((c['name'] for c in field.calls.values() if c['op'] == 'open' and c['uid'] != call['uid']), None)
            if turn[0] == 'assistant' and theirs:
                turn[3] += f' {theirs}'
                return True
    return False


def older_revision(field):
    """A later get answers what an earlier one, of an earlier revision, did."""
    for call, end in field.views():
        for later, then in field.views(call['conv']):
            acknowledged = [e['ns'] for c, e in field.done('say') if c['conv'] == call['conv'] and
                            e['r']['revision'] > end['r']['revision'] and e['ns'] < later['ns']]
            if end['ns'] < later['ns'] and acknowledged:
                then['r'] = copy.deepcopy(end['r'])
                return True
    return False


def stale_list(field):
    """A list that began after a turn was acknowledged does not know it."""
    for call, end in field.done('list'):
        for told in end['r']['list']:
            before = [t for c, e in field.done('get', 'rewind', 'open') for t in [e['r']]
                      if t['id'] == told['id'] and t['revision'] < told['revision'] and e['ns'] < call['ns']]
            known = any(e['ns'] < call['ns'] for c, e in field.done('say') if c['conv'] == told['id'] and
                        e['r']['revision'] == told['revision'])
            if before and known:
                told.update({key: before[-1][key] for key in ('revision', 'n_turns', 'n_tokens')})
                return True
    return False


def comes_back(field):
    """A conversation whose close was acknowledged is in a later list."""
    for call, end in field.done('close'):
        told = next((t for t in field.tells() if t['id'] == call['conv']), None)
        for other, then in field.done('list'):
            if told and other['uid'] == call['uid'] and other['ns'] > end['ns']:
                last = max((t for t in field.tells() if t['id'] == call['conv']), key=lambda t: t['revision'])
                then['r']['list'].append({k: v for k, v in last.items() if k not in ('turns', 'tokens')})
                return True
    return False


def vanishes(field):
    """A list without a conversation that nobody closed."""
    closed = {call['conv'] for call in field.calls.values() if call['op'] == 'close'}
    for call, end in reversed(field.done('list')):
        for told in end['r']['list']:
            if told['id'] not in closed:
                end['r']['list'].remove(told)
                return True
    return False


def expectation_ignored(field):
    for call, end in field.done('say', 'rewind'):
        if call.get('expect'):
            call['expect'] -= 1
            return True
    return False


def expectation_of_fork_ignored(field):
    """It expected a revision that was over long before."""
    for call, end in field.done('fork'):
        old = [e['r']['revision'] for c, e in field.done('say') if c['conv'] == call['conv'] and e['ns'] < call['ns']]
        if old and call.get('at_turn') != 1:
            call['expect'] = 1
            return True
    return False


def conflict_without_reason(field):
    """The last revision was expected, and refused."""
    for number, views in field.last_views().items():
        view = max(((c, e) for c, e in field.views(number)), key=lambda pair: pair[0]['ns'])
        call, end = view
        first = min(e['ns'] for _, e in field.views(number) if e['r']['revision'] == views[0]['revision'])
        made = [e['r']['revision'] for c, e in field.done('say', 'answer', 'rewind') if c['conv'] == number]
        made += [line['revision'] for i, line in field.accepted.items() if field.calls[i]['conv'] == number]
        if first < call['ns'] and max(made, default=0) <= views[0]['revision']:
            call.update(op='rewind', turns=1, expect=views[0]['revision'])
            end.update(t='fail', code='conflict', text='', r={})
            return True
    return False


def refused_happened(field):
    """A message that was refused is in the conversation."""
    for call, end in field.done('say'):
        if any(call['text'] == turn[3] for _, e in field.views(call['conv']) for turn in e['r']['turns']):
            field.lines.remove(field.accepted[call['id']])
            end.update(t='fail', code='busy', text='', r={})
            return True
    return False


def refused_rewind_happened(field):
    """What was answered with `unavailable` was done."""
    for _, end in field.done('rewind'):
        if any(told is not end['r'] and told['id'] == end['r']['id'] and told['revision'] >= end['r']['revision']
               for told in field.tells()):
            end.update(t='fail', code='unavailable', text='PostgreSQL: a statement: no answer within the time', r={})
            return True
    return False


def unknown_twice(field):
    """A message whose outcome nobody knows is there twice."""
    for views in field.last_views().values():
        call = ends_with_pair(views[0]) and next((c for c, _ in field.done('say') if c['text'] == views[0]['turns'][-2][3]), None)
        if call:
            double_last(views)
            field.lines.remove(field.accepted[call['id']])
            field.ends[call['id']].update(t='unknown', code='disconnected', text='', r={})
            return True
    return False


def two_at_once(field):
    """Two machines made the same revision."""
    says = field.done('say')
    for call, end in says:
        for other, then in says:
            if call['id'] < other['id'] and call['conv'] == other['conv'] and 'expect' not in other:
                field.accepted[other['id']]['revision'] = field.accepted[call['id']]['revision']
                then['r']['revision'] = end['r']['revision']
                return True
    return False


def other_fork(field):
    """A fork does not have what the parent had."""
    for call, end in field.done('fork'):
        for _, then in field.views(end['r']['id']):
            turns = then['r']['turns']
            parent = {turn[3] for _, e in field.views(call['conv']) for turn in e['r']['turns']}
            if turns and turns[0][3] in parent and turns[0][0] != 'assistant':
                turns[0][3] = 'You answer in a sentence.'
                return True
    return False


def crashed(field):
    field.lines.append({'t': 'exit', 'ns': field.lines[-1]['ns'], 'on': 'd1', 'status': -11})
    return True


def damaged(field):
    for line in field.lines:
        if line['t'] == 'verdict':
            line['said'] = {'found': 1, 'problems': ['a turn is damaged']}
            return True
    return False


def not_compared(field):
    for line in field.lines:
        if line['t'] == 'replay' and line['op'] in field.compared and field.ends[line['op']]['t'] == 'ok':
            field.lines.remove(line)
            return True
    return False


# What is planted, and the rules that may report it.
PLANTS = {
    lost_turn: ('one order',),
    lost_with_its_revision: ('one order',),
    applied_twice: ('not twice',),
    reply_twice: ('one order', 'expected'),
    changed_token: ('the same',),
    changed_kept_token: ('the same', 'tokens'),
    flipped_bit: ('the same',),
    longer_prompt: ('the same',),
    foreign_in_list: ('apart',),
    foreign_renumbered: ('apart',),
    foreign_text: ('apart',),
    foreign_reply: ('apart',),
    older_revision: ('one order',),
    stale_list: ('one order',),
    comes_back: ('closed',),
    vanishes: ('closed',),
    expectation_ignored: ('expected',),
    expectation_of_fork_ignored: ('one order',),
    conflict_without_reason: ('expected',),
    refused_happened: ('not twice',),
    refused_rewind_happened: ('one order',),
    unknown_twice: ('not twice',),
    two_at_once: ('one order',),
    other_fork: ('one order',),
    crashed: ('answers',),
    damaged: ('answers',),
    not_compared: ('the same',)}


def report(lines, strict=True):
    """Prints what became of each; whether something is wrong: with strict, too, that there was no place for one."""
    text = json.dumps(lines)
    wrong, n_planted = 0, len(PLANTS)
    errors = Checker(json.loads(text)).run()
    if errors:
        print(f'FAILED: the history that should have no errors has some: {errors[:3]}')
        return True
    for plant, rules in PLANTS.items():
        field = Field(json.loads(text))
        if not plant(field):
            print(f'not planted: {plant.__name__}: the history has no place for it')
            wrong += strict
            n_planted -= 1
            continue
        errors = Checker(field.lines).run()
        found = [error for error in errors if error[0] in rules]
        if not found:
            print(f'FAILED: {plant.__name__} is not found: {errors[:3]}')
            wrong += 1
    print(f'planted errors: {n_planted}, missed {wrong}')
    return bool(wrong)
