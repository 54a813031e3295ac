# SPDX-License-Identifier: MIT
"""What real clients do with a gateway beside a chat, and what has to come of it: tools, errors, replies that are broken off,
a daemon that is away. A client is a NodeClient whose script has the functions that are called here."""
import json

import harness
from gateway_rig import need, wait_for

CITY = 'Oslo'
CALL_TEXT = f'<tool_call>\n{{"name": "weather", "arguments": {{"city": "{CITY}"}}}}\n</tool_call>'
# The same for models with model_file.CALLS_TEMPLATE, whose calls are plain JSON, by a schema.
CALL_SCHEMA = {'type': 'object', 'properties': {'name': {'const': 'weather'}, 'parameters': {'const': {'city': CITY}}},
               'required': ['name', 'parameters'], 'additionalProperties': False}
# A reply that cannot come to its end: it has to wait for a reader long before.
ENDLESS = 'root ::= [a-z]{15000}'
ENDLESS_SCHEMA = {'type': 'array', 'items': {'const': 'again'}, 'minItems': 2000, 'maxItems': 2000}


def only(text):
    """A grammar that takes this text alone."""
    return f'root ::= {json.dumps(text)}'


def check_tools(rig, client, argument=None, add=(), label=''):
    """The model calls a function; the library runs it and asks again; the second request computes what is new."""
    def tools():
        said = client.call('callTools', argument, add)
        need(said['calls'] == [CITY] and said['text'], said)
        turns = rig.newest()['turns']
        need([turn['role'] for turn in turns][-4:] == ['user', 'assistant', 'tool', 'assistant'], turns)
        run = turns[-1]['run']
        need(run['n_computed'] <= run['n_prompt'] - turns[-3]['end'] + 1, turns)
    harness.check(f'a tool is called and answered{label}', tools)


def wait_cancelled(rig):
    """The reply of the newest conversation was cancelled. The next in line waits until it has ended."""
    name = str(rig.newest()['id'])
    rig.native('say', name, 'Next.', '--wait', '--max-tokens', '0')
    turns = [turn for turn in rig.native('show', name)[0]['turns'] if turn['role'] == 'assistant']
    need(turns[-1]['finish'] == 'cancelled', turns[-1])


def check_abort(rig, client, add, kind=None):
    """Breaking off a stream cancels the reply; so does the death of a client that waits for a whole one. Last, since the
    client is dead then."""
    def abort():
        error = client.call('abort', None, add)
        need(kind is None or kind in (error['kind'], error.get('name')), error)
        wait_cancelled(rig)

    def die():
        n_before = rig.native('stats')[0]['requests']
        client.send('endless', None, add)
        wait_for(lambda: rig.native('stats')[0]['requests'] > n_before and rig.newest()['generating'],
                 'no reply begins')
        client.process.kill()
        wait_cancelled(rig)
    harness.check('aborting a stream cancels the reply', abort)
    harness.check('the death of a client cancels its reply', die)


def check_away(rig, client, status=503, retries=True, **wanted):
    """Without its daemon the gateway says so; a client that tries again comes through when the daemon is back."""
    def away():
        rig.daemon.stop()
        error = client.call('failHello')
        need(status_of(error) == status and wanted.items() <= error.items(), error)
        if not retries:
            rig.daemon.start()
        client.send('hello', 60)
        if retries:
            rig.daemon.start()
        need('Nora' in client.receive(), 'the reply')
    harness.check(f'a daemon that is away, and comes back{" while the client tries again" if retries else ""}', away)


def check_parse(client, add=()):
    def parse():
        person = client.call('parse', None, add)
        need(person['name'] in ('Nora', 'Olga') and person['is_here'] in (True, False), person)
    harness.check('a reply by a schema', parse)


def check_refused(client, rows):
    """`rows`: fields that make a request wrong, and what the error has to have; a text has to be a part of its message."""
    def refused():
        for fields, wanted in rows:
            errors = client.call('refused', fields)
            for error in errors if isinstance(errors, list) else [errors]:
                need(all(error.get(key) == value for key, value in wanted.items() if key != 'message'), (fields, error))
                need(wanted.get('message', '') in error['message'], (fields, error))
    harness.check('errors have the classes and fields of the library', refused)


def status_of(error):
    return next((error[key] for key in ('status', 'status_code', 'statusCode') if key in error), None)
