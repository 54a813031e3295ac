#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""/v1/conversations with the real daemon: made, listed, added to, answered in, and deleted."""
import rig
from responses_client import CONVERSATIONS, RESPONSES, ask, computed, text, user


def create(r, **body):
    status, _, body = r.post(CONVERSATIONS, body)
    rig.need(status == 200 and body['object'] == 'conversation' and body['id'].startswith('conv_'), body)
    return body


def items_of(r, conversation, query='order=asc&limit=100'):
    status, _, body = r.get(f'{CONVERSATIONS}/{conversation}/items?{query}')
    rig.need(status == 200 and body['object'] == 'list', body)
    return body['data']


def said(items):
    return [(item['role'], item['content'][0]['text']) for item in items]


def test_metadata(r):
    made = create(r, metadata={'topic': 'demo'})
    path = f'{CONVERSATIONS}/{made["id"]}'
    rig.need(made['metadata'] == {'topic': 'demo'} and made['created_at'] > 1700000000, made)
    rig.need(r.get(path)[2] == made, made)
    status, _, body = r.post(path, {'metadata': {'topic': 'other', 'more': 'x'}})
    rig.need(status == 200 and body == {**made, 'metadata': {'topic': 'other', 'more': 'x'}}, body)
    rig.need(r.post(path, {'metadata': {}})[2]['metadata'] == {}, body)
    rig.need(r.get(path)[2]['metadata'] == {}, body)
    # an id of another conversation that had the same number
    status, _, body = r.get(path[:-1] + ('0' if path[-1] != '0' else '1'))
    rig.need(status == 404, body)
    status, _, body = r.post(path, {'metadata': 'x'})
    rig.need(status == 400 and body['error']['param'] == 'metadata', body)
    status, _, body = r.request('DELETE', path)
    rig.need(status == 200 and body == {'id': made['id'], 'object': 'conversation.deleted', 'deleted': True}, body)
    for method, where, body in (('GET', path, None), ('POST', path, {'metadata': {}}), ('DELETE', path, None),
                                ('GET', path + '/items', None), ('POST', path + '/items', {'items': [user('x')]})):
        status, _, body = r.request(method, where, body)
        rig.need(status == 404 and body['error']['type'] == 'invalid_request_error', body)


def test_items(r):
    made = create(r, items=[{'role': 'developer', 'content': 'Be brief.'}, user('a'), {'role': 'assistant', 'content': 'b'}])
    conversation = made['id']
    rig.need(said(items_of(r, conversation)) == [('system', 'Be brief.'), ('user', 'a'), ('assistant', 'b')], made)
    path = f'{CONVERSATIONS}/{conversation}/items'
    status, _, added = r.post(path, {'items': [user('c'), user('d')]})
    rig.need(status == 200 and said(added['data']) == [('user', 'c'), ('user', 'd')] and not added['has_more'], added)
    items = items_of(r, conversation)
    rig.need(items[3:] == added['data'] and len({item['id'] for item in items}) == 5, items)
    rig.need(items_of(r, conversation, 'limit=2') == items[:2:-1], items)
    rig.need(items_of(r, conversation, f'limit=2&after={items[3]["id"]}') == items[2:0:-1], items)
    for item in items:
        status, _, body = r.get(f'{path}/{item["id"]}')
        rig.need(status == 200 and body == item, body)
    for body in ({}, {'items': []}, {'items': [{'role': 'user'}]}, {'items': 'x', 'metadata': 3}):
        status, _, answer = r.post(path, body)
        rig.need(status == 400 and answer['error']['param'], answer)
    # the last one can be deleted, others not
    status, _, body = r.request('DELETE', f'{path}/{items[2]["id"]}')
    rig.need(status == 400 and 'last' in body['error']['message'], body)
    status, _, body = r.request('DELETE', f'{path}/{items[4]["id"]}')
    rig.need(status == 200 and body == made, body)
    rig.need(items_of(r, conversation) == items[:4], body)
    for method in ('GET', 'DELETE'):
        status, _, body = r.request(method, f'{path}/{items[4]["id"]}')
        rig.need(status == 404, body)
    other = create(r)['id']
    status, _, body = r.get(f'{CONVERSATIONS}/{other}/items/{items[0]["id"]}')
    rig.need(status == 404, body)
    rig.need(items_of(r, other) == [], other)


def test_responses(r):
    conversation = create(r)['id']
    first = ask(r, 'My name is Nora.', conversation=conversation)
    rig.need(first['conversation'] == {'id': conversation}, first)
    second = ask(r, 'And what is it?', conversation={'id': conversation})
    rig.need(computed(second) < 30 and second['usage']['input_tokens'] > first['usage']['total_tokens'], second)
    items = items_of(r, conversation)
    rig.need(said(items) == [('user', 'My name is Nora.'), ('assistant', text(first)), ('user', 'And what is it?'),
                             ('assistant', text(second))], items)
    rig.need([items[1]] == first['output'] and [items[3]] == second['output'], (items, first, second))
    body = r.get(f'{RESPONSES}/{second["id"]}')[2]
    rig.need(body['conversation'] == {'id': conversation} and body['output'] == second['output'], body)
    # a branch leaves the conversation as it is
    branch = ask(r, 'Something else.', previous_response_id=second['id'])
    rig.need(branch['conversation'] is None and items_of(r, conversation) == items, branch)
    ask(r, 'Something more.', previous_response_id=branch['id'])
    rig.need(items_of(r, conversation) == items, branch)


def test_instructions(r):
    """They are told where they change."""
    conversation = create(r)['id']
    for instructions, n_system in (('Be a pirate.', 1), ('Be a pirate.', 1), (None, 1), ('Be a poet.', 2), ('Be a poet.', 2),
                                   ('Be a pirate.', 3)):
        answer = ask(r, 'Hello.', conversation=conversation, instructions=instructions)
        rig.need(computed(answer) < 60 and answer['instructions'] == instructions, answer)
        told = [item for item in items_of(r, conversation) if item['content'][0]['text'].startswith('Be a')]
        rig.need(len(told) == n_system, told)


def test_restart(r):
    conversation = create(r, items=[user('Remember this.')], metadata={'a': 'b'})
    first = ask(r, 'What?', conversation=conversation['id'])
    r.stop_gateway()
    r.stop_daemon(kill=True)
    r.start_daemon()
    r.start_gateway()
    rig.need(r.get(f'{CONVERSATIONS}/{conversation["id"]}')[2] == conversation, conversation)
    items = items_of(r, conversation['id'])
    rig.need(items[-1:] == first['output'] and len(items) == 3, items)
    ask(r, 'And now?', conversation=conversation['id'])
    rig.need(len(items_of(r, conversation['id'])) == 5, items)


def test_deleting_responses(r):
    conversation = create(r)['id']
    first = ask(r, 'First.', conversation=conversation)
    status, _, body = r.request('DELETE', f'{RESPONSES}/{first["id"]}')
    rig.need(status == 200, body)
    rig.need(items_of(r, conversation) == [] and r.get(f'{CONVERSATIONS}/{conversation}')[0] == 200, body)


rig.run(globals())
