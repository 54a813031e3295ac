#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""many.py: many clients at once, each of which gets its own answer."""
import json

import rig

STREAMS = 64 # what one user may have in flight unless told otherwise
KEPT = 1000


def form(i, stream=True):
    return {'model': 'm', 'max_tokens': 24, 'temperature': 0, 'stream': stream, 'stream_options': {'include_usage': True},
            'messages': [{'role': 'user', 'content': f'Hello! I am number {i}. What is your name?'}]}


def begin(connection, i):
    connection.request('POST', '/v1/chat/completions', json.dumps(form(i)), {'Content-Type': 'application/json'})


def told(response):
    """The text of a whole stream, and what ended it."""
    data = [data for _, data in rig.events(response)]
    rig.need(data[-1] == '[DONE]' and len({event['id'] for event in data[:-1]}) == 1, data)
    deltas = [event['choices'][0] for event in data[:-1] if event['choices']]
    return ''.join(d['delta'].get('content') or '' for d in deltas), deltas[-1]['finish_reason']


def test_streams_at_once(r):
    """All requests are sent before an answer is read; each is what is answered to the same request alone."""
    connections = [r.connect() for _ in range(STREAMS)]
    for i, connection in enumerate(connections):
        begin(connection, i)
    got = []
    for connection in connections:
        response = connection.getresponse()
        rig.need(response.status == 200, (response.status, len(got)))
        got.append(told(response))
    for connection in connections:
        connection.close()
    for i, (text, reason) in enumerate(got):
        status, _, alone = r.post('/v1/chat/completions', form(i, stream=False))
        rig.need(status == 200, alone)
        choice = alone['choices'][0]
        rig.need((choice['message']['content'], choice['finish_reason']) == (text, reason), (i, text, reason, choice))
    rig.need(len({text for text, _ in got}) > 1, 'the replies do not tell the requests apart')


def test_kept_connections(r):
    """A thousand connections that were used, a chat among them, and all of them used again."""
    connections = [r.connect() for _ in range(KEPT)]
    for again in (False, True):
        for connection in connections:
            rig.need(rig.read(rig.ask(connection, 'GET', '/health'))['status'] == 'ok', 'health')
        if not again:
            begin(connections[KEPT // 2], 1)
            text, _ = told(connections[KEPT // 2].getresponse())
            rig.need(text, 'a reply among them')
    for connection in connections:
        connection.close()


rig.run(globals())
