#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""traces.py CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE: recorded requests of real clients, sent to the gateway as they were.

Each is answered whole in its dialect. Sent again after a restart of both programs, it computes nothing but the tokens that invite a
reply. Only the length of replies is made small, and the note that a recording was cut is taken out of tools.
"""
import glob
import json
import os
import sys

import rig

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../util'))
import model_file # pylint: disable=wrong-import-position

FOLDER = os.path.join(os.environ.get('CONFAB_SHARED') or os.path.join(sys.argv[4], '../shared'), 'facts/http/traces')
LIMITS = {'/v1/chat/completions': 'max_tokens', '/v1/completions': 'max_tokens', '/v1/responses': 'max_output_tokens',
          '/v1/messages': 'max_tokens'}
# What clients say about themselves and their chat; the rest is http.client's, or a key.
DROPPED = {'host', 'content-length', 'connection', 'authorization', 'x-api-key', 'accept-encoding', 'transfer-encoding',
           'content-type', 'user-agent'}
INVITATION = 3 # tokens that invite a reply, with this template
BLOCK = 32


def route(trace):
    return trace['path'].partition('?')[0]


def load():
    for path in sorted(glob.glob(FOLDER + '/*.json')):
        with open(path, encoding='utf-8') as f:
            trace = json.load(f)
        if trace['path']:
            yield os.path.basename(path), trace


def prepare(trace):
    body, path = trace['body'], route(trace)
    if not isinstance(body, dict):
        return body
    if isinstance(body.get('tools'), list):
        body['tools'] = [tool for tool in body['tools'] if not isinstance(tool, str)]
    if path.startswith('/api/'):
        body.setdefault('options', {})['num_predict'] = 4
    elif path in LIMITS:
        body.pop('max_completion_tokens', None)
        body[LIMITS[path]] = 4
    return body


def names_foreign(body):
    """Whether a body names what the recording's mock server has answered: ids that are none of ours."""
    if body.get('previous_response_id'):
        return True
    items = body.get('input')
    return isinstance(items, list) and any(item.get('type') == 'item_reference' for item in items)


def expected_refusal(trace, body):
    """The status and the field of the error, where a recorded request can't be answered; or None."""
    if route(trace) == '/v1/embeddings':
        return 501, None
    if not isinstance(body, dict):
        return None
    if isinstance(body.get('stream'), str): # an old client, which cannot stream at all
        return 400, 'stream'
    return (404, None) if names_foreign(body) else None


def is_whole(path, answer):
    """Of an answer that is read: JSON, events, or lines."""
    if isinstance(answer, dict):
        if path.startswith('/v1/responses'):
            return answer['status'] in ('completed', 'incomplete')
        if path.startswith('/v1/messages'):
            return answer['stop_reason'] is not None
        if path.startswith('/api/'):
            return answer['done']
        return all(choice['finish_reason'] for choice in answer['choices'])
    name, last = answer[-1]
    if path.startswith('/v1/responses'):
        return name in ('response.completed', 'response.incomplete')
    if path.startswith('/v1/messages'):
        return name == 'message_stop'
    if path.startswith('/api/'):
        return last['done']
    return last == '[DONE]'


def send(r, trace, body):
    fields = {name: value for name, value in trace['headers'].items() if name.lower() not in DROPPED}
    connection = r.connect()
    try:
        response = rig.ask(connection, trace['method'], trace['path'], body or None, **fields)
        kind = response.headers.get('Content-Type') or ''
        if kind.startswith('text/event-stream'):
            return response.status, list(rig.events(response))
        if kind.startswith('application/x-ndjson'):
            return response.status, [(None, line) for line in rig.lines(response)]
        return response.status, rig.read(response)
    finally:
        connection.close()


def send_all(r):
    """Returns, for each of the answered ones, its path and the tokens of its prompt that were computed, by the daemon's own
    count."""
    computed = {}
    for name, trace in load():
        body = prepare(trace)
        before = r.stats()['tokens_prefilled']
        status, answer = send(r, trace, body)
        refused = expected_refusal(trace, body)
        if refused:
            rig.need(status == refused[0] and answer['error']['message'], (name, status, answer))
            rig.need(refused[1] in (None, answer['error']['param']), (name, answer))
        elif trace['method'] == 'GET':
            rig.need(status == 200 and answer['id'], (name, status, answer))
        else:
            rig.need(status == 200 and is_whole(route(trace), answer), (name, status, answer))
            computed[name] = route(trace), r.stats()['tokens_prefilled'] - before
    return computed


def test_all(r):
    with open(rig.MODEL, 'rb') as f:
        model = model_file.with_context(model_file.with_template(f.read(), model_file.TOOLS_TEMPLATE), 65536)
    path = f'{r.folder}/traces.gguf'
    with open(path, 'wb') as f:
        f.write(model)
    r.start_daemon('--pool-size', '512M', model=path)
    r.start_gateway()
    first = send_all(r)
    rig.need(len(first) >= 55, first)
    r.stop_gateway()
    r.stop_daemon()
    r.start_daemon('--pool-size', '512M', model=path)
    r.start_gateway()
    again = send_all(r)
    rig.need(again.keys() == first.keys(), (first, again))
    for name, (path, n) in again.items():
        # A prompt without template shares whole blocks only.
        rig.need(n <= (BLOCK if path == '/v1/completions' else INVITATION), (name, first[name], n))


if not os.path.isdir(FOLDER):
    print('SKIP: no recorded traces (CONFAB_SHARED)')
    sys.exit(77)
rig.run(globals(), daemon=None, gateway=None)
