#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""responses-tools.py CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE CONFAB: functions that a model calls, reasoning, and replies that
do not come to their end, over /v1/responses. A grammar makes the model write what is wanted."""
import json
import os
import tempfile

import rig
from openai_client import THOUGHT, call, native, no_thought, only, write_model
from responses_client import CONVERSATIONS, RESPONSES, ask, check_events, computed, conversation_of, text, user

TOOLS = [{'type': 'function', 'name': 'weather', 'description': 'The weather now.', 'strict': False, 'parameters': {
    'type': 'object', 'properties': {'city': {'type': 'string'}}}}, {'type': 'web_search'}, {'type': 'namespace', 'x': 1}]
# A reply that cannot come to its end
ENDLESS = {'input': 'Count.', 'grammar': 'root ::= [a-z]{15000}', 'max_output_tokens': 15000, 'background': True}


def result(call_id, words):
    return {'type': 'function_call_output', 'call_id': call_id, 'output': words}


def replay(r, name, after=None):
    connection = r.connect()
    path = f'{RESPONSES}/{name}?stream=true' + (f'&starting_after={after}' if after is not None else '')
    events = list(rig.events(rig.ask(connection, 'GET', path)))
    connection.close()
    return events


def begin(r):
    """A reply in the background, of which something was said."""
    status, _, body = r.post(RESPONSES, ENDLESS)
    rig.need(status == 200 and body['status'] == 'in_progress', body)
    connection = r.connect()
    events = rig.events(rig.ask(connection, 'GET', f'{RESPONSES}/{body["id"]}?stream=true'))
    rig.need(any(name == 'response.output_text.delta' for name, _ in events), body)
    return body['id'], events


def kinds(answer):
    return [item['type'] for item in answer['output']]


def test_calls_resent(r):
    """As codex does: everything is sent again, with ids of its own."""
    items = [user('Do I need a coat?')]
    answer = ask(r, items, tools=TOOLS, grammar=only(THOUGHT + call('Oslo')), reasoning={'summary': 'auto'}, max_output_tokens=200)
    reasoning, made = answer['output']
    rig.need(kinds(answer) == ['reasoning', 'function_call'] and answer['status'] == 'completed', answer)
    rig.need(reasoning['summary'] == [{'type': 'summary_text', 'text': 'I need it.'}] and reasoning['content'] == [], reasoning)
    rig.need(made['name'] == 'weather' and json.loads(made['arguments']) == {'city': 'Oslo'} and made['call_id'], made)
    rig.need(0 < answer['usage']['output_tokens_details']['reasoning_tokens'] < answer['usage']['output_tokens'], answer)
    items += [{**reasoning, 'content': None}, {**made, 'id': 'fc_01a200d7', 'arguments': '{"city":"Oslo"}'},
              {**result(made['call_id'], [{'type': 'input_text', 'text': '3 degrees'}]), 'id': 'fco_1'}]
    second = ask(r, items, tools=TOOLS, grammar=only('A coat, yes.'), max_output_tokens=30)
    rig.need(text(second) == 'A coat, yes.', second)
    rig.need(second['usage']['input_tokens_details']['cached_tokens'] >= answer['usage']['total_tokens'] - 1, (answer, second))


def test_calls_by_place(r):
    answer = ask(r, 'Do I need a hat?', tools=TOOLS, grammar=only(THOUGHT + 'Wait.' + call('Rome')), max_output_tokens=200)
    rig.need(kinds(answer) == ['reasoning', 'message', 'function_call'], answer)
    rig.need(answer['output'][0]['content'] == [{'type': 'reasoning_text', 'text': 'I need it.'}], answer)
    output = result(answer['output'][2]['call_id'], 'sunny')
    more = {'tools': TOOLS, 'grammar': only('No.')}
    by_id = ask(r, [output], previous_response_id=answer['id'], **more)
    rig.need(text(by_id) == 'No.' and computed(by_id) < by_id['usage']['input_tokens'] / 2, by_id)
    references = [{'type': 'item_reference', 'id': item['id']} for item in answer['output']]
    by_items = ask(r, references + [output], **more)
    by_text = ask(r, [user('Do I need a hat?'), *references, output], **more)
    for other in (by_items, by_text):
        rig.need(text(other) == 'No.' and other['usage']['input_tokens'] == by_id['usage']['input_tokens'], (by_id, other))
        rig.need(computed(other) <= computed(by_id), (by_id, other))
    _, _, page = r.get(f'{RESPONSES}/{by_id["id"]}/input_items')
    rig.need([(item['type'], item['output'], item['call_id']) for item in page['data']] ==
             [('function_call_output', 'sunny', output['call_id'])], page)
    body = r.get(f'{RESPONSES}/{answer["id"]}')[2]
    rig.need(body['output'] == answer['output'] and body['tools'] == TOOLS[:1], body)
    rig.need(body['usage']['output_tokens'] == answer['usage']['output_tokens'], body)


def test_stream_of_calls(r):
    body = {'input': 'Do I need two coats?', 'tools': TOOLS, 'stream': True, 'reasoning': {'summary': 'auto'},
            'grammar': only(THOUGHT + 'Wait.' + call('Rome') + call('Oslo'))}
    for summary in (True, False):
        if not summary:
            del body['reasoning']
        events = list(r.stream(RESPONSES, body))
        answer = check_events(events)
        rig.need(kinds(answer) == ['reasoning', 'message', 'function_call', 'function_call'], answer)
        names = {name for name, _ in events}
        rig.need(('response.reasoning_summary_text.delta' in names) == summary, names)
        rig.need(('response.reasoning_text.delta' in names) != summary, names)
        for after in range(-1, len(events)):
            again = replay(r, answer['id'], after if after >= 0 else None)
            rig.need([(name, data.get('delta'), data.get('item')) for name, data in again] ==
                     [(name, data.get('delta'), data.get('item')) for name, data in events[after + 1:]], again)


def test_one_call(r):
    body = {'input': 'Do I need a hat?', 'tools': TOOLS, 'parallel_tool_calls': False, 'grammar': only(call('Rome') + call('Oslo'))}
    for stream in (False, True):
        if stream:
            answer = check_events(list(r.stream(RESPONSES, {**body, 'stream': True})))
        else:
            answer = r.post(RESPONSES, body)[2]
        rig.need(answer['status'] == 'completed' and kinds(answer) == ['function_call'], answer)
        again = r.get(f'{RESPONSES}/{answer["id"]}')[2]
        rig.need(again['output'] == answer['output'] and again['status'] == 'completed', (again, answer))
    more = ask(r, [result(answer['output'][0]['call_id'], 'sunny')], previous_response_id=answer['id'], tools=TOOLS,
               grammar=only('No.'))
    rig.need(text(more) == 'No.', more)


def test_forced(r):
    """The flat form of a function's name, and "required". Its marks of reasoning are not to be spelled: it may not end."""
    tools = [{'type': 'function', 'name': name, 'parameters': {'properties': {'city': {'const': 'Oslo'}}, 'required': ['city']}}
             for name in ('weather', 'time')]
    for choice in 'required', {'type': 'function', 'name': 'time'}:
        answer = ask(r, 'Go.', tools=tools, tool_choice=choice, max_output_tokens=200, **no_thought(r))
        item, = answer['output']
        rig.need(item['type'] == 'function_call' and json.loads(item['arguments']) == {'city': 'Oslo'}, answer)
        rig.need(item['name'] == 'time' or choice == 'required', answer)


