#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""own-life.py: /confab/v1 while daemons and the gateway come and go."""
import json
import signal
import sys
import urllib.parse

sys.dont_write_bytecode = True
import rig

BASE = '/confab/v1'
ALL = BASE + '/conversations'


def ok(answer, status=200):
    got, _, body = answer
    rig.need(got == status, (got, body))
    return body


def start(r, where, body=None, **fields):
    """A stream whose answer has begun."""
    connection = r.connect()
    response = rig.ask(connection, 'POST' if body else 'GET', where, body, **fields)
    rig.need(response.status == 200, response.status)
    return connection, response


def next_of(response):
    """The next event: (id, data); None at the end."""
    at = None
    for line in response:
        if line.startswith(b'id: '):
            at = line[4:].decode().strip()
        elif line.startswith(b'data: '):
            return at, json.loads(line[6:])
    return None


def test_daemon_goes_and_comes(r):
    r.start_daemon()
    r.start_gateway()
    made = ok(r.post(ALL, {'name': 'kept'}), 201)
    watch, notices = start(r, BASE + '/watch')
    at, notice = next_of(notices)
    rig.need(notice['kind'] == 'model', notice)
    writing, events = start(r, f'{ALL}/kept/continue', {'message': 'Count.', 'ignore_eos': True, 'max_tokens': 1500})
    rig.need(next_of(events)[1]['event'] == 'accepted', 'accepted')
    r.stop_daemon(kill=True)
    while (event := next_of(events))[1]['event'] in ('delta', 'progress'):
        pass
    rig.need(event[1]['event'] == 'error' and event[1]['code'] == 'disconnected' and event[1]['retry'], event)
    rig.need(next_of(events) is None, 'nothing behind the error')
    while (event := next_of(notices))[1]['event'] == 'notice':
        at = event[0]
    rig.need(event[1]['code'] == 'disconnected' and next_of(notices) is None, event)
    for connection in watch, writing:
        connection.close()
    status, fields, body = r.get(f'{ALL}/kept')
    rig.need(status == 503 and body['error']['retry'] and int(fields['Retry-After']) > 0, (status, body))
    r.start_daemon()
    # the message was accepted, so it is there, and can be answered
    shown = ok(r.get(f'{ALL}/kept?turns=1'))
    rig.need(shown['id'] == made['id'] and shown['unanswered'] and shown['turns'][0]['text'] == 'Count.', shown)
    reply = ok(r.post(f'{ALL}/kept/continue', {'nothing': True, 'max_tokens': 3, 'stream': False}))
    rig.need(reply['done']['n_generated'] == 3, reply)
    # a cursor of before the restart
    watch, notices = start(r, BASE + '/watch', Last_Event_ID=at)
    rig.need([next_of(notices)[1]['kind'] for _ in range(2)] == ['model', 'list_again'], 'list again')
    watch.close()
    r.stop_gateway()


def test_kept_connections(r):
    """What is read is read from the daemon that is there now."""
    r.start_gateway()
    for _ in range(3):
        ok(r.get(ALL))
        r.stop_daemon()
        r.start_daemon()
        rig.need(ok(r.get(ALL))['conversations'][0]['name'] == 'kept', 'list')
    r.stop_gateway()


def test_asked_once(r):
    """What may have reached a daemon that is gone is not asked again, if it changes something."""
    r.start_gateway()
    for method, code in ('POST', 'disconnected'), ('GET', 'no_daemon'):
        daemon = r.daemons[r.daemon_socket].process
        ok(r.get(ALL))
        daemon.send_signal(signal.SIGSTOP)
        connection = r.connect()
        connection.request(method, ALL)
        for _ in range(3): # one thread serves all: the request has gone out behind these
            r.get('/confab/v1/nothing')
        r.stop_daemon(kill=True)
        response = connection.getresponse()
        error = rig.read(response)['error']
        rig.need(response.status == 503 and error['code'] == code and error['retry'], error)
        connection.close()
        r.start_daemon()
    r.stop_gateway()


def test_stop(r):
    """A watch has no end: the gateway does not wait for one, but for replies."""
    r.start_gateway()
    watch, notices = start(r, BASE + '/watch')
    rig.need(next_of(notices)[1]['kind'] == 'model', 'model')
    writing, events = start(r, f'{ALL}/kept/continue', {'message': 'Count.', 'ignore_eos': True, 'max_tokens': 200})
    rig.need(next_of(events)[1]['event'] == 'accepted', 'accepted')
    r.gateway.process.send_signal(signal.SIGTERM)
    while (event := next_of(notices)[1])['event'] == 'notice':
        pass
    rig.need(event == {'event': 'error', 'code': 'shutdown', 'message': 'the gateway is stopping', 'retry': True}, event)
    rig.need(next_of(notices) is None, 'nothing behind it')
    while (event := next_of(events)[1])['event'] != 'done':
        pass
    rig.need(event['finish'] == 'length', event)
    for connection in watch, writing:
        connection.close()
    r.stop_gateway()
    rig.need('stop-timeout' not in r.gateway_said, r.gateway_said)


