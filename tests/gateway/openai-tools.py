#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""openai-tools.py CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE CONFAB: functions that a model calls, reasoning, and replies that
do not come to their end. A grammar makes the model write what is wanted."""
import json
import os
import tempfile

import rig
from openai_client import (CHAT, THOUGHT, ask, call, check_chunks, computed, native, no_thought, only, place, user,
                           write_model)

TOOLS = [{'type': 'function', 'function': {'name': 'weather', 'description': 'The weather now.', 'parameters': {
    'type': 'object', 'properties': {'city': {'type': 'string'}}}}}, {'type': 'web_search'}]


def result(call_id, text):
    return {'role': 'tool', 'tool_call_id': call_id, 'content': text}


def test_calls(r):
    """A call, its result, the reply, and more: the history is resent as real clients do, and found each time."""
    messages = [user('Do I need a coat?')]
    answer = ask(r, messages, tools=TOOLS, grammar=only(THOUGHT + call('Oslo')))
    choice, usage = answer['choices'][0], answer['usage']
    message = choice['message']
    rig.need(choice['finish_reason'] == 'tool_calls' and message['content'] is None, choice)
    rig.need(message['reasoning_content'] == 'I need it.', message)
    rig.need(0 < usage['completion_tokens_details']['reasoning_tokens'] < usage['completion_tokens'], usage)
    made, = message['tool_calls']
    rig.need(made['type'] == 'function' and made['function']['name'] == 'weather', made)
    rig.need(json.loads(made['function']['arguments']) == {'city': 'Oslo'} and made['id'], made)
    # arguments written anew, an id of the client's own, reasoning kept, the result as a list of parts
    function = {'name': 'weather', 'arguments': '{"city":"Oslo"}'}
    messages.append({**message, 'tool_calls': [{'id': made['id'], 'type': 'function', 'function': function}]})
    messages.append(result(made['id'], [{'type': 'text', 'text': '3 degrees, rain'}]))
    before = usage['total_tokens']
    answer = ask(r, messages, tools=TOOLS, grammar=only('A coat, yes.'))
    rig.need(answer['choices'][0]['message']['content'] == 'A coat, yes.', answer)
    rig.need(answer['usage']['prompt_tokens_details']['cached_tokens'] >= before - 1, (before, answer))
    # reasoning dropped
    before = answer['usage']['total_tokens']
    del messages[1]['reasoning_content']
    messages += [answer['choices'][0]['message'], user('Thank you.')]
    answer = ask(r, messages, tools=TOOLS, max_tokens=8)
    rig.need(answer['usage']['prompt_tokens_details']['cached_tokens'] >= before - 1, (before, answer))
    rig.need(place(answer)[1] == 5, answer)


def test_stream_of_calls(r):
    messages = [user('Do I need two coats?')]
    body = {'messages': messages, 'tools': TOOLS, 'temperature': 0, 'grammar': only(THOUGHT + 'Wait.' + call('Rome') + call('Oslo'))}
    whole = r.post(CHAT, body)[2]['choices'][0]
    chunks = list(r.stream(CHAT, {**body, 'stream': True}))
    rig.need(check_chunks(chunks) == ['Wait.'] and whole['message']['content'] == 'Wait.', chunks)
    choices = [data['choices'][0] for _, data in chunks[:-1]]
    rig.need(choices[-1]['finish_reason'] == whole['finish_reason'] == 'tool_calls', choices[-1])
    thought = ''.join(choice['delta'].get('reasoning_content', '') for choice in choices)
    rig.need(thought == whole['message']['reasoning_content'] == 'I need it.', thought)
    calls = []
    for choice in choices:
        for news in choice['delta'].get('tool_calls', []):
            if 'id' in news:
                rig.need(news['index'] == len(calls) and news['type'] == 'function', news)
                calls.append({'id': news['id'], 'name': news['function']['name'], 'arguments': ''})
            rig.need(news['index'] == len(calls) - 1, news)
            calls[-1]['arguments'] += news['function']['arguments']
    rig.need([(c['name'], c['arguments']) for c in calls] ==
             [(c['function']['name'], c['function']['arguments']) for c in whole['message']['tool_calls']], calls)
    rig.need(len(calls) == 2 and calls[0]['id'] != calls[1]['id'], calls)


def test_one_call(r):
    """parallel_tool_calls: false. The reply ends behind its first call, and goes on with the result."""
    messages = [user('Do I need a hat?')]
    body = {'messages': messages, 'tools': TOOLS, 'temperature': 0, 'parallel_tool_calls': False}
    for stream in (False, True):
        wanted = {**body, 'stream': stream, 'grammar': only(call('Rome') + call('Oslo'))}
        if stream:
            choices = [data['choices'][0] for _, data in list(r.stream(CHAT, wanted))[:-1]]
            names = [news for choice in choices for news in choice['delta'].get('tool_calls', []) if 'id' in news]
            rig.need(len(names) == 1 and choices[-1]['finish_reason'] == 'tool_calls', choices)
        else:
            choice = r.post(CHAT, wanted)[2]['choices'][0]
            rig.need(len(choice['message']['tool_calls']) == 1 and choice['finish_reason'] == 'tool_calls', choice)
    messages += [choice['message'], result(choice['message']['tool_calls'][0]['id'], 'sunny')]
    status, _, answer = r.post(CHAT, {**body, 'grammar': only('No.')})
    rig.need(status == 200 and answer['choices'][0]['message']['content'] == 'No.', answer)


def test_broken_calls(r):
    """A call that the model broke off ends no chat: resent as it was told, it is found, whatever the client makes of it."""
    broken = ['Hm. <tool_call>\n{"name": "weather", "arguments": {"city": "Os', '<tool_call>\nnonsense\n</tool_call>',
              '<tool_call>\n{"name": "weather", "arguments": {"city": "Os\n</tool_call>']
    for number, text in enumerate(broken):
        messages = [user(f'Do I need {number} coats?')]
        answer = ask(r, messages, tools=TOOLS, grammar=only(text))
        message = answer['choices'][0]['message']
        rig.need(answer['choices'][0]['finish_reason'] == 'stop', answer)
        rig.need(message['content'] or message['tool_calls'], message)
        followers = [user('What?')] + [result(call['id'], 'no') for call in message.get('tool_calls', [])]
        for follower in followers:
            more = ask(r, [*messages, message, follower], tools=TOOLS, max_tokens=4)
            cached = more['usage']['prompt_tokens_details']['cached_tokens']
            rig.need(cached >= answer['usage']['total_tokens'] - 1, (text, follower, more))


def test_no_tools(r):
    """With tool_choice "none" the model is told of none."""
    messages = [user('Do I need an umbrella?')]
    plain = ask(r, messages, max_tokens=1)['usage']['prompt_tokens']
    rig.need(ask(r, messages, tools=TOOLS, tool_choice='none', max_tokens=1)['usage']['prompt_tokens'] == plain, 'none')
    rig.need(ask(r, messages, tools=TOOLS, tool_choice='auto', max_tokens=1)['usage']['prompt_tokens'] > plain, 'auto')


def test_forced(r):
    """A call that the request forces is one, of the function and with arguments by its schema, also in a stream."""
    city = {'type': 'object', 'properties': {'city': {'enum': ['Oslo', 'Rome']}}, 'required': ['city']}
    tools = [{'type': 'function', 'function': {'name': name, 'parameters': city}} for name in ('weather', 'time')]
    biases = no_thought(r)
    for choice, names in (('required', {'weather', 'time'}), ({'type': 'function', 'function': {'name': 'time'}}, {'time'})):
        for seed in range(4):
            answer = ask(r, [user('Where is it warm?')], tools=tools, tool_choice=choice, seed=seed, **biases)
            choice_0 = answer['choices'][0]
            call_0, = choice_0['message']['tool_calls']
            rig.need(choice_0['finish_reason'] == 'tool_calls' and call_0['function']['name'] in names, answer)
            rig.need(json.loads(call_0['function']['arguments'])['city'] in ('Oslo', 'Rome'), answer)
    for choice, words in (({'type': 'function', 'function': {'name': 'nosuch'}}, "no tool is named 'nosuch'"),
                          ({'type': 'function', 'name': 'odd'}, 'not')):
        odd = {'type': 'function', 'function': {'name': 'odd', 'parameters': {'type': 'object', 'not': {}}}}
        status, _, answer = r.post(CHAT, {'messages': [user('Hi')], 'tools': [*tools, odd], 'tool_choice': choice})
        rig.need(status == 400 and answer['error']['param'] == 'tool_choice' and words in answer['error']['message'], answer)


# A reply that cannot come to its end: it has to wait for a reader long before.
ENDLESS = {'messages': [user('Count.')], 'grammar': 'root ::= [a-z]{15000}', 'max_tokens': 15000, 'stream': True,
           'logprobs': True, 'top_logprobs': 20}


def begin_endless(r):
    """The stream, its first event was read; the place of its reply."""
    connection = r.connect()
    events = rig.events(rig.ask(connection, 'POST', CHAT, ENDLESS))
    _, chunk = next(events)
    return connection, events, place(chunk)


def test_closed_connection_cancels(r):
    connection, events, (conversation, turn) = begin_endless(r)
    events.close()
    connection.close()
    # the next in line waits until the reply has ended
    native(r, 'say', conversation, 'Next.', '--wait', '--max-tokens', '0')
    turns = native(r, 'show', conversation)[0]['turns']
    rig.need(turns[turn]['finish'] == 'cancelled', turns[turn])


def test_cancelled_by_another(r):
    """What somebody cancels is no reply: an error at the end of the stream, and no [DONE]."""
    connection, events, (conversation, _) = begin_endless(r)
    native(r, 'cancel', conversation)
    rest = [data for _, data in events]
    connection.close()
    rig.need(rest[-1]['error']['code'] == 'cancelled' and '[DONE]' not in rest, rest[-1])


def test_daemon_dies(r):
    """An error inside of a stream; then 503 until there is a daemon again."""
    connection, events, _ = begin_endless(r)
    r.stop_daemon(kill=True)
    rest = [data for _, data in events]
    connection.close()
    rig.need(rest[-1]['error']['type'] == 'server_error' and '[DONE]' not in rest, rest[-1])
    status, fields, answer = r.post(CHAT, {'messages': [user('Hi')]})
    rig.need(status == 503 and int(fields['Retry-After']) > 0 and answer['error']['type'] == 'server_error', answer)
    r.start_daemon(model=MODEL)
    rig.need(r.post(CHAT, {'messages': [user('Hi')], 'max_tokens': 4})[0] == 200, 'the daemon is back')


with tempfile.TemporaryDirectory(prefix='confab-gw-') as folder:
    MODEL = write_model(os.path.join(folder, 'model.gguf'), 16384)
    rig.run(globals(), model=MODEL)