def test_format(r):
    schema = {'type': 'object', 'properties': {'n': {'enum': [7]}}, 'required': ['n'], 'additionalProperties': False}
    answer = ask(r, 'A number.', text={'format': {'type': 'json_schema', 'name': 'x', 'schema': schema, 'strict': True}},
                 max_output_tokens=200)
    rig.need(json.loads(text(answer)) == {'n': 7}, answer)


def test_conversation_items(r):
    """Calls and results as items that are given."""
    items = [user('Weather?'), {'type': 'reasoning', 'id': 'rs_1', 'summary': [{'type': 'summary_text', 'text': 'hm'}]},
             {'type': 'function_call', 'call_id': 'c1', 'name': 'weather', 'arguments': '{"city": "Oslo"}'},
             result('c1', 'rain'), {'role': 'assistant', 'content': 'It rains.'}]
    status, _, made = r.post(CONVERSATIONS, {'items': items})
    rig.need(status == 200, made)
    listed = r.get(f'{CONVERSATIONS}/{made["id"]}/items?order=asc')[2]['data']
    rig.need([item['type'] for item in listed] ==
             ['message', 'reasoning', 'function_call', 'function_call_output', 'message'], listed)
    rig.need(listed[2]['call_id'] == 'c1' and listed[3]['output'] == 'rain', listed)
    for item in listed:
        rig.need(r.get(f'{CONVERSATIONS}/{made["id"]}/items/{item["id"]}')[2] == item, item)
    # one of several of the last turn can't be deleted
    status, _, some = r.post(CONVERSATIONS, {'items': items[:3]})
    path = f'{CONVERSATIONS}/{some["id"]}/items'
    status, _, body = r.request('DELETE', f'{path}/{r.get(path)[2]["first_id"]}')
    rig.need(status == 400 and len(r.get(path)[2]['data']) == 3, body)
    answer = ask(r, 'And tomorrow?', conversation=made['id'])
    rig.need(answer['status'] in ('completed', 'incomplete'), answer)
    status, _, body = r.post(f'{CONVERSATIONS}/{made["id"]}/items', {'items': [result('c9', 'x')]})
    rig.need(status == 400, body)


