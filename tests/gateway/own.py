#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""own.py: /confab/v1 over the real gateway and daemon: every route, streams that break and go on, and what is refused."""
import json
import os
import signal
import sys
import urllib.parse

sys.dont_write_bytecode = True
import rig

BASE = '/confab/v1'
ALL = BASE + '/conversations'
GREEDY = {'temperature': 0}
NORA = 'Nice to meet you, Nora!'
HISTOGRAMS = ['queue', 'restore', 'prefill', 'decode', 'token', 'commit', 'first_token']


def path(conversation, verb='', **query):
    name = conversation if isinstance(conversation, (int, str)) else conversation['id']
    text = f'{ALL}/{urllib.parse.quote(str(name), safe="")}' + (f'/{verb}' if verb else '')
    return text + ('?' + urllib.parse.urlencode(query) if query else '')


def ok(answer, status=200):
    got, fields, body = answer
    rig.need(got == status, (got, body))
    return body


def opened(r, **fields):
    return ok(r.post(ALL, fields), 201)


def say(r, conversation, text, **more):
    """A reply as one object."""
    return ok(r.post(path(conversation, 'continue'),
                     {'message': text, 'sampling': GREEDY, 'max_tokens': 40, 'stream': False, **more}))


def get(r, conversation, **query):
    return ok(r.get(path(conversation, **query)))


def refused(answer, status, words, param=None, code=None):
    got, _, body = answer
    rig.need(got == status and list(body) == ['error'], (got, body))
    error = body['error']
    rig.need(sorted(error) == ['code', 'message', 'param', 'retry'], error)
    rig.need(words in error['message'] and error['param'] == param, error)
    rig.need(code is None or error['code'] == code, error)
    return error


def told(response):
    """Of a stream: (id, name, data)."""
    at, name, data = None, None, None
    for line in response:
        line = line.decode().rstrip('\n')
        if line.startswith('id: '):
            at = line[4:]
        elif line.startswith('event: '):
            name = line[7:]
        elif line.startswith('data: '):
            data = json.loads(line[6:])
        elif not line and data is not None:
            rig.need(data['event'] == name, (name, data))
            yield at, name, data
            at, name, data = None, None, None


class Stream:
    """A stream that is read event by event, and may be cut."""

    def __init__(self, r, method, where, body=None, **fields):
        self.connection = r.connect()
        self.response = rig.ask(self.connection, method, where, body, **fields)
        if self.response.status != 200:
            raise AssertionError((self.response.status, self.response.read()))
        rig.need(self.response.headers['Content-Type'] == 'text/event-stream', self.response.headers)
        self.events = told(self.response)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.response.close()
        self.connection.close()

    def until(self, *names):
        """The events up to one of these names or kinds."""
        seen = []
        for event in self.events:
            seen.append(event)
            if event[1] in names or event[2].get('kind') in names:
                return seen
        raise AssertionError(f'the stream ended behind {seen}')


def texts(events):
    return ''.join(data['text'] for _, name, data in events if name == 'delta')


def test_models(r):
    models = ok(r.get(BASE + '/models'))
    rig.need(models['uid'] == os.getuid() and models['software'].startswith('confab '), models)
    one, = models['models']
    rig.need(one['name'] == 'confab-small' and one['default'] and one['reachable'] and one['context'] == 2048, one)
    model = ok(r.get(BASE + '/model'))
    rig.need(model['fingerprint'] == one['fingerprint'] and model['block_bytes'] > 0 and model['reasons'] is False, model)
    native = json.loads(r.confab('--json', 'model'))
    rig.need(set(native) == set(model), set(native) ^ set(model))


