#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""/v1/responses with the real daemon: each id is a place in a conversation. Resent histories, previous_response_id, item
references, branches, instructions, streams, restarts, deleting."""
import rig
from responses_client import RESPONSES, ask, check_events, computed, text, user


def test_one(r):
    answer = ask(r, 'My name is Nora.')
    rig.need(answer['status'] == 'completed' or answer['incomplete_details'] == {'reason': 'max_output_tokens'}, answer)
    message, = answer['output']
    rig.need(message['type'] == 'message' and message['role'] == 'assistant' and text(answer), answer)
    missing = {'id', 'object', 'created_at', 'error', 'incomplete_details', 'instructions', 'model', 'tools', 'output',
               'parallel_tool_calls', 'metadata', 'tool_choice', 'temperature', 'top_p', 'background', 'previous_response_id',
               'conversation', 'reasoning', 'store', 'text', 'truncation', 'usage', 'user'} - set(answer)
    rig.need(not missing and answer['object'] == 'response', missing)
    usage = answer['usage']
    rig.need(usage['total_tokens'] == usage['input_tokens'] + usage['output_tokens'], usage)


def test_previous(r):
    first = ask(r, 'My name is Nora.')
    second = ask(r, 'And what is it?', previous_response_id=first['id'])
    rig.need(second['previous_response_id'] == first['id'], second)
    rig.need(second['usage']['input_tokens'] > first['usage']['total_tokens'], (first, second))
    rig.need(computed(second) < 30 and second['usage']['input_tokens_details']['cached_tokens'] > 0, second)
    # the same place once more: a branch, with the same answer
    again = ask(r, 'And what is it?', previous_response_id=first['id'])
    rig.need(text(again) == text(second) and again['id'] != second['id'], (again, second))
    other = ask(r, 'Something else.', previous_response_id=first['id'])
    # both branches go on by themselves
    for answer in (second, again, other):
        more = ask(r, 'Go on.', previous_response_id=answer['id'])
        rig.need(more['usage']['input_tokens'] > answer['usage']['total_tokens'], more)
        rig.need(computed(more) < 30, more)


def test_whole_history(r):
    items = [user('Hello, whole history.')]
    for i in range(4):
        answer = ask(r, items)
        rig.need(i == 0 or computed(answer) < 30, answer)
        items += answer['output'] + [user(f'And {i}')]


def test_references(r):
    """As the AI SDK sends them."""
    items = [{'role': 'system', 'content': 'Be brief.'}, user('one')]
    first = ask(r, items)
    reference = [{'type': 'item_reference', 'id': item['id']} for item in first['output']]
    second = ask(r, items + reference + [user('two')])
    rig.need(computed(second) < 30, second)
    rig.need(second['usage']['input_tokens'] > first['usage']['total_tokens'], second)
    # a reference in front is a place; without a type it is one, too
    third = ask(r, [{'id': first['output'][0]['id']}, user('two')])
    rig.need(third['usage']['input_tokens'] == second['usage']['input_tokens'] and text(third) == text(second), third)
    # an edit in front of a reference is told
    edited = ask(r, [{'role': 'system', 'content': 'Be long.'}, user('one')] + reference + [user('two')])
    rig.need(computed(edited) > 20, edited)


def test_unknown(r):
    answer = ask(r, 'Hello.')
    good = answer['output'][0]['id']
    bad = good[:-1] + ('0' if good[-1] != '0' else '1')
    for item in (bad, 'msg_00000144', 'nothing', good.replace('msg_', 'rs_'), 'msg_' + 'f' * 40):
        for items in ([{'type': 'item_reference', 'id': item}, user('x')],
                      [user('Hello.'), {'type': 'item_reference', 'id': item}, user('x')]):
            status, _, body = r.post(RESPONSES, {'model': 'm', 'input': items})
            rig.need(status == 404 and body['error']['param'].startswith('input'), body)
    for name in (answer['id'][:-1] + 'x', 'resp_123', good, ''):
        status, _, body = r.post(RESPONSES, {'model': 'm', 'input': 'x', 'previous_response_id': name})
        rig.need(status == 404 and body['error']['param'] == 'previous_response_id', body)
        status, _, body = r.post(RESPONSES, {'model': 'm', 'input': 'x', 'conversation': name})
        rig.need(status == 404 and body['error']['param'] == 'conversation', body)
        if name:
            status, _, body = r.get(f'{RESPONSES}/{name}')
            rig.need(status == 404 and body['error']['type'] == 'invalid_request_error', body)


def test_foreign_ids(r):
    """Ids of clients, on items that have texts."""
    answer = ask(r, [{'type': 'message', 'id': 'msg_prev_1', 'role': 'user', 'content': [{'type': 'input_text', 'text': 'a'}]},
                     {'type': 'message', 'id': 'msg_01a200d7-d883', 'role': 'assistant', 'status': 'completed',
                      'content': [{'type': 'output_text', 'text': 'b', 'annotations': []}]}, user('c')])
    rig.need(text(answer), answer)


def test_instructions(r):
    first = ask(r, 'Hello there.', instructions='Speak like a pirate.')
    rig.need(first['instructions'] == 'Speak like a pirate.', first)
    same = ask(r, 'And now?', instructions='Speak like a pirate.', previous_response_id=first['id'])
    rig.need(computed(same) < 30 and same['usage']['input_tokens'] > first['usage']['total_tokens'], same)
    none = ask(r, 'And now?', previous_response_id=first['id'])
    rig.need(none['instructions'] is None, none)
    rig.need(none['usage']['input_tokens'] < same['usage']['input_tokens'] - 5, (none, same))
    # as if there had never been any
    plain = ask(r, [user('Hello there.'), *first['output'], user('And now?')])
    rig.need(plain['usage']['input_tokens'] == none['usage']['input_tokens'] and text(plain) == text(none), (plain, none))
    other = ask(r, 'And now?', instructions='Be serious, please, and brief.', previous_response_id=first['id'])
    told = ask(r, [{'role': 'system', 'content': 'Be serious, please, and brief.'}, user('Hello there.'), *first['output'],
                   user('And now?')])
    rig.need(told['usage']['input_tokens'] == other['usage']['input_tokens'] and text(told) == text(other), (told, other))
    for answer, words in ((first, first['instructions']), (same, same['instructions']), (none, None),
                          (other, 'Be serious, please, and brief.')):
        status, _, body = r.get(f'{RESPONSES}/{answer["id"]}')
        rig.need(status == 200 and body['instructions'] == words, body)
        _, _, items = r.get(f'{RESPONSES}/{answer["id"]}/input_items')
        rig.need(len(items['data']) == 1 and items['data'][0]['role'] == 'user', items)


def test_stream(r):
    whole = ask(r, 'Tell me a story.', max_output_tokens=12)
    events = list(r.stream(RESPONSES, {'model': 'm', 'input': 'Tell me a story.', 'temperature': 0, 'stream': True,
                                       'max_output_tokens': 12}))
    answer = check_events(events)
    rig.need(text(answer) == text(whole) and answer['status'] == whole['status'], (answer, whole))
    status, _, body = r.get(f'{RESPONSES}/{answer["id"]}')
    rig.need(status == 200 and body['output'] == answer['output'] and body['status'] == answer['status'], (body, answer))
    # the same events again, from any number on
    for after in (None, 0, 3, len(events) - 2, len(events) - 1, 1000):
        path = f'{RESPONSES}/{answer["id"]}?stream=true' + (f'&starting_after={after}' if after is not None else '')
        connection = r.connect()
        again = list(rig.events(rig.ask(connection, 'GET', path)))
        connection.close()
        wanted = events[after + 1:] if after is not None else events
        rig.need([(name, data['sequence_number'], data.get('delta')) for name, data in again] ==
                 [(name, data['sequence_number'], data.get('delta')) for name, data in wanted], (after, again))
    # also where the conversation went on
    ask(r, 'And then?', previous_response_id=answer['id'])
    connection = r.connect()
    again = list(rig.events(rig.ask(connection, 'GET', f'{RESPONSES}/{answer["id"]}?stream=true')))
    connection.close()
    rig.need([data.get('delta') for _, data in again] == [data.get('delta') for _, data in events], again)
    status, _, body = r.get(f'{RESPONSES}/{answer["id"]}?stream=true&starting_after=x')
    rig.need(status == 400 and body['error']['param'] == 'starting_after', body)


def test_restarts(r):
    first = ask(r, 'Remember this.')
    second = ask(r, 'And this.', previous_response_id=first['id'])
    r.stop_gateway()
    r.stop_daemon()
    r.start_daemon()
    r.start_gateway()
    for answer in (first, second):
        status, _, body = r.get(f'{RESPONSES}/{answer["id"]}')
        rig.need(status == 200 and body['output'] == answer['output'] and body['model'] == answer['model'], body)
    third = ask(r, 'And more.', previous_response_id=second['id'])
    rig.need(computed(third) < 30, third)
    r.stop_daemon()
    r.start_daemon()
    status, _, body = r.get(f'{RESPONSES}/{third["id"]}')
    rig.need(status == 200 and text(body) == text(third), body)


def test_retrieve(r):
    answer = ask(r, 'Some words.', metadata={'topic': 'x'}, store=False, truncation='auto', parallel_tool_calls=False)
    status, _, body = r.get(f'{RESPONSES}/{answer["id"]}')
    same = ('id', 'object', 'created_at', 'status', 'model', 'output', 'metadata', 'store', 'truncation',
            'parallel_tool_calls', 'incomplete_details', 'error')
    rig.need(status == 200 and all(body[key] == answer[key] for key in same), (body, answer))
    rig.need(body['usage']['input_tokens'] == answer['usage']['input_tokens'], body['usage'])
    rig.need(body['usage']['output_tokens'] == answer['usage']['output_tokens'], body['usage'])


def test_input_items(r):
    items = [user(f'item {i}') for i in range(25)]
    answer = ask(r, items)
    path = f'{RESPONSES}/{answer["id"]}/input_items'
    _, _, page = r.get(path)
    rig.need(page['object'] == 'list' and len(page['data']) == 20 and page['has_more'], page)
    rig.need([item['content'][0]['text'] for item in page['data']] == [f'item {i}' for i in range(24, 4, -1)], page)
    _, _, rest = r.get(f'{path}?after={page["last_id"]}')
    rig.need([item['content'][0]['text'] for item in rest['data']] == [f'item {i}' for i in range(4, -1, -1)], rest)
    rig.need(not rest['has_more'] and rest['first_id'] == rest['data'][0]['id'], rest)
    seen, after = [], ''
    while True:
        _, _, page = r.get(f'{path}?order=asc&limit=7&after={after}')
        seen += [item['content'][0]['text'] for item in page['data']]
        if not page['has_more']:
            break
        after = page['last_id']
    rig.need(seen == [f'item {i}' for i in range(25)], seen)
    more = ask(r, 'only this', previous_response_id=answer['id'])
    _, _, page = r.get(f'{RESPONSES}/{more["id"]}/input_items')
    rig.need([item['content'][0]['text'] for item in page['data']] == ['only this'], page)
    for query in ('limit=0', 'limit=101', 'limit=x', 'order=up', 'after=msg_1'):
        status, _, body = r.get(f'{path}?{query}')
        rig.need(status == (404 if 'after' in query else 400), body)


def test_delete(r):
    first = ask(r, 'First.')
    second = ask(r, 'Second.', previous_response_id=first['id'])
    status, _, body = r.request('DELETE', f'{RESPONSES}/{first["id"]}')
    rig.need(status == 400 and 'goes on' in body['error']['message'], body)
    for answer in (second, first):
        status, _, body = r.request('DELETE', f'{RESPONSES}/{answer["id"]}')
        rig.need(status == 200 and body == {'id': answer['id'], 'object': 'response', 'deleted': True}, body)
        status, _, body = r.get(f'{RESPONSES}/{answer["id"]}')
        rig.need(status == 404, body)
        status, _, body = r.request('DELETE', f'{RESPONSES}/{answer["id"]}')
        rig.need(status == 404, body)
        status, _, body = r.post(RESPONSES, {'input': 'x', 'previous_response_id': answer['id']})
        rig.need(status == 404, body)


def test_taken_back(r):
    """The id of a turn that was deleted does not name the one that took its place."""
    first = ask(r, 'First.')
    second = ask(r, 'Second.', previous_response_id=first['id'])
    r.request('DELETE', f'{RESPONSES}/{second["id"]}')
    other = ask(r, 'Other.', previous_response_id=first['id'])
    status, _, body = r.get(f'{RESPONSES}/{second["id"]}')
    rig.need(status == 404, body)
    status, _, body = r.post(RESPONSES, {'input': [{'type': 'item_reference', 'id': second['output'][0]['id']}, user('x')]})
    rig.need(status == 404, body)
    status, _, body = r.get(f'{RESPONSES}/{other["id"]}')
    rig.need(status == 200, body)


def test_count(r):
    _, _, body = r.post(f'{RESPONSES}/input_tokens', {'model': 'm', 'input': 'How long is this?', 'instructions': 'Be brief.'})
    answer = ask(r, 'How long is this?', instructions='Be brief.')
    rig.need(body == {'object': 'response.input_tokens', 'input_tokens': answer['usage']['input_tokens']}, (body, answer))
    _, _, body = r.post(f'{RESPONSES}/input_tokens', {'input': 'And this?', 'previous_response_id': answer['id'],
                                                      'instructions': 'Be brief.'})
    more = ask(r, 'And this?', previous_response_id=answer['id'], instructions='Be brief.')
    rig.need(body['input_tokens'] == more['usage']['input_tokens'], (body, more))


def test_logprobs(r):
    include = {'include': ['message.output_text.logprobs'], 'top_logprobs': 2}
    answer = ask(r, 'Say a word.', **include)
    tokens = answer['output'][0]['content'][0]['logprobs']
    rig.need(tokens and ''.join(token['token'] for token in tokens) == text(answer), answer)
    rig.need(all(len(token['top_logprobs']) == 2 and token['logprob'] <= 0 for token in tokens), tokens)
    events = list(r.stream(RESPONSES, {'model': 'm', 'input': 'Say a word.', 'temperature': 0, 'stream': True,
                                       'max_output_tokens': 8, **include}))
    streamed = [token for name, data in events if name == 'response.output_text.delta' for token in data['logprobs']]
    rig.need(streamed == tokens and check_events(events)['output'][0]['content'][0]['logprobs'] == tokens, events)


def test_refusals(r):
    for body, param in (({'input': 3}, 'input'), ({'input': [{'role': 'user', 'content': 5}]}, 'input[0].content'),
                        ({}, 'input'), ({'input': []}, 'input'), ({'input': 'x', 'tools': 3}, 'tools'),
                        ({'input': 'x', 'max_output_tokens': 'y'}, 'max_output_tokens'),
                        ({'input': 'x', 'truncation': 'y'}, 'truncation'),
                        ({'input': 'x', 'previous_response_id': 'a', 'conversation': 'b'}, 'previous_response_id'),
                        ({'input': [{'role': 'user', 'content': [{'type': 'input_image', 'image_url': 'x'}]}]},
                         'input[0].content[0]')):
        status, _, answer = r.post(RESPONSES, body)
        rig.need(status == 400 and answer['error']['param'] == param, (body, answer))
    # what the daemon refuses has a name as well
    odd = {'type': 'json_schema', 'name': 'x', 'schema': {'type': 'odd'}}
    for body, param, code in (({'input': 'word ' * 9000}, 'input', 'context_length_exceeded'),
                              ({'input': 'x', 'text': {'format': odd}}, 'text.format', None),
                              ({'input': 'x', 'logit_bias': {'999999': 1}}, 'logit_bias', None)):
        status, _, answer = r.post(RESPONSES, body)
        rig.need(status == 400 and (answer['error']['param'], answer['error']['code']) == (param, code), answer)
    events = r.post(RESPONSES, {'input': 'word ' * 9000, 'stream': True})
    rig.need(events[0] == 400, events)


rig.run(globals())