def test_cancel(r):
    name, events = begin(r)
    body = r.get(f'{RESPONSES}/{name}')[2]
    rig.need(body['status'] == 'in_progress' and body['output'] == [], body)
    status, _, body = r.request('DELETE', f'{RESPONSES}/{name}')
    rig.need(status == 400 and 'cancel' in body['error']['message'], body)
    status, _, body = r.post(f'{RESPONSES}/{name}/cancel', {})
    rig.need(status == 200 and body['status'] == 'cancelled' and body['output'][0]['status'] == 'incomplete', body)
    last = list(events)[-1]
    rig.need(last[0] == 'response.failed' and last[1]['response']['status'] == 'cancelled', last)
    rig.need(r.get(f'{RESPONSES}/{name}')[2] == body, body)
    rig.need(r.post(f'{RESPONSES}/{name}/cancel', {})[2] == body, body)
    again = check_events(replay(r, name), ('response.failed',))
    rig.need(again['output'] == body['output'], again)
    more = ask(r, 'Enough.', previous_response_id=name)
    rig.need(computed(more) < 40, more)


def test_client_goes(r):
    """In the foreground that cancels; in the background it does not."""
    for background in (True, False):
        connection = r.connect()
        events = rig.events(rig.ask(connection, 'POST', RESPONSES, {**ENDLESS, 'background': background, 'stream': True}))
        _, first = next(events)
        rig.need(any(name == 'response.output_text.delta' for name, _ in events), first)
        events.close()
        connection.close()
        name = first['response']['id']
        if background:
            status, _, body = r.post(f'{RESPONSES}/{name}/cancel', {})
            rig.need(status == 200 and body['status'] == 'cancelled', body)
        else:
            # it waits for the reply that is being cancelled
            more = ask(r, 'Next.', previous_response_id=name)
            rig.need(more['previous_response_id'] == name, more)
            rig.need(r.get(f'{RESPONSES}/{name}')[2]['status'] == 'cancelled', name)


def test_cancelled_by_another(r):
    connection = r.connect()
    events = rig.events(rig.ask(connection, 'POST', RESPONSES, {**ENDLESS, 'stream': True}))
    _, first = next(events)
    native(r, 'cancel', conversation_of(first['response']['id']))
    last = list(events)[-1]
    connection.close()
    rig.need(last[0] == 'response.failed' and last[1]['response']['status'] == 'cancelled', last)


def test_daemon_dies(r):
    """An event of the failure; the reply that was not stored is not there afterwards, its input is."""
    name, events = begin(r)
    r.stop_daemon(kill=True)
    last = list(events)[-1]
    rig.need(last[0] == 'response.failed' and last[1]['response']['error']['code'] == 'server_error', last)
    status, fields, body = r.get(f'{RESPONSES}/{name}')
    rig.need(status == 503 and int(fields['Retry-After']) > 0, body)
    r.start_daemon(model=MODEL)
    status, _, body = r.get(f'{RESPONSES}/{name}')
    rig.need(status == 200 and body['status'] == 'cancelled' and body['output'] == [], body)
    rig.need(check_events(replay(r, name), ('response.failed',))['status'] == 'cancelled', body)
    rig.need(ask(r, 'Go on.', previous_response_id=name)['usage'], name)


with tempfile.TemporaryDirectory(prefix='confab-gw-') as folder:
    MODEL = write_model(os.path.join(folder, 'model.gguf'), 16384)
    rig.run(globals(), model=MODEL)