def test_stats(r):
    stats = ok(r.get(BASE + '/stats'))
    rig.need(set(stats) == set(r.stats()) and all(isinstance(stats[name], int) for name in r.figures()), stats)
    rig.need(stats['all_users'] is True and [h['name'] for h in stats['histograms']] == HISTOGRAMS and 'users' not in stats, stats)
    rig.need(stats['own']['uid'] == os.getuid() and len(stats['rates']) == len(stats['own_rates']) == 3, stats)
    stats = ok(r.get(BASE + '/stats?with_users'))
    rig.need([user['uid'] for user in stats['users']] == [os.getuid()] and stats['more_users'] is False, stats)
    stats = ok(r.get(BASE + '/stats?uid=4100000001&tenant=pat'))
    rig.need(stats['all_users'] is False and stats['own']['uid'] == 4100000001 and stats['own']['tenant'] == 'pat', stats)
    status, _, body = r.get(BASE + '/stats?tenant=pat')
    rig.need(status == 400 and 'uid' in body['error']['message'], body)


def test_quota(r):
    quota = ok(r.get(BASE + '/quota'))
    limits = {limit['name']: limit for limit in quota['limits']}
    rig.need(len(limits) == 7 and quota['more'] is False, quota)
    rig.need(limits['max-conversations']['uid'] == os.getuid() and limits['max-conversations']['value'] > 0, quota)
    rig.need(limits['max-user-tokens']['value'] is None and limits['max-user-tokens']['origin'] == 'setting', quota)
    rig.need(limits['max-user-tokens-per-day']['renews_usec'] % 86400000000 == 0, quota)


def test_tokenize(r):
    answer = ok(r.post(BASE + '/tokenize', {'text': 'My name is Nora.'}))
    rig.need(''.join(answer['pieces']) == 'My name is Nora.' and len(answer['tokens']) == len(answer['pieces']), answer)
    special = ok(r.post(BASE + '/tokenize', {'text': '<|im_end|>', 'special': True}))
    rig.need(len(special['tokens']) == 1, special)
    rig.need(ok(r.post(BASE + '/tokenize', {'text': ''})) == {'tokens': [], 'pieces': []}, 'empty')


def test_conversation(r):
    """From open to close, told in the words of the command."""
    status, fields, made = r.post(ALL, {'name': 'first', 'system': 'You are brief.', 'sampling': {'seed': '18446744073709551615'},
                                        'overflow': 'shift',
                                        'about': {'title': 'One', 'tags': ['a', 'b'], 'metadata': {'k': [1]}, 'session': 's'}})
    rig.need(status == 201 and fields['Location'] == path(made), (status, made))
    rig.need(made['name'] == 'first' and made['overflow'] == 'shift' and made['sampling'] == {'seed': '18446744073709551615'}, made)
    rig.need(made['about'] == {'title': 'One', 'tags': ['a', 'b'], 'metadata': '{"k":[1]}', 'session': 's'}, made)
    reply = say(r, 'first', 'My name is Nora.')
    rig.need(reply['text'] == NORA and reply['done']['finish'] == 'stop' and isinstance(reply['done']['seed'], str), reply)
    rig.need(reply['accepted']['conversation'] == made['id'] and len(reply['tokens']) == reply['done']['n_generated'], reply)
    shown = get(r, made, turns=1, tokens='true', parts='')
    rig.need([turn['role'] for turn in shown['turns']] == ['system', 'user', 'assistant'], shown)
    rig.need(shown['turns'][2]['text'] == NORA and shown['turns'][2]['parts'][0]['kind'] == 'text', shown)
    rig.need(len(shown['tokens']) == shown['n_tokens'] and shown['revision'] == reply['done']['revision'], shown)
    native = json.loads(r.confab('--json', 'show', '--tokens', 'first'))
    for name in set(native) - {'sampling', 'turns', 'ram_bytes', 'disk_bytes', 'residency'}:
        rig.need(native[name] == shown[name], (name, native[name], shown[name]))
    page = get(r, made, turns=1, max_turns=1, before_turn=2)
    rig.need([turn['turn'] for turn in page['turns']] == [1] and 'tokens' not in page, page)
    changed = ok(r.request('PATCH', path(made), {'name': 'second', 'sampling': {'temperature': 0.25, 'logit_bias': [{'token': 5, 'bias': None}]},
                                                 'overflow': 'error', 'about': {'title': '', 'expires_after': 3600, 'tags': []}}))
    rig.need(changed['name'] == 'second' and changed['sampling']['temperature'] == 0.25, changed)
    rig.need(changed['sampling']['seed'] == '18446744073709551615', 'what is not set stays')
    other = opened(r, sampling={'seed': '7', 'top_k': 3})
    rig.need(ok(r.request('PATCH', path(other), {'sampling': {'top_k': 4}, 'reset_sampling': True}))['sampling'] == {'top_k': 4}, 'but here')
    rig.need(ok(r.request('PATCH', path(other), {'reset_sampling': True}))['sampling'] == {} and get(r, other)['sampling'] == {}, 'all')
    rig.need(changed['sampling']['logit_bias'] == [{'token': 5, 'bias': None}] and changed['overflow'] == 'error', changed)
    rig.need('title' not in changed['about'] and changed['about']['expires_after'] == 3600, changed)
    rig.need(ok(r.request('DELETE', path('second'))) == {}, 'closed')
    refused(r.get(path(made)), 404, 'no conversation', code='not_found')


