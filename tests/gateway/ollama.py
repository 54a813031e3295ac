#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ollama.py: Ollama's dialect over the real gateway and daemon: models, chats, prompts with the tokens of what was said, and
what is refused."""
import sys

sys.dont_write_bytecode = True
import rig

GREEDY = {'temperature': 0, 'num_predict': 40}


def user(text):
    return {'role': 'user', 'content': text}


def stream(r, path, body):
    """The lines of a stream; the last one alone is done."""
    connection = r.connect()
    try:
        response = rig.ask(connection, 'POST', path, body)
        if response.status != 200:
            raise AssertionError(f'{response.status}: {response.read()}')
        rig.need(response.headers['Content-Type'] == 'application/x-ndjson', response.headers)
        lines = list(rig.lines(response))
    finally:
        connection.close()
    rig.need([line['done'] for line in lines] == [False] * (len(lines) - 1) + [True], lines)
    return lines


def ask(r, path, body):
    status, fields, reply = r.post(path, {**body, 'stream': False})
    rig.need(status == 200 and fields['Content-Type'] == 'application/json', (status, reply))
    rig.need(reply['done'] and reply['created_at'].endswith('Z'), reply)
    return reply


def chat(r, messages, **options):
    return ask(r, '/api/chat', {'model': 'm', 'messages': messages, 'options': {**GREEDY, **options}})


def computed(r):
    """Tokens of prompts that the daemon has computed so far."""
    return r.stats()['tokens_prefilled']


def test_root(r):
    status, _, text = r.get('/')
    rig.need(status == 200 and text == b'Ollama is running', text)
    status, fields, text = r.request('HEAD', '/')
    rig.need(status == 200 and text == b'' and int(fields['Content-Length']) == 17, fields)


def test_models(r):
    _, _, tags = r.get('/api/tags')
    model, = tags['models']
    rig.need(model['name'] == model['model'] == 'confab-small:latest' and model['size'] > 1000000, model)
    rig.need(model['details']['format'] == 'gguf' and model['details']['family'] == 'llama', model)
    _, _, loaded = r.get('/api/ps')
    rig.need(loaded['models'][0]['context_length'] == 2048 and loaded['models'][0]['digest'] == model['digest'], loaded)
    for name in 'model', 'name':
        status, _, shown = r.post('/api/show', {name: model['name']})
        rig.need(status == 200 and shown['details'] == model['details'], shown)
        rig.need(shown['model_info']['llama.context_length'] == 2048, shown)
        rig.need(shown['capabilities'] == ['completion'], shown)
    status, _, answer = r.post('/api/show', {})
    rig.need(status == 400 and 'model is not given' in answer['error'], answer)
    _, _, version = r.get('/api/version')
    rig.need([int(n) for n in version['version'].split('.')] >= [0, 12, 0], version)


def test_chat(r):
    messages = [user('My name is Nora.')]
    whole = chat(r, messages)
    lines = stream(r, '/api/chat', {'model': 'm', 'messages': messages, 'options': GREEDY})
    rig.need(whole['message'] == {'role': 'assistant', 'content': ''.join(l['message']['content'] for l in lines)}, lines)
    rig.need(len(lines) > 3, lines)
    for last in whole, lines[-1]:
        rig.need(last['done_reason'] == 'stop' and last['prompt_eval_count'] == 14 and last['eval_count'] > 3, last)
        rig.need(last['total_duration'] >= last['eval_duration'] > 0, last)
    rig.need(chat(r, messages, num_predict=2)['done_reason'] == 'length', 'num_predict')
    reply = chat(r, messages, stop=['meet'])
    rig.need(reply['message']['content'] == 'Nice to ' and reply['done_reason'] == 'stop', reply)


def test_turns(r):
    """A history that is sent again is not computed again."""
    history, known = [{'role': 'system', 'content': 'You are brief.'}], 0
    for turn in range(8):
        history.append(user(f'This is number {turn}.'))
        before = computed(r)
        reply = chat(r, history, num_predict=12)
        rig.need(turn == 0 or computed(r) - before <= reply['prompt_eval_count'] - known + 1, (turn, known, reply))
        known = reply['prompt_eval_count'] + reply['eval_count']
        history.append({**reply['message'], 'content': reply['message']['content'].strip() + (' ' if turn % 2 else '')})


def test_format(r):
    body = {'messages': [user('Hi')], 'options': {**GREEDY, 'num_predict': 300}}
    reply = ask(r, '/api/chat', {**body, 'format': {'const': {'a': [1]}}})
    rig.need(rig.json.loads(reply['message']['content']) == {'a': [1]}, reply)
    reply = ask(r, '/api/chat', {**body, 'format': 'json'})
    rig.need(reply['message']['content'].lstrip().startswith('{'), reply)


def test_logprobs(r):
    reply = ask(r, '/api/chat', {'messages': [user('Hi')], 'options': GREEDY, 'logprobs': True, 'top_logprobs': 2})
    tokens = reply['logprobs']
    rig.need(''.join(t['token'] for t in tokens) == reply['message']['content'], reply) # not the token of the end
    for token in tokens:
        rig.need(token['logprob'] <= 0 and len(token['top_logprobs']) == 2, token)
        rig.need(token['token'] == token['top_logprobs'][0]['token'], token) # the greedy choice
        rig.need(bytes(token['bytes']).decode() == token['token'], token)


def test_generate(r):
    lines = stream(r, '/api/generate', {'model': 'm', 'prompt': 'My name is Nora.', 'options': GREEDY})
    rig.need(''.join(l['response'] for l in lines) == 'Nice to meet you, Nora!', lines)
    context = lines[-1]['context']
    rig.need(len(context) == lines[-1]['prompt_eval_count'] + lines[-1]['eval_count'], lines[-1])
    for _ in range(2): # the same tokens may come twice
        before = computed(r)
        reply = ask(r, '/api/generate', {'prompt': 'What is my name?', 'context': context, 'options': GREEDY})
        rig.need('Nora' in reply['response'], reply)
        rig.need(reply['context'][:len(context)] == context, reply)
        # shared with the conversation that they came from, but for the last part of a block
        rig.need(computed(r) - before <= len(reply['context']) - reply['eval_count'] - len(context) + 32, reply)
    status, _, answer = r.post('/api/generate', {'prompt': 'Hi', 'context': [1, 99999999]})
    rig.need(status == 400 and answer['error'], answer)


def test_raw(r):
    reply = ask(r, '/api/generate', {'prompt': '<|im_start|>user', 'raw': True, 'options': {**GREEDY, 'num_predict': 3}})
    rig.need('context' not in reply and 0 < reply['eval_count'] <= 3 and reply['response'], reply)


def test_load(r):
    for path in '/api/chat', '/api/generate':
        rig.need(ask(r, path, {'model': 'm'})['done_reason'] == 'load', path)
        rig.need(ask(r, path, {'model': 'm', 'keep_alive': 0})['done_reason'] == 'unload', path)


def refused(r, path, body, status, words):
    got, _, answer = r.post(path, body)
    rig.need(got == status and list(answer) == ['error'] and words in answer['error'], (got, answer))


def test_refused(r):
    refused(r, '/api/chat', '[]', 400, 'not a JSON object')
    refused(r, '/api/chat', {'messages': [{'role': 'user', 'content': 'a', 'images': ['x']}]}, 400, 'messages[0].images')
    refused(r, '/api/chat', {'messages': [user('Hi')], 'options': {'top_p': 'x'}}, 400, 'options.top_p')
    refused(r, '/api/chat', {'messages': [user('word ' * 4000)]}, 400, 'context')
    refused(r, '/api/embed', {'model': 'm', 'input': 'x'}, 501, 'embeddings')
    refused(r, '/api/pull', {'model': 'm'}, 501, 'pulled')
    refused(r, '/api/nothing', {}, 404, '/api/nothing')


def test_old_turns_go(r):
    """A chat that outgrows the context drops old turns, unless the client wants an error."""
    history = []
    for _ in range(8):
        history.append(user('word ' * 300))
        history.append(chat(r, history, num_predict=4)['message'])
    refused(r, '/api/chat', {'messages': [user('other')] + history[1:] + [user('more')], 'shift': False}, 400, 'context')


def test_client_goes(r):
    """A client that goes away cancels its reply."""
    with r.raw() as s:
        body = rig.json.dumps({'messages': [user('Tell me all.')], 'format': {'type': 'array', 'items': {'const': 'again'},
                                                                             'minItems': 300}})
        s.sendall(f'POST /api/chat HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}'.encode())
        rig.need(b'200 OK' in s.recv(100), 'the answer begins')
    while r.stats()['requests_active'] > 0:
        pass


rig.run(globals())
