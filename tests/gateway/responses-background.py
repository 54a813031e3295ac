#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Responses in the background: polled, resumed, cancelled, and left by their clients."""
import rig
from responses_client import RESPONSES, ask, check_events, text


def begin(r, **more):
    status, _, body = r.post(RESPONSES, {'input': 'Tell me a very long story.', 'background': True, 'max_output_tokens': 300,
                                         'temperature': 0, **more})
    rig.need(status == 200 and body['status'] == 'in_progress' and body['output'] == [] and body['background'], body)
    return body['id']


def stream(r, name, after=None):
    """Its events, from the one behind number @after on: they end when the reply does."""
    connection = r.connect()
    path = f'{RESPONSES}/{name}?stream=true' + (f'&starting_after={after}' if after is not None else '')
    yield from rig.events(rig.ask(connection, 'GET', path))
    connection.close()


def test_finished(r):
    name = begin(r)
    events = list(stream(r, name))
    answer = check_events(events)
    rig.need(answer['id'] == name and text(answer), answer)
    status, _, body = r.get(f'{RESPONSES}/{name}')
    rig.need(status == 200 and body['status'] == answer['status'] and body['output'] == answer['output'], body)
    rig.need(body['background'] is True and body['usage']['output_tokens'] == answer['usage']['output_tokens'], body)
    status, _, body = r.post(f'{RESPONSES}/{name}/cancel', {})
    rig.need(status == 200 and body['status'] == answer['status'], body)


def test_left_and_resumed(r):
    """The client goes in the middle of the stream, and comes again for the rest."""
    whole = check_events(list(r.stream(RESPONSES, {'input': 'Say a lot.', 'stream': True, 'temperature': 0,
                                                   'max_output_tokens': 200})))
    events = []
    for event in r.stream(RESPONSES, {'input': 'Say a lot.', 'stream': True, 'background': True, 'temperature': 0,
                                      'max_output_tokens': 200}):
        events.append(event)
        if event[0] == 'response.output_text.delta':
            break
    name = events[0][1]['response']['id']
    events += list(stream(r, name, events[-1][1]['sequence_number']))
    answer = check_events(events)
    rig.need(answer['id'] == name and text(answer) == text(whole), (answer, whole))


def test_cancel(r):
    name = begin(r, max_output_tokens=800)
    events = stream(r, name)
    for event, _ in events:
        if event == 'response.output_text.delta':
            break
    status, _, body = r.post(f'{RESPONSES}/{name}/cancel', {})
    rig.need(status == 200 and body['id'] == name, body)
    ended = body['status']
    rig.need(ended in ('cancelled', 'completed', 'incomplete'), body)
    list(events)
    status, _, body = r.get(f'{RESPONSES}/{name}')
    rig.need(status == 200 and body['status'] == ended, body)
    rig.need(ended != 'cancelled' or body['output'][-1]['status'] == 'incomplete', body)
    rig.need(list(stream(r, name))[-1][1]['response']['status'] == ended, body)
    # what there is of it can be gone on with
    more = ask(r, 'And then?', previous_response_id=name)
    rig.need(text(more), more)


def test_not_in_background(r):
    answer = ask(r, 'Hello.')
    status, _, body = r.post(f'{RESPONSES}/{answer["id"]}/cancel', {})
    rig.need(status == 400 and 'background' in body['error']['message'], body)


def test_previous_waits(r):
    """Two go on behind a response that is being written: each behind it alone."""
    name = begin(r)
    first = ask(r, 'And then?', previous_response_id=name)
    second = ask(r, 'And then?', previous_response_id=name)
    rig.need(first['usage']['input_tokens'] == second['usage']['input_tokens'] and text(first) == text(second), (first, second))
    status, _, body = r.get(f'{RESPONSES}/{name}')
    rig.need(status == 200 and body['status'] != 'in_progress', body)


def test_delete(r):
    name = begin(r)
    list(stream(r, name))
    status, _, body = r.request('DELETE', f'{RESPONSES}/{name}')
    rig.need(status == 200 and body['deleted'], body)


rig.run(globals())