def test_names(r):
    for name in 'Grüße, Welt', 'a/b', '-', '..', 'continue':
        made = opened(r, name=name)
        found = ok(r.get(f'{ALL}/-?' + urllib.parse.urlencode({'conversation': name})))
        rig.need(found['id'] == made['id'] and found['name'] == name, found)
        if name not in ('a/b', '..'):
            rig.need(get(r, name)['id'] == made['id'], name)
        ok(r.request('DELETE', path(made)))
    for number in '0', '99999999999999999999999', '77777':
        refused(r.get(path(number)), 404, 'no conversation')


def test_list(r):
    made = [opened(r, name=f'list-{i}', about={'tags': ['listed'], 'title': f'Number {i}'}) for i in range(5)]
    say(r, 'list-1', 'My name is Nora.')
    ids, query = [], {'tag': 'listed', 'limit': 2, 'order': 'id'}
    while True:
        page = ok(r.get(f'{ALL}?' + urllib.parse.urlencode(query)))
        ids += [one['id'] for one in page['conversations']]
        if not page['more']:
            break
        query['cursor'] = page['cursor']
    rig.need(ids == [one['id'] for one in made], ids)
    page = ok(r.get(f'{ALL}?tag=listed&order=updated&limit=1'))
    rig.need(page['conversations'][0]['name'] == 'list-1' and page['more'], page)
    page = ok(r.get(f'{ALL}?search=nora'))
    rig.need([one['name'] for one in page['conversations']] == ['list-1'], page)
    rig.need('Nora' in page['conversations'][0]['hit']['snippet'], page)
    page = ok(r.get(f'{ALL}?after_id={made[3]["id"]}'))
    rig.need([one['id'] for one in page['conversations']] == ids[4:], page)
    rig.need(len(ok(r.get(f'{ALL}?all_users=true&tag=listed'))['conversations']) == 5, 'all users')
    for one in made:
        ok(r.request('DELETE', path(one)))


def test_stream(r):
    """What a stream tells is what one object tells, and its ids say where it is."""
    made = opened(r)
    with Stream(r, 'POST', path(made, 'continue'), {'message': 'My name is Nora.', 'sampling': GREEDY, 'want_parts': True,
                                                    'want_logprobs': True, 'logprobs': 2}) as stream:
        events = stream.until('done')
        rig.need(list(stream.events) == [], 'nothing behind done')
    rig.need(texts(events) == NORA and events[0][1] == 'accepted', events)
    revision = str(events[0][2]['revision'])
    rig.need(events[0][0] == revision and events[-1][0] == revision + '-end', events)
    deltas = [(at, data) for at, name, data in events if name == 'delta']
    rig.need(all(at == f'{revision}-{data["position"]}' for at, data in deltas), deltas)
    tokens = [token for _, data in deltas for token in data['tokens']]
    rig.need(len(tokens) == events[-1][2]['n_generated'] and all(len(token['top']) == 2 for token in tokens), tokens)
    whole = say(r, opened(r), 'My name is Nora.', want_parts=True, want_logprobs=True, logprobs=2)
    rig.need(whole['text'] == NORA and whole['tokens'] == tokens, whole)
    part, = whole['parts']
    rig.need(part == {'index': 0, 'kind': 'text', 'text': NORA, 'ends': True}, part)