def test_longest(r):
    """A reply without a limit goes to the end of the context, or to max-reply; one with a limit to that."""
    for flags, more, n, finish in (((), {}, None, 'context'), (('--max-reply', '7'), {}, 7, 'length'),
                                   (('--max-reply', '7'), {'max_tokens': 9}, 9, 'length')):
        r.start_gateway(*flags)
        made = ok(r.post(ALL, {}), 201)
        told = ok(r.post(f'{ALL}/{made["id"]}/continue', {'message': 'Count.', 'ignore_eos': True, 'stream': False, **more}))
        context = ok(r.get(BASE + '/models'))['models'][0]['context']
        done, n = told['done'], n or context - told['accepted']['n_prompt']
        rig.need(done['finish'] == finish and done['n_generated'] == n, (done, n))
        r.stop_gateway()


def test_models(r):
    """Several daemons: the query or a field says whose conversations are meant."""
    other = r.folder + '/other'
    path = r.make_model('arch:llama', 'f32', name='tiny.gguf')
    r.start_daemon(model=path, path=other)
    r.start_gateway('--daemon', r.daemon_socket, '--daemon', other)
    models = ok(r.get(BASE + '/models'))['models']
    rig.need([model['default'] for model in models] == [True, False], models)
    name = models[1]['name']
    rig.need(name and name != models[0]['name'], models)
    query = urllib.parse.urlencode({'model': name})
    r.stop_gateway()
    r.start_gateway('--daemon', r.daemon_socket, '--daemon', other) # which has asked nobody yet
    rig.need(ok(r.get(f'{BASE}/model?{query}'))['name'] == name, 'query')
    rig.need(ok(r.get(f'{BASE}/model?model=tiny'))['name'] == name, 'file')
    rig.need(ok(r.get(BASE + '/model', X_Confab_Model=name))['name'] == name, 'field')
    rig.need(ok(r.get(BASE + '/model'))['name'] == models[0]['name'], 'default')
    status, _, body = r.get(f'{ALL}?model=nobody')
    rig.need(status == 404 and body['error']['code'] == 'not_found', body)
    ok(r.post(f'{ALL}?{query}', {'name': 'there'}), 201)
    rig.need(r.get(f'{ALL}/there')[0] == 404, 'each has its own')
    status, _, file = r.get(f'{ALL}/kept/export')
    status, _, body = r.post(f'{BASE}/import?{query}&name=guest', file)
    rig.need(status == 400 and body['error']['code'] == 'unsupported', body)
    r.stop_daemon(path=other, kill=True)
    status, _, _ = r.post(f'{BASE}/import?{query}', file)
    rig.need(status == 503, status)
    rig.need([model['reachable'] for model in ok(r.get(BASE + '/models'))['models']] == [True, False], 'gone')
    ok(r.post(ALL, {'name': 'words'}), 201)
    ok(r.post(f'{ALL}/words/continue', {'raw': 'once upon a time', 'max_tokens': 0, 'stream': False}))
    r.stop_gateway()


def test_carry(r):
    """The daemon comes back with another model: the conversation goes on with new tokens."""
    r.stop_daemon()
    r.start_daemon(model=r.folder + '/tiny.gguf')
    r.start_gateway()
    before = ok(r.get(f'{ALL}/words'))
    rig.need(before['other_vocabulary'], before)
    status, _, body = r.post(f'{ALL}/words/continue', {'nothing': True, 'max_tokens': 1})
    rig.need(status == 400 and body['error']['code'] == 'state', body)
    status, _, body = r.post(f'{ALL}/words/carry', {'expect_revision': before['revision'] + 1})
    rig.need(status == 409 and body['error']['code'] == 'conflict', body)
    carried = ok(r.post(f'{ALL}/words/carry', {'expect_revision': before['revision']}))
    rig.need(carried['carried'] and carried['n_tokens_before'] == before['n_tokens'], carried)
    rig.need(carried['n_turns'] == before['n_turns'] and 'other_vocabulary' not in carried, carried)
    r.stop_gateway()


rig.run(globals(), daemon=None, gateway=None)
