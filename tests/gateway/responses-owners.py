#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ids of /v1/responses and /v1/conversations give no right: those of another owner, and those of a daemon that is not there, are
as unknown as ids that never were. With two daemons an id says which of them answers."""
import http.client
import os
import re

import rig
from openai_client import write_model
from responses_client import CONVERSATIONS, RESPONSES, user

ANNA, BERT = 'token-of-anna-16-or-more', 'token-of-bert-16-or-more'


class Owner:
    def __init__(self, r, token):
        host, port = re.search(r'listening on (127\.0\.0\.1):(\d+)', r.gateway.said()).groups()
        self.address, self.fields = (host, int(port)), {'Authorization': 'Bearer ' + token}

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(*self.address, timeout=rig.LONG)
        response = rig.ask(connection, method, path, body, **self.fields)
        answer = response.status, rig.read(response)
        connection.close()
        return answer

    def get(self, path):
        return self.request('GET', path)

    def post(self, path, body):
        status, answer = self.request('POST', path, {'max_output_tokens': 4, **body} if path == RESPONSES else body)
        rig.need(status == 200, answer)
        return answer


def all_of(response, item, conversation, member):
    """Requests that name them."""
    last = [{'type': 'item_reference', 'id': item}, user('x')]
    one, all_items = f'{RESPONSES}/{response}', f'{CONVERSATIONS}/{conversation}/items'
    return [('GET', one, None), ('GET', one + '?stream=true', None), ('GET', one + '/input_items', None),
            ('POST', one + '/cancel', {}), ('DELETE', one, None),
            ('POST', RESPONSES, {'input': 'x', 'previous_response_id': response}),
            ('POST', RESPONSES + '/input_tokens', {'input': 'x', 'previous_response_id': response}),
            ('POST', RESPONSES, {'input': 'x', 'conversation': conversation}),
            ('POST', RESPONSES, {'input': last}), ('POST', RESPONSES, {'input': [user('a'), *last]}),
            ('GET', f'{CONVERSATIONS}/{conversation}', None), ('POST', f'{CONVERSATIONS}/{conversation}', {'metadata': {'a': 'b'}}),
            ('GET', all_items, None), ('POST', all_items, {'items': [user('x')]}),
            ('GET', f'{all_items}/{member}', None), ('DELETE', f'{all_items}/{member}', None),
            ('DELETE', f'{CONVERSATIONS}/{conversation}', None)]


def names(owner):
    """A response, its item, a conversation, its item."""
    answer = owner.post(RESPONSES, {'input': 'Mine.', 'background': False})
    conversation = owner.post(CONVERSATIONS, {'items': [user('Mine, too.')]})
    member, = owner.get(f'{CONVERSATIONS}/{conversation["id"]}/items')[1]['data']
    return answer['id'], answer['output'][0]['id'], conversation['id'], member['id']


def test_owners(r):
    tokens = r.folder + '/tokens'
    with open(tokens, 'w', encoding='utf-8') as f:
        f.write(f'{ANNA} {os.getuid()} anna\n{BERT} {os.getuid()} bert\n')
    os.chmod(tokens, 0o600)
    r.start_daemon()
    r.start_gateway('--tcp', '127.0.0.1:0', '--token-file', tokens)
    anna, bert = Owner(r, ANNA), Owner(r, BERT)
    mine = names(anna)
    before = anna.get(f'{RESPONSES}/{mine[0]}'), anna.get(f'{CONVERSATIONS}/{mine[2]}')
    for method, path, body in all_of(*mine):
        status, answer = bert.request(method, path, body)
        rig.need(status == 404 and answer['error']['code'] == 'not_found', (method, path, answer))
        # by the owner of the socket, who is neither of them
        rig.need(r.request(method, path, body)[0] == 404, (method, path))
    rig.need((anna.get(f'{RESPONSES}/{mine[0]}'), anna.get(f'{CONVERSATIONS}/{mine[2]}')) == before, before)
    anna.post(RESPONSES, {'input': 'And more.', 'previous_response_id': mine[0]})
    # the same texts of somebody else are a conversation of his own
    rig.need(names(bert)[0] != mine[0], mine)
    r.stop_gateway()
    r.stop_daemon()


def test_two_daemons(r):
    other, path = r.folder + '/e', write_model(r.folder + '/other.gguf', 4096)
    with open(path, 'rb+') as f:
        model = f.read().replace(b'confab-small', b'confab-other')
        f.seek(0)
        f.write(model)
    r.start_daemon()
    r.start_daemon(model=path, path=other)
    r.start_gateway('--daemon', r.daemon_socket, '--daemon', other)
    models = [model['id'] for model in r.get('/v1/models')[2]['data']]
    rig.need(sorted(models) == ['confab-other', 'confab-small'], models)
    for i, model in enumerate(models):
        answer = r.post(RESPONSES, {'model': model, 'input': 'Hello.', 'max_output_tokens': 4})[2]
        rig.need(answer.get('model') == model, answer)
        more = r.post(RESPONSES, {'input': 'More.', 'previous_response_id': answer['id'], 'max_output_tokens': 4})[2]
        rig.need(more['model'] == model, more)
        status, _, body = r.post(RESPONSES, {'model': models[1 - i], 'input': 'x', 'previous_response_id': answer['id']})
        rig.need(status == 400 and body['error']['param'] == 'model', body)
        made = r.post(CONVERSATIONS, {'model': model})[2]
        rig.need(r.post(RESPONSES, {'input': 'x', 'conversation': made['id'], 'max_output_tokens': 4})[2]['model'] == model, made)
    for path in (RESPONSES, RESPONSES + '/input_tokens'):
        status, _, body = r.post(path, {'model': 'nothing', 'input': 'x'})
        rig.need(status == 404 and body['error']['param'] == 'model' and body['error']['code'] == 'model_not_found', body)
    status, _, body = r.post(CONVERSATIONS, {'model': 'nothing'})
    rig.need(status == 404 and body['error']['param'] == 'model', body)
    status, _, body = r.post(CONVERSATIONS, {'model': 3})
    rig.need(status == 400 and body['error']['param'] == 'model', body)
    r.stop_gateway()
    # without its daemon an id is unknown
    r.start_gateway()
    rig.need(r.get(f'{RESPONSES}/{answer["id"]}')[0] == 404, answer)
    r.stop_gateway()


rig.run(globals(), daemon=None, gateway=None)