def test_attach(r):
    """A connection that is cut during a detached reply, and goes on where it was."""
    made = opened(r)
    body = {'message': 'Count.', 'sampling': GREEDY, 'ignore_eos': True, 'max_tokens': 400, 'detach': True}
    with Stream(r, 'POST', path(made, 'continue'), body) as stream:
        events = stream.until('delta')
        events += stream.until('delta')
    at = events[-1][0]
    rig.need(get(r, made)['generating'] or get(r, made)['n_turns'] == 2, 'it goes on')
    while True: # each connection breaks behind its second delta
        with Stream(r, 'GET', path(made, 'attach'), Last_Event_ID=at) as stream:
            more = stream.until('accepted')
            rig.need(more[0][0] == at, (more, at))
            more += stream.until('delta', 'done')
            if more[-1][1] != 'done':
                more += stream.until('delta', 'done')
            events += more
            if more[-1][1] == 'done':
                break
            at = [event[0] for event in more if event[1] == 'delta'][-1]
    rig.need(texts(events) == get(r, made, turns=1)['turns'][1]['text'], 'nothing is missed or told twice')
    with Stream(r, 'GET', path(made, 'attach')) as stream:
        rig.need(texts(stream.until('done')) == texts(events), 'from the beginning')
    whole = ok(r.get(path(made, 'attach', stream='false', want_parts='true')))
    rig.need(whole['text'] == texts(events) and whole['parts'][0]['kind'] == 'text', whole)
    # what an EventSource asks for when the stream has ended
    rig.need(r.get(path(made, 'attach'), Last_Event_ID=events[-1][0])[0] == 204, 'the end')
    refused(r.get(path(made, 'attach'), Last_Event_ID='77777-3'), 409, '', code='conflict')
    refused(r.get(path(made, 'attach'), Last_Event_ID='x'), 400, 'Last-Event-ID')
    refused(r.get(path(made, 'attach', position=1)), 400, 'position')
    refused(r.get(path(opened(r), 'attach')), 400, '', code='state')


def test_stops(r):
    made = opened(r)
    rig.need(say(r, made, 'My name is Nora.', stop=['meet'])['text'] == 'Nice to ', 'list')
    with Stream(r, 'GET', path(made, 'attach', stop='["meet"]')) as stream:
        events = stream.until('done')
    rig.need(texts(events) == 'Nice to ', events)
    at = [event[0] for event in events if event[1] == 'delta'][0].split('-')[1]
    with Stream(r, 'GET', path(made, 'attach', stop='meet', position=at)) as stream:
        rest = texts(stream.until('done'))
    rig.need(texts(events[:2]) + rest == 'Nice to ', rest)
    rig.need(say(r, opened(r), 'My name is Nora.', stop='meet')['text'] == 'Nice to ', 'one')


def test_inputs(r):
    made = opened(r)
    reply = say(r, made, None, messages=[{'role': 'system', 'text': 'You are brief.'}, {'role': 'user', 'text': 'My name is Nora.'}])
    rig.need(reply['text'] == NORA, reply)
    reply = say(r, made, None, given={'text': 'It is Nora.'}, max_tokens=0)
    rig.need(reply['text'] == '' and get(r, made)['n_turns'] == 4, reply)
    raw = opened(r)
    say(r, raw, None, raw='<|im', max_tokens=3)
    say(r, raw, None, raw_hex='c328', max_tokens=0)
    turns = get(r, raw, turns=1)['turns']
    rig.need(turns[0]['role'] == 'raw' and turns[0]['text'] == '<|im' and turns[-1]['hex'] == 'c328', turns)
    tokens = opened(r)
    say(r, tokens, None, tokens=[5, 6, 7], max_tokens=0)
    rig.need(get(r, tokens, tokens=1)['tokens'][-3:] == [5, 6, 7], 'tokens')
    # what is there already is answered, and answered anew
    made = opened(r)
    say(r, made, 'My name is Nora.', max_tokens=0)
    rig.need(get(r, made)['unanswered'], 'unanswered')
    rig.need(say(r, made, None, nothing=True)['text'] == NORA, 'nothing')
    again = say(r, made, None, nothing=True, at_turn=1, expect_revision=get(r, made)['revision'])
    rig.need(again['text'] == NORA and get(r, made)['n_turns'] == 2, again)
    rig.need(say(r, made, 'x', role='system', max_tokens=0)['done']['n_generated'] == 0, 'role')
    reply = say(r, made, 'A number', json_schema={'const': 7})
    rig.need(reply['text'] == '7', reply)
    rig.need(say(r, made, 'A word', gbnf='root ::= "no"')['text'] == 'no', 'gbnf')


