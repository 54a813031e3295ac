#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""anthropic.py: Anthropic's dialect over the real gateway and daemon: replies whole and in pieces, histories that are sent
again as Claude Code changes them, tools, counts, and what is refused."""
import copy
import os
import sys

sys.dont_write_bytecode = True
import rig

sys.path.insert(0, os.path.join(rig.source, 'tests/util'))
import model_file

MARK = {'type': 'ephemeral'}
WEATHER = {'name': 'weather', 'description': 'The weather now.',
           'input_schema': {'type': 'object', 'properties': {'city': {'type': 'string'}}}}


def user(text):
    return {'role': 'user', 'content': text}


def body(messages, **more):
    return {'model': 'confab-small', 'max_tokens': 40, 'temperature': 0, 'messages': messages, **more}


def n_prompt(usage):
    return usage['input_tokens'] + usage['cache_read_input_tokens'] + usage['cache_creation_input_tokens']


def ask(r, messages, **more):
    status, fields, reply = r.post('/v1/messages?beta=true', body(messages, **more))
    rig.need(status == 200, (status, reply))
    rig.need(fields['Content-Type'] == 'application/json', fields)
    return reply


def gather(events):
    """A message out of the events of a stream, as the SDK makes it, with every order checked."""
    message, blocks, names, is_open = None, [], [], False
    for name, event in events:
        rig.need(event['type'] == name, event)
        names.append(name)
        if name == 'message_start':
            message = event['message']
            rig.need(message['content'] == [] and message['stop_reason'] is None, message)
        elif name == 'content_block_start':
            rig.need(not is_open and event['index'] == len(blocks), event)
            blocks.append(dict(event['content_block'], json=''))
            is_open = True
        elif name == 'content_block_delta':
            delta, block = event['delta'], blocks[event['index']]
            rig.need(is_open and event['index'] == len(blocks) - 1, event)
            key = {'text_delta': 'text', 'thinking_delta': 'thinking', 'signature_delta': 'signature',
                   'input_json_delta': 'json'}[delta['type']]
            block[key] += delta['partial_json' if key == 'json' else key]
        elif name == 'content_block_stop':
            rig.need(is_open and event['index'] == len(blocks) - 1, event)
            is_open = False
        elif name == 'message_delta':
            message.update(event['delta'])
            message['usage'].update(event['usage'])
    rig.need(not is_open and names[0] == 'message_start' and names[-2:] == ['message_delta', 'message_stop'], names)
    for block in blocks:
        text = block.pop('json')
        if text:
            block['input'] = rig.json.loads(text)
    message['content'] = blocks
    return message


def ask_in_pieces(r, messages, **more):
    return gather(r.stream('/v1/messages', body(messages, stream=True, **more)))


def test_whole_and_in_pieces(r):
    messages = [user('My name is Nora.')]
    whole = ask(r, messages)
    pieces = ask_in_pieces(r, messages)
    rig.need(whole['content'] == pieces['content'] and whole['content'][0]['text'], (whole, pieces))
    rig.need(whole['stop_reason'] == pieces['stop_reason'] == 'end_turn', (whole, pieces))
    rig.need(n_prompt(whole['usage']) == n_prompt(pieces['usage']) == 14, (whole, pieces))
    rig.need(whole['usage']['output_tokens'] == pieces['usage']['output_tokens'], (whole, pieces))
    rig.need(whole['id'].startswith('msg_') and whole['id'] != pieces['id'], (whole, pieces))


def as_claude_sends(history):
    """The last message as a list with a mark; before it strings and lists without."""
    messages = copy.deepcopy(history)
    for i, message in enumerate(messages):
        if message['role'] == 'user' and isinstance(message['content'], str) and (i == len(messages) - 1 or i % 4 == 2):
            message['content'] = [{'type': 'text', 'text': message['content']}]
    messages[-1]['content'][-1]['cache_control'] = MARK
    return messages


def test_twenty_turns(r):
    """Only what is new is computed, whatever the client moves about, also after restarts, and with a title in between."""
    system = [{'type': 'text', 'text': 'You are brief.', 'cache_control': MARK}]
    names = {'metadata': {'user_id': '{"device_id":"d","session_id":"twenty"}'}, 'system': system, 'max_tokens': 12}
    history, known = [], 0
    for turn in range(20):
        if turn == 7:
            r.stop_daemon()
            r.start_daemon()
        if turn == 13:
            r.stop_gateway()
            r.start_gateway()
        history.append(user(f'This is number {turn}. Say it again.'))
        messages = as_claude_sends(history)
        reply = ask_in_pieces(r, messages, **names) if turn % 2 else ask(r, messages, **names)
        usage = reply['usage']
        # The last token of a reply is computed with what follows it.
        rig.need(turn == 0 or usage['input_tokens'] <= n_prompt(usage) - known + 1, (turn, known, usage))
        known = n_prompt(usage) + usage['output_tokens']
        history.append({'role': 'assistant', 'content': reply['content']})
        if turn in (0, 11):
            ask(r, [user('Give a title: number')], **{**names, 'system': 'You make titles.'})
    edited = history[:18] + [user('Another question.')]
    usage = ask(r, edited, **names)['usage']
    rig.need(usage['cache_read_input_tokens'] > 0.8 * n_prompt(usage), usage)
    usage = ask(r, history + [user('Are you there?')], **names)['usage']
    rig.need(usage['input_tokens'] <= n_prompt(usage) - known + 1, (known, usage))


def test_count(r):
    messages = [user('My name is Nora.')]
    status, _, count = r.post('/v1/messages/count_tokens', {'model': 'm', 'messages': messages, 'system': 'Be brief.'})
    rig.need(status == 200, count)
    usage = ask(r, messages, system='Be brief.')['usage']
    rig.need(count == {'input_tokens': n_prompt(usage)}, (count, usage))


def test_ends(r):
    messages = [user('My name is Nora.')]
    reply = ask(r, messages, max_tokens=3)
    rig.need(reply['stop_reason'] == 'max_tokens' and reply['usage']['output_tokens'] == 3, reply)
    reply = ask(r, messages, stop_sequences=['meet'])
    rig.need((reply['stop_reason'], reply['stop_sequence']) == ('stop_sequence', 'meet'), reply)
    rig.need(reply['content'] == [{'type': 'text', 'text': 'Nice to '}], reply)


def test_nothing_to_say(r):
    """max_tokens 0 computes the prompt and says nothing; what comes then is answered, behind the few tokens that
    invite the assistant."""
    messages = [user('My name is Nora, and yours?')]
    reply = ask(r, messages, max_tokens=0)
    rig.need(reply['content'] == [] and reply['stop_reason'] == 'max_tokens', reply)
    usage = ask(r, messages)['usage']
    rig.need(usage['input_tokens'] <= 4 and usage['output_tokens'] > 0, usage)


def test_schema(r):
    reply = ask(r, [user('Hi')], output_config={'format': {'type': 'json_schema', 'schema': {'const': ['a', 1]}}})
    rig.need(rig.json.loads(reply['content'][0]['text']) == ['a', 1], reply)


def refused(r, request, status, kind, words):
    got, fields, answer = r.post('/v1/messages', request)
    rig.need(got == status and answer['type'] == 'error' and answer['error']['type'] == kind, (got, answer))
    rig.need(words in answer['error']['message'], answer)
    return fields


def test_refused(r):
    refused(r, '{"messages":', 400, 'invalid_request_error', 'not JSON')
    refused(r, {'messages': [user('Hi')]}, 400, 'invalid_request_error', 'max_tokens is not given')
    refused(r, body([{'role': 'user', 'content': [{'type': 'image', 'source': {}}]}]), 400, 'invalid_request_error',
            'messages[0].content[0].type')
    refused(r, body([user('Hi')], tool_choice={'type': 'any'}), 400, 'invalid_request_error', 'no tools are given')
    refused(r, body([user('word ' * 4000)]), 400, 'invalid_request_error', 'prompt is too long: ')
    refused(r, body([user('word ' * 4000)], stream=True), 400, 'invalid_request_error', 'prompt is too long: ')
    status, fields, answer = r.get('/v1/messages')
    rig.need(status == 405 and answer['error']['type'] == 'invalid_request_error', (status, fields, answer))
    status, _, answer = r.post('/v1/messages/batches', {})
    rig.need(status == 404 and answer['error']['type'] == 'not_found_error', (status, answer))


def test_threads(r):
    """A history that the server would hold: the SDK has to be told in this word that it is not there, to send all of it."""
    reply = ask(r, [user('I begin a thread.')], thread={'type': 'create'})
    ask(r, [user('I begin a thread.')], thread=None)
    for path in '/v1/messages?beta=true', '/v1/messages/count_tokens':
        for previous in reply['id'], 'msg_1':
            thread = {'type': 'continue', 'previous_message_id': previous}
            status, _, answer = r.post(path, body([user('Hi')], thread=thread))
            error = answer['error']
            rig.need(status == 404 and error['type'] == 'not_found_error' and 'thread' in error['message'], answer)
            rig.need(error['details'] == {'error_code': 'thread_not_found'}, answer)
    refused(r, body([user('Hi')], thread={'type': 'other'}), 400, 'invalid_request_error', 'thread.type is not')


def test_cancelled(r):
    """A reply that another program cancels is no whole one: the stream ends with an error. (It may be over before the cancel
    comes: then once more.)"""
    again = {'format': {'type': 'json_schema', 'schema': {'type': 'array', 'items': {'const': 'again'}, 'minItems': 400}}}
    for attempt in range(100):
        request = body([user(f'Say it again: {attempt}')], stream=True, output_config=again, max_tokens=1900)
        for name, event in r.stream('/v1/messages', request):
            if name == 'message_start':
                conversation = int(event['message']['id'][4:20], 16)
                r.confab('cancel', f'#{conversation}')
        if name == 'error':
            rig.need('cancelled' in event['error']['message'], event)
            return
        rig.need(name == 'message_stop', (name, event))
    rig.need(False, 'no reply was cancelled')


def test_no_daemon(r):
    r.stop_daemon()
    try:
        for path in '/v1/messages', '/v1/messages/count_tokens':
            got, fields, answer = r.post(path, body([user('Hi')]))
            rig.need(got == 529 and answer['error']['type'] == 'overloaded_error', (got, answer))
            rig.need(int(fields['Retry-After']) >= 1, fields)
    finally:
        r.start_daemon()


def test_tools(r):
    """A call in a reply, its result, and the answer: the conversation goes on with the ids of the model. Last, since the
    model is another one from here on."""
    with open(rig.MODEL, 'rb') as f:
        data = model_file.with_template(f.read(), model_file.CALLS_TEMPLATE)
    path = f'{r.folder}/tools.gguf'
    with open(path, 'wb') as f:
        f.write(data)
    r.stop_daemon()
    r.start_daemon(model=path)
    call = {'type': 'object', 'properties': {'name': {'const': 'weather'}, 'parameters': {'const': {'city': 'Oslo'}}},
            'required': ['name', 'parameters'], 'additionalProperties': False}
    form = {'format': {'type': 'json_schema', 'schema': call}}
    for fn in ask, ask_in_pieces:
        history = [user(f'Do I need a coat? {fn.__name__}')]
        reply = fn(r, history, tools=[WEATHER], output_config=form, max_tokens=400)
        rig.need(reply['stop_reason'] == 'tool_use', reply)
        block, = reply['content']
        rig.need((block['type'], block['name'], block['input']) == ('tool_use', 'weather', {'city': 'Oslo'}), reply)
        known = n_prompt(reply['usage']) + reply['usage']['output_tokens']
        history += [{'role': 'assistant', 'content': reply['content']},
                    {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': block['id'], 'content': 'cold'}]}]
        usage = fn(r, history, tools=[WEATHER])['usage']
        rig.need(usage['input_tokens'] <= n_prompt(usage) - known + 1, (known, usage))
        # a client that has made up an id of its own for the call
        history[1] = {'role': 'assistant', 'content': [dict(block, id='toolu_own')]}
        history[2]['content'][0].update(tool_use_id='toolu_own', content='warm', cache_control=MARK)
        usage = fn(r, history, tools=[WEATHER])['usage']
        rig.need(usage['cache_read_input_tokens'] >= known - 1, (known, usage))
    for choice in {'type': 'any'}, {'type': 'tool', 'name': 'weather'}:
        reply = ask(r, [user('Go.')], tools=[dict(WEATHER, input_schema={'const': {'city': 'Rome'}})], tool_choice=choice, max_tokens=400)
        block, = reply['content']
        rig.need(reply['stop_reason'] == 'tool_use' and (block['name'], block['input']) == ('weather', {'city': 'Rome'}), reply)


rig.run(globals())
