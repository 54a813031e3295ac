#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""policy.py CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE CONFAB: what the gateway decides for clients that do not say it: how long
replies are, how long conversations are kept, and what a model that calls no tools is told."""
import time

import rig
from openai_client import CHAT, ask, native, place, user

HOUR = 3600


def expiry(r, conversation):
    return native(r, 'show', conversation)[0]['about'].get('expires_after')


def test_expiry(r):
    """A conversation is kept for a short while, until somebody goes on with it."""
    messages = [user('Who is Nora?')]
    answer = ask(r, messages, max_tokens=4)
    conversation = place(answer)[0]
    rig.need(expiry(r, conversation) == 2 * HOUR, native(r, 'show', conversation))
    messages += [answer['choices'][0]['message'], user('And who is Bela?')]
    rig.need(place(ask(r, messages, max_tokens=4))[0] == conversation, 'another conversation')
    # it is set behind the reply
    end = time.monotonic() + rig.LONG
    while expiry(r, conversation) != 5 * HOUR:
        rig.need(time.monotonic() < end, native(r, 'show', conversation))
    # what a client names is never closed
    status, _, answer = r.post(CHAT, {'messages': [user('Hi')], 'max_tokens': 2}, x_conversation_id='kept')
    rig.need(status == 200 and not expiry(r, 'kept'), answer)


FUNCTION = {'name': 'weather', 'description': 'The weather now.', 'parameters': {'type': 'object', 'properties': {'city': {'type': 'string'}}}}
TOOLS = [{'type': 'function', 'function': FUNCTION}]


def cached(answer):
    return answer['usage']['prompt_tokens_details']['cached_tokens']


def test_agent_on_a_plain_model(r):
    """The bundled model knows no tools. An agent's request is a plain turn, and its history is found again."""
    messages = [{'role': 'system', 'content': 'You are kind.'}, user('My name is Nora.')]
    plain = ask(r, messages, max_tokens=24)
    answer = ask(r, messages, tools=TOOLS, tool_choice='auto', max_tokens=24)
    rig.need(answer['choices'] == plain['choices'] and answer['usage']['total_tokens'] == plain['usage']['total_tokens'], answer)
    messages += [answer['choices'][0]['message'], user('What is my name?')]
    more = ask(r, messages, tools=TOOLS, max_tokens=24)
    rig.need(cached(more) >= answer['usage']['total_tokens'] - 1, (answer, more))
    # another model had called
    function = {'name': 'weather', 'arguments': '{"city":"Oslo"}'}
    messages += [more['choices'][0]['message'], user('Do I need a coat?'),
                 {'role': 'assistant', 'content': None, 'tool_calls': [{'id': 'c1', 'type': 'function', 'function': function}]},
                 {'role': 'tool', 'tool_call_id': 'c1', 'content': 'It rains.'}]
    answer = ask(r, messages, tools=TOOLS, max_tokens=8)
    turns = [turn['text'] for turn in native(r, 'show', place(answer)[0])[0]['turns']]
    rig.need(turns[6:8] == ['weather({"city":"Oslo"})', 'Result of weather:\nIt rains.'], turns)
    messages += [answer['choices'][0]['message'], user('Thank you.')]
    more = ask(r, messages, tools=TOOLS, max_tokens=8)
    rig.need(cached(more) >= answer['usage']['total_tokens'] - 1, (answer, more))


def test_other_dialects_on_a_plain_model(r):
    """Anthropic's and Ollama's clients likewise, of the same conversation."""
    text = 'Is it cold in Rome?'
    tool = {'name': FUNCTION['name'], 'input_schema': FUNCTION['parameters']}
    status, _, answer = r.post('/v1/messages', {'model': 'm', 'max_tokens': 8, 'temperature': 0, 'tools': [tool], 'messages': [user(text)]})
    rig.need(status == 200, answer)
    status, _, answer = r.post('/api/chat', {'model': 'm', 'stream': False, 'tools': TOOLS, 'messages': [
        user(text), {'role': 'assistant', 'content': answer['content'][0]['text']},
        {'role': 'assistant', 'content': '', 'tool_calls': [{'function': {'name': 'weather', 'arguments': {'city': 'Rome'}}}]},
        {'role': 'tool', 'content': 'It rains.', 'tool_name': 'weather'}], 'options': {'num_predict': 8}})
    rig.need(status == 200 and answer['message']['role'] == 'assistant', answer)
    newest = max(native(r, 'ls')[0]['conversations'], key=lambda c: c['id'])
    turns = [turn['text'] for turn in native(r, 'show', str(newest['id']))[0]['turns']]
    rig.need(turns[-2] == 'Result of weather:\nIt rains.', turns)


def test_no_limit(r):
    """Without a limit the reply ends with the context, in each dialect; Ollama's -1 and -2 are none."""
    letters = {'type': 'string', 'pattern': '^[a-z]{20000}$'}
    form = {'response_format': {'type': 'json_schema', 'json_schema': {'schema': letters}}}
    answer = ask(r, [user('Say it.')], **form)
    rig.need(answer['choices'][0]['finish_reason'] == 'length' and answer['usage']['total_tokens'] == 768, answer)
    for options in ({}, {'num_predict': -1}, {'num_predict': -2}):
        status, _, answer = r.post('/api/chat', {'model': 'm', 'stream': False, 'messages': [user('Say it.')], 'format': letters, 'options': options})
        rig.need(status == 200 and answer['done_reason'] == 'length', answer)
        rig.need(answer['prompt_eval_count'] + answer['eval_count'] == 768, answer)
    status, _, answer = r.post('/v1/responses', {'input': 'Say it.', 'text': {'format': {'type': 'json_schema', 'name': 'x', 'schema': letters}}})
    rig.need(status == 200 and answer['incomplete_details'] == {'reason': 'max_output_tokens'}, answer)
    rig.need(answer['usage']['total_tokens'] == 768, answer)


def test_forced_calls(r):
    """A model that takes no tools can't be made to call: an error, in the form of each dialect."""
    for choice in ('required', {'type': 'function', 'function': {'name': 'weather'}}):
        status, _, answer = r.post(CHAT, {'messages': [user('Hi')], 'tools': TOOLS, 'tool_choice': choice})
        rig.need(status == 400 and answer['error']['param'] == 'tool_choice', answer)
    tool = {'name': FUNCTION['name'], 'input_schema': FUNCTION['parameters']}
    for choice in ({'type': 'any'}, {'type': 'tool', 'name': 'weather'}):
        body = {'max_tokens': 4, 'messages': [user('Hi')], 'tools': [tool], 'tool_choice': choice}
        status, _, answer = r.post('/v1/messages', body)
        rig.need(status == 400 and answer['type'] == 'error' and 'tool_choice' in answer['error']['message'], answer)
    status, _, answer = r.post('/v1/responses', {'input': 'Hi', 'tools': [{'type': 'function', **FUNCTION}], 'tool_choice': 'required'})
    rig.need(status == 400 and 'tool_choice' in answer['error']['message'], answer)


rig.run(globals(), daemon=('--context', '768'), gateway=('--expire', '5h', '--expire-once', '2h'))