def test_branches(r):
    made = opened(r, name='trunk')
    say(r, made, 'My name is Nora.')
    say(r, made, 'What is my name?')
    status, fields, child = r.post(path(made, 'fork'), {'name': 'branch', 'at_turn': 2, 'about': {'title': 'B'}})
    rig.need(status == 201 and fields['Location'] == path(child), fields)
    rig.need(child['parent'] == made['id'] and child['n_turns'] == 2 and child['about']['title'] == 'B', child)
    before = get(r, child)['revision']
    refused(r.post(path(child, 'rewind'), {'turns': 1, 'expect_revision': before + 1}), 409, '', code='conflict')
    rig.need(ok(r.post(path(child, 'rewind'), {'turns': 1}))['n_turns'] == 1, 'rewind')
    position = get(r, made, turns=1)['turns'][2]['end']
    rig.need(ok(r.post(path(made, 'rewind'), {'at_position': position}))['n_tokens'] == position, 'position')
    rig.need(ok(r.post(path(made, 'fork'), None), 201)['n_turns'] == 3, 'no body')
    found = ok(r.post(BASE + '/find', {'messages': [{'role': 'user', 'text': 'My name is Nora.'},
                                                    {'role': 'assistant', 'text': NORA}, {'role': 'user', 'text': 'x'}],
                                       'conversation': 'trunk'}))
    rig.need(found['conversation']['name'] == 'trunk' and (found['at_turn'], found['n_messages']) == (2, 2), found)
    found = ok(r.post(BASE + '/find', {'messages': [{'role': 'user', 'text': 'never said'}], 'session': 's'}))
    rig.need(found == {'conversation': None, 'at_turn': 0, 'n_messages': 0, 'other_session': False}, found)
    found = ok(r.post(BASE + '/find', {'messages': [{'role': 'user', 'text': 'x'}], 'conversation': made['id']}))
    rig.need(found['conversation']['id'] == made['id'] and found['at_turn'] == 0, found)


def test_memory(r):
    made = opened(r)
    say(r, made, 'My name is Nora.')
    rig.need(ok(r.post(path(made, 'evict'), {}))['residency'] == 'spilled', 'evict')
    rig.need(ok(r.post(path(made, 'warm'), {}))['residency'] == 'resident', 'warm')
    rig.need(ok(r.post(path(made, 'publish'), {'at_turn': 1}))['n_published'] > 0, 'publish')
    rig.need(ok(r.post(path(made, 'publish'), {'off': True}))['n_published'] == 0, 'off')
    rig.need('carried' not in ok(r.post(path(made, 'carry'), {})), 'carry')
    rig.need(ok(r.request('PATCH', path(made), {'pinned': True}))['pinned'] is True, 'pinned')
    rig.need(get(r, made)['pinned'] is True and 'pinned' not in opened(r), 'told where it is so')
    rig.need(ok(r.request('PATCH', path(made), {'overflow': 'shift'}))['pinned'] is True, 'stays')
    rig.need('pinned' not in ok(r.request('PATCH', path(made), {'pinned': False})), 'unpinned')
    refused(r.request('PATCH', path(made), {'pinned': 1}), 400, 'true or false', param='pinned')
    rig.need(ok(r.post(path(made, 'cancel'), {})) == {}, 'nothing to cancel')


