#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""openai.py CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE CONFAB: /v1/models, /v1/chat/completions and /v1/completions, from a
client's bytes to the daemon's tokens."""
import json
import struct

import rig
from openai_client import CHAT, TEXT, ask, check_chunks, computed, native, only, place, user


def test_models(r):
    status, _, body = r.get('/v1/models')
    model, = body['data']
    rig.need(status == 200 and body['object'] == 'list' and model['id'] == 'confab-small', body)
    rig.need(model['object'] == 'model' and model['owned_by'] and model['created'] > 1600000000, model)
    for name in ('confab-small', 'mock-model', 'a/b'): # one daemon: clients may call its model as they like
        status, _, body = r.get('/v1/models/' + name)
        rig.need(status == 200 and body == model, body)


def test_stream_is_whole(r):
    messages = [{'role': 'system', 'content': 'You are kind.'}, user('My name is Nora.')]
    whole = ask(r, messages)
    text = whole['choices'][0]['message']['content']
    rig.need('Nora' in text and whole['choices'][0]['finish_reason'] == 'stop', whole)
    rig.need(whole['system_fingerprint'] == r.get('/v1/models')[2]['data'][0]['meta']['fingerprint'], whole)
    for usage in (False, True):
        body = {'messages': messages, 'temperature': 0, 'stream': True, 'stream_options': {'include_usage': usage}}
        chunks = list(r.stream(CHAT, body))
        rig.need(check_chunks(chunks, usage=usage) == [text], chunks)


def test_twenty_turns(r):
    """Each request resends everything; what is computed is the new message. So after a restart, too."""
    messages, before = [], 0
    for turn in range(20):
        messages.append(user(f'My name is Nora, and this is number {turn}.'))
        answer = ask(r, messages, max_tokens=24)
        # the last token of a reply was sampled, and is computed when something follows it
        new = answer['usage']['prompt_tokens'] - before
        rig.need(computed(answer) <= new + 1, (turn, answer['usage'], before))
        rig.need(turn == 0 or answer['usage']['prompt_tokens_details']['cached_tokens'] >= before - 1, answer)
        rig.need(place(answer)[1] == 2 * turn + 1, answer['id'])
        before = answer['usage']['total_tokens']
        message = answer['choices'][0]['message']
        # as clients change it: a list of parts, and the fields of the answer
        messages.append({'role': 'assistant', 'content': [{'type': 'text', 'text': message['content']}], 'refusal': None})
        if turn == 10:
            r.stop_gateway()
            r.stop_daemon()
            r.start_daemon()
            r.start_gateway()
    # another word in the tenth message: what stands before it is not computed again
    edited = [*messages[:20], user('My name is Olga now.')]
    answer = ask(r, edited, max_tokens=24)
    rig.need(computed(answer) < 40, answer['usage'])
    # and the conversation is as it was
    answer = ask(r, [*messages, user('And now?')], max_tokens=24)
    rig.need(computed(answer) < 20 and place(answer)[1] == 41, answer)


def test_logprobs_are_native(r):
    """Bit for bit those of the same conversation by the native protocol, over three turns."""
    questions, messages, answers = ('My name is Ida.', 'What is my name?', 'Do you know where I live?'), [], []
    for text in questions:
        messages.append(user(text))
        answers.append(ask(r, messages, logprobs=True, top_logprobs=5))
        messages.append(answers[-1]['choices'][0]['message'])
    name = native(r, 'open', 'native')[0]['name'] # later: what begins with the same words would be found
    for text, answer in zip(questions, answers):
        told = answer['choices'][0]['logprobs']['content']
        content = answer['choices'][0]['message']['content']
        events = native(r, 'say', name, text, '--logprobs', '5', '--temperature', '0')
        tokens = [token for event in events for token in event.get('tokens', [])]
        # the end-of-turn token has no text
        rig.need(len(tokens) == len(told) + 1 == answer['usage']['completion_tokens'], (tokens, told))
        rig.need(''.join(t['token'] for t in told) == content, told)
        rig.need(b''.join(bytes(t['bytes']) for t in told).decode() == content, told)
        for mine, theirs in zip(told, tokens):
            same(mine['logprob'], theirs['logprob'])
            rig.need(len(mine['top_logprobs']) == 5, mine)
            for a, b in zip(mine['top_logprobs'], theirs['top']):
                same(a['logprob'], b['logprob'])


def same(a, b):
    rig.need(struct.pack('f', a) == struct.pack('f', b), f'{a!r} is not {b!r}')


def test_stream_logprobs(r):
    body = {'messages': [user('My name is Ada.')], 'temperature': 0, 'stream': True, 'logprobs': True}
    whole = ask(r, body['messages'], logprobs=True)['choices'][0]
    told = []
    for _, data in r.stream(CHAT, body):
        if data != '[DONE]' and data['choices'][0]['logprobs']:
            told += data['choices'][0]['logprobs']['content']
    rig.need(told == whole['logprobs']['content'] and told, (told, whole))


def test_choices(r):
    messages = [user('Tell me a word.')]
    body = {'messages': messages, 'n': 3, 'seed': 5, 'temperature': 1.5, 'max_tokens': 16}
    answer = r.post(CHAT, body)[2]
    texts = [choice['message']['content'] for choice in answer['choices']]
    rig.need([choice['index'] for choice in answer['choices']] == [0, 1, 2], answer)
    rig.need(len(set(texts)) > 1, texts) # a seed for each
    rig.need(r.post(CHAT, body)[2]['choices'] == answer['choices'], 'the same seed, other texts')
    one = r.post(CHAT, {**body, 'n': 1})[2]
    rig.need(one['choices'][0]['message']['content'] == texts[0], one)
    rig.need(answer['usage']['prompt_tokens'] == one['usage']['prompt_tokens'], 'the prompt counts once')
    chunks = list(r.stream(CHAT, {**body, 'stream': True, 'stream_options': {'include_usage': True}}))
    rig.need(check_chunks(chunks, n=3, usage=True) == texts, chunks)


def test_settings(r):
    messages = [user('My name is Mia.')]
    answer = ask(r, messages, max_tokens=2, max_completion_tokens=3)
    rig.need(answer['choices'][0]['finish_reason'] == 'length' and answer['usage']['completion_tokens'] == 3, answer)
    answer = ask(r, messages, stop=['meet', 'xyz'])
    rig.need(answer['choices'][0]['message']['content'] == 'Nice to ' and
             answer['choices'][0]['finish_reason'] == 'stop', answer)
    # a limit is no demand: not over the context either
    rig.need(ask(r, messages, max_tokens=32000)['choices'][0]['finish_reason'] == 'stop', 'a high limit')
    first = ask(r, messages, logprobs=True)['choices'][0]['logprobs']['content'][0]['token']
    tokens = native(r, 'tokenize', first)[0]['tokens']
    other = ask(r, messages, logit_bias={str(tokens[0]): -100}, max_tokens=1)
    rig.need(not first.startswith(other['choices'][0]['message']['content'] or first), (first, other))
    # what says nothing is not there
    answer = ask(r, [user('My name is Mia.'), {'role': 'assistant', 'content': ''}, {'role': 'assistant', 'content': None}])
    rig.need('Mia' in answer['choices'][0]['message']['content'], answer)


def test_formats(r):
    schema = {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'], 'additionalProperties': False}
    formats = [({'type': 'json_object'}, dict),
               ({'type': 'json_schema', 'json_schema': {'name': 'x', 'strict': True, 'schema': schema}}, dict),
               ({'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': {'enum': ['a', 'b']}}}, str)]
    for form, kind in formats:
        text = ask(r, [user('A number.')], response_format=form, max_tokens=200)['choices'][0]['message']['content']
        rig.need(isinstance(json.loads(text), kind), text)
    rig.need(ask(r, [user('A.')], grammar='root ::= "yes"')['choices'][0]['message']['content'] == 'yes', 'grammar')


def test_foreseen(r):
    """What repeats is foreseen, as far as this machine's times say that it pays: the figures are the daemon's own."""
    before = r.stats()
    usage = ask(r, [user('Count.')], grammar=only('one two three four five six. ' * 8), max_tokens=300)['usage']
    after, told = r.stats(), usage['completion_tokens_details']
    drafted, accepted = (after[name] - before[name] for name in ('tokens_drafted', 'tokens_accepted'))
    rig.need(told['accepted_prediction_tokens'] == accepted < usage['completion_tokens'], usage)
    rig.need(told['rejected_prediction_tokens'] == drafted - accepted >= 0, usage)
    if drafted == 0:
        print('no draft paid here: these figures are all 0')


def test_notes(r):
    ask(r, [user('Note this.')], prompt_cache_key='key-1', metadata={'a': 'b'})
    listed = [c for c in native(r, 'ls')[0]['conversations'] if c.get('about', {}).get('session') == 'key-1']
    rig.need(len(listed) == 1, listed)
    about = listed[0]['about']
    rig.need(json.loads(about['metadata']) == {'a': 'b'} and 'openai' in about['tags'], about)


def test_completions(r):
    body = {'model': 'm', 'prompt': 'Once upon', 'max_tokens': 6, 'temperature': 0}
    one = r.post(TEXT, body)[2]
    text = one['choices'][0]['text']
    rig.need(one['object'] == 'text_completion' and one['id'].startswith('cmpl-') and text, one)
    rig.need(r.post(TEXT, {**body, 'echo': True})[2]['choices'][0]['text'] == 'Once upon' + text, 'echo')
    # the same as tokens, and several at once
    tokens = native(r, 'tokenize', 'Once upon')[0]['tokens']
    several = r.post(TEXT, {**body, 'prompt': ['Once upon', tokens, 'The'], 'logprobs': 2})[2]
    rig.need([c['index'] for c in several['choices']] == [0, 1, 2], several)
    rig.need([c['text'] for c in several['choices']][:2] == [text, text], several)
    for choice in several['choices']:
        told = choice['logprobs']
        rig.need(''.join(told['tokens']) == choice['text'] and told['text_offset'][0] == 0, choice)
        rig.need({len(told[key]) for key in told} == {len(told['tokens'])}, told)
        rig.need(all(len(top) == 2 and token in top for token, top in zip(told['tokens'], told['top_logprobs'])), told)
    chunks = [data for _, data in r.stream(TEXT, {**body, 'stream': True, 'echo': True, 'n': 2, 'prompt': ['Once upon', 'The'],
                                                  'stream_options': {'include_usage': True}})]
    rig.need(chunks.pop() == '[DONE]', chunks)
    usage = chunks.pop()
    rig.need(usage['choices'] == [] and usage['usage']['prompt_tokens'] > len(tokens), usage)
    for i, start in enumerate(('Once upon', 'Once upon', 'The', 'The')):
        pieces = [c['choices'][0] for c in chunks if c['choices'][0]['index'] == i]
        rig.need(pieces[0]['text'] == start and pieces[-1]['finish_reason'], pieces)
        rig.need(i > 1 or ''.join(p['text'] for p in pieces) == 'Once upon' + text, pieces)


WRONG = [
    ({'messages': [user([{'type': 'image_url', 'image_url': {'url': 'x'}}])]}, 'messages[0].content[0]', 'unsupported_parameter'),
    ({'messages': []}, 'messages', None),
    ({'messages': [user('a'), {'role': 'assistant', 'content': 'b'}]}, 'messages', None),
    ({'messages': [user('word ' * 5000)]}, 'messages', 'context_length_exceeded'),
    ({'tool_choice': 'required'}, 'tool_choice', 'unsupported_parameter'),  # without tools
    ({'tools': [{'type': 'function', 'function': {'name': ''}}]}, 'tools[0].function.name', None),
    ({'response_format': {'type': 'json_schema', 'json_schema': {'schema': {'type': 'odd'}}}}, 'response_format', None),
    ({'response_format': {'type': 'json_schema', 'json_schema': {'schema': {'if': {}}}}}, 'response_format',
     'unsupported_parameter'),
    ({'grammar': 'root ='}, 'grammar', None),
    ({'n': 100}, 'n', None),
    ({'logit_bias': {'999999': 1}}, 'logit_bias', None),
    ({'logprobs': True, 'top_logprobs': 21}, 'top_logprobs', None),
    ({'stream': 'yes'}, 'stream', None),
]


def test_errors(r):
    for body, param, code in WRONG:
        for stream in (False, True):
            status, _, answer = r.post(CHAT, {'messages': [user('Hi')], 'stream': stream, **body})
            error = answer['error']
            rig.need(status == 400 and error['type'] == 'invalid_request_error' and error['message'], answer)
            rig.need((error['param'], error['code']) == (param, code), (body, error))
    for body, param in (({'prompt': 'word ' * 5000}, 'prompt'), ({'prompt': 'a', 'suffix': 'b'}, 'suffix'), ({}, 'prompt')):
        status, _, answer = r.post(TEXT, body)
        rig.need(status == 400 and answer['error']['param'] == param, answer)
    for path in ('/v1/embeddings', '/v1/audio/speech', '/v1/images/generations'):
        status, fields, answer = r.post(path, {'input': 'a'})
        rig.need(status == 501 and answer['error']['code'] == 'unsupported' and fields['x-should-retry'] == 'false', answer)
    status, _, answer = r.get('/v1/nothing')
    rig.need(status == 404 and answer['error']['type'] == 'invalid_request_error', answer)
    status, fields, answer = r.get(CHAT)
    rig.need(status == 405 and 'POST' in fields['Allow'] and answer['error']['message'], answer)


rig.run(globals(), daemon=('--speculation', 'auto')) # usage tells of drafts