def test_cancel(r):
    made = opened(r)
    body = {'message': 'Count.', 'ignore_eos': True, 'max_tokens': 1500}
    with Stream(r, 'POST', path(made, 'continue'), body) as stream:
        stream.until('delta')
        writing = get(r, made, turns=1)['writing']
        rig.need(writing['state'] == 'writes' and writing['turn']['role'] == 'assistant', writing)
        refused(r.post(path(made, 'continue'), {'nothing': True}), 409, '', code='busy')
        ok(r.post(path(made, 'cancel'), {}))
        rig.need(stream.until('done')[-1][2]['finish'] == 'cancelled', 'cancelled')
    # a client that goes away
    with Stream(r, 'GET', BASE + '/watch') as watch:
        watch.until('model')
        with Stream(r, 'POST', path(made, 'continue'), {**body, 'message': 'Go on.'}) as stream:
            stream.until('delta')
        rig.need(watch.until('turn_ended')[-1][2]['finish'] == 'cancelled', 'gone')


def test_watch(r):
    with Stream(r, 'GET', BASE + '/watch') as watch:
        first = watch.until('model')[-1]
        rig.need(first[1] == 'notice' and first[2]['model'] == 'confab-small' and first[0] == first[2]['cursor'], first)
        made = opened(r)
        one = watch.until('opened')[-1]
        rig.need(one[2]['conversation'] == made['id'] and one[2]['revision'] == made['revision'], one)
        say(r, made, 'My name is Nora.')
        kinds = [event[2]['kind'] for event in watch.until('turn_ended')]
        rig.need(kinds == ['turn_begun', 'turn_ended'], kinds)
    # it broke; what happened meanwhile is told
    child = ok(r.post(path(made, 'fork'), {}), 201)
    ok(r.request('DELETE', path(made)))
    with Stream(r, 'GET', BASE + '/watch', Last_Event_ID=one[0]) as watch:
        events = watch.until('closed')
        kinds = [event[2]['kind'] for event in events]
        rig.need(kinds == ['model', 'turn_begun', 'turn_ended', 'forked', 'closed'], kinds)
        rig.need(events[3][2]['parent'] == made['id'] and events[3][2]['conversation'] == child['id'], events[3])
    with Stream(r, 'GET', BASE + '/watch?cursor=' + urllib.parse.quote(events[3][0])) as watch:
        rig.need([event[2]['kind'] for event in watch.until('closed')] == ['model', 'closed'], 'cursor')
    with Stream(r, 'GET', BASE + '/watch', Last_Event_ID='of another time') as watch:
        rig.need([event[2]['kind'] for event in watch.until('list_again')] == ['model', 'list_again'], 'unknown cursor')
    refused(r.get(BASE + '/watch', Last_Event_ID='x' * 64), 400, 'cursor')


def test_head(r):
    made = opened(r)
    for where in BASE + '/watch', path(made, 'attach'), path(made, 'export'), path(made):
        status, fields, body = r.request('HEAD', where)
        rig.need(status == 200 and body == b'' and fields['Content-Type'], (where, status, fields))


def test_slow_reader(r):
    """A reader that reads nothing holds up its reply, not others, and then has all of it."""
    made, events = opened(r), []
    body = {'message': 'Count.', 'sampling': {'seed': 1}, 'ignore_eos': True, 'max_tokens': 300, 'want_logprobs': True, 'logprobs': 400}
    with Stream(r, 'POST', path(made, 'continue'), body) as stream:
        events += stream.until('accepted')
        rig.need(say(r, opened(r), 'My name is Nora.')['text'] == NORA, 'others')
        rig.need(get(r, made)['generating'], 'it waits for its reader')
        events += stream.until('done')
    rig.need(events[-1][2]['n_generated'] == 300, events[-1])
    rig.need(texts(events) == get(r, made, turns=1)['turns'][1]['text'], 'all of it')


def test_export(r):
    made = opened(r, name='Grüße "a"', about={'title': 'kept'})
    say(r, made, 'My name is Nora. ' * 30)
    status, fields, whole = r.get(path(made, 'export'))
    rig.need(status == 200 and fields['Content-Type'] == 'application/octet-stream', fields)
    rig.need(fields['Content-Disposition'] == f'attachment; filename="{made["id"]}.confab"; filename*=UTF-8\'\'{made["id"]}.confab', fields)
    _, fields, bare = r.get(path('Grüße "a"', 'export', without_memory='true'))
    rig.need(fields['Content-Disposition'] == 'attachment; filename="Gr____e__a_.confab"; '
             "filename*=UTF-8''Gr%C3%BC%C3%9Fe%20%22a%22.confab", fields['Content-Disposition'])
    rig.need(len(whole) > len(bare) > 100, (len(whole), len(bare)))
    refused(r.get(path('none', 'export')), 404, 'no conversation')
    status, fields, copy = r.post(BASE + '/import?name=copy', whole)
    rig.need(status == 201 and fields['Location'] == path(copy) and copy['name'] == 'copy', copy)
    rig.need(copy['about']['title'] == 'kept' and copy['n_tokens'] == get(r, made)['n_tokens'], copy)
    reply = say(r, copy, 'What is my name?')
    rig.need(reply['done']['n_computed'] < 30 and reply['text'] == say(r, made, 'What is my name?')['text'], reply)
    # in chunks, and without a name: that of the file is taken
    connection = r.connect()
    connection.request('POST', BASE + '/import', iter([bare[:10], bare[10:]]), {'Transfer-Encoding': 'chunked'}, encode_chunked=True)
    answer = connection.getresponse()
    got = rig.read(answer)
    rig.need(answer.status == 201 and got['name'] != 'copy' and got['n_turns'] == 2, got)
    connection.close()


def test_import_refused(r):
    made = opened(r, name='exported')
    _, _, file = r.get(path(made, 'export'))
    refused(r.post(BASE + '/import', b'no such file'), 400, '', code='format')
    refused(r.post(BASE + '/import', b''), 400, '', code='format')
    status, _, error = r.post(BASE + '/import?name=other', bytes(b ^ (i == len(file) // 2) for i, b in enumerate(file)))
    rig.need((status, error['error']['code']) == (422, 'corrupt'), error)
    refused(r.post(BASE + '/import?name=exported', file), 409, 'exists', code='exists')
    refused(r.post(BASE + '/import?name=123', file), 400, 'name', code='invalid')
    with r.raw() as s: # too long, as it says itself; the token of its body is not read
        s.sendall(b'POST /confab/v1/import HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n')
        answer = s.recv(4096)
        rig.need(answer.startswith(b'HTTP/1.1 413 ') and b'"code":"limit"' in answer, answer)
    with r.raw() as s: # and as it comes
        s.sendall(b'POST /confab/v1/import HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n' + b'x' * 16 + b'\r\nfffffff\r\n')
        answer, piece = b'', bytes(1 << 20)
        while not answer:
            try:
                s.sendall(piece)
                s.settimeout(0)
                answer = s.recv(4096)
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                s.settimeout(rig.LONG)
                answer = s.recv(4096)
            s.settimeout(rig.LONG)
        rig.need(answer.startswith(b'HTTP/1.1 413 '), answer)
    for cut in b'POST /confab/v1/import HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc', b'':
        with r.raw() as s: # a client that goes away
            s.sendall(cut)
    rig.need(ok(r.get(BASE + '/stats'))['imports'] == 2, 'what was refused is not there')


def push(r, s, data):
    """Send what the gateway takes; it takes no more when it has answered others and still has not read."""
    at = 0
    while at < len(data):
        try:
            at += s.send(data[at:at + (1 << 16)])
            continue
        except BlockingIOError:
            pass
        for _ in range(4):
            r.get('/confab/v1/nothing')
        try:
            at += s.send(data[at:at + (1 << 16)])
        except BlockingIOError:
            break
    return at


def test_import_is_not_kept(r):
    """A file goes through a gateway that holds a small part of it at any time, and waits where its daemon does not take it."""
    size = 48 << 20
    daemon = r.daemons[r.daemon_socket].process
    with r.raw() as s:
        s.sendall(b'POST /confab/v1/import HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n' % size)
        s.setblocking(False)
        daemon.send_signal(signal.SIGSTOP)
        try:
            sent = push(r, s, bytes(size))
        finally:
            daemon.send_signal(signal.SIGCONT)
        rig.need(sent < size // 4, sent)
        s.settimeout(rig.LONG)
        s.sendall(bytes(size - sent))
        answer = s.recv(4096)
        rig.need(answer.startswith(b'HTTP/1.1 400 ') and b'"code":"format"' in answer, answer)


def test_refused(r):
    made = opened(r)
    at = path(made, 'continue')
    for body, words, param in (
            ({'message': 5}, 'message is not a string', 'message'),
            ({'message': 'a', 'max_tokens': 'x'}, 'max_tokens is not a whole number', 'max_tokens'),
            ({'message': 'a', 'raw': 'b'}, 'both given', 'raw'),
            ({}, 'there is no input', None),
            ({'nothing': False}, 'there is no input', None),
            ({'messages': [{'role': 'user', 'text': 'a'}, {'role': 'nobody'}]}, 'messages[1].role is not one of', 'messages[1].role'),
            ({'messages': [{'text': 'a'}]}, 'messages[0].role is not given', 'messages[0].role'),
            ({'results': [{'content': 'a'}]}, 'results[0].call_id is not given', 'results[0].call_id'),
            ({'given': {'calls': [{'name': 1}]}}, 'given.calls[0].name is not a string', 'given.calls[0].name'),
            ({'tokens': [1, -1]}, 'tokens[1] is not a token', 'tokens[1]'),
            ({'raw_hex': 'abc'}, 'raw_hex is not pairs', 'raw_hex'),
            ({'message': 'a', 'sampling': {'seed': 'x'}}, 'sampling.seed is not', 'sampling.seed'),
            ({'message': 'a', 'sampling': {'logit_bias': [{}]}}, 'sampling.logit_bias[0].token', 'sampling.logit_bias[0].token'),
            ({'message': 'a', 'stop': [1]}, 'stop[0] is not a string', 'stop[0]'),
            ({'message': 'a', 'stream': 'no'}, 'stream is not true or false', 'stream'),
            ({'message': 'a', 'tools': 5}, 'tools is not JSON', 'tools')):
        refused(r.post(at, body), 400, words, param, 'invalid')
    refused(r.post(at, '[1]'), 400, 'not a JSON object')
    refused(r.post(at, {'message': 'a', 'sampling': {'temperature': -1}}), 400, 'temperature', code='invalid')
    refused(r.post(at, {'message': 'word ' * 3000}), 400, '', code='context_length_exceeded')
    refused(r.get(f'{ALL}?order=sideways'), 400, 'order is not one of id, updated', 'order')
    refused(r.get(f'{ALL}?limit=-1'), 400, 'limit is not a whole number', 'limit')
    refused(r.get(path(made, turns='perhaps')), 400, 'turns is not true or false', 'turns')
    refused(r.post(ALL, {'name': '123'}), 400, 'name', code='invalid')
    opened(r, name='taken')
    refused(r.post(ALL, {'name': 'taken'}), 409, 'exists', code='exists')
    refused(r.get(BASE + '/nothing'), 404, 'there is nothing at')
    refused(r.request('PUT', path(made), {}), 405, 'the path takes')
    rig.need(get(r, made)['n_turns'] == 0, 'nothing was changed')


def test_model_of_a_call(r):
    """One daemon answers whatever name is asked for, as in the other dialects."""
    rig.need(ok(r.get(BASE + '/model?model=other'))['name'] == 'confab-small', 'query')
    rig.need(ok(r.get(BASE + '/model', X_Confab_Model='confab-small'))['name'] == 'confab-small', 'field')


def test_tenants(r):
    """What another tenant has is not there."""
    made = opened(r)
    refused(r.get(path(made), X_Tenant='anna'), 404, 'no conversation')
    rig.need(ok(r.get(ALL, X_Tenant='anna'))['conversations'] == [], 'list')
    rig.need(ok(r.get(BASE + '/models', X_Tenant='anna'))['tenant'] == 'anna', 'models')
    refused(r.get(f'{ALL}?all_users=1', X_Tenant='anna'), 403, '', code='permission')


rig.run(globals(), gateway=('--tenant-header', 'x-tenant', '--max-import', '64M', '--output-high', '8K', '--output-low', '4K'))
