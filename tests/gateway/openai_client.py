# SPDX-License-Identifier: MIT
"""What tests of the OpenAI dialect share. They are called with CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE CONFAB."""
import json
import os
import subprocess
import sys

import rig

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../util'))
import model_file

confab = sys.argv[5]
CHAT, TEXT = '/v1/chat/completions', '/v1/completions'


def native(r, *args):
    """What the command prints with --json, line by line."""
    done = subprocess.run([confab, '--socket', r.daemon_socket, '--json', *args], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, timeout=rig.LONG)
    rig.need(done.returncode == 0, f'{args}: {done.stderr}')
    return [json.loads(line) for line in done.stdout.splitlines()]


def no_thought(r):
    """Biases without which no reasoning is opened: a small model may not come to its end."""
    texts = ['<think>'[i:k] for i in range(4) for k in range(i + 1, 8) if 'h' in '<think>'[i:k]]
    tokens = [native(r, 'tokenize', '--no-stdin', text) for text in texts]
    return {'logit_bias': {str(line['tokens'][0]): -100 for line, *_ in tokens if len(line['tokens']) == 1}}


def user(text):
    return {'role': 'user', 'content': text}


def ask(r, messages, **more):
    status, _, body = r.post(CHAT, {'model': 'm', 'messages': messages, 'temperature': 0, **more})
    rig.need(status == 200, body)
    return body


def place(answer):
    """Conversation and turn, by the id of an answer."""
    _, _, conversation, turn, _ = answer['id'].split('-')
    return str(int(conversation, 16)), int(turn, 16)


def computed(answer):
    usage = answer['usage']
    rig.need(usage['total_tokens'] == usage['prompt_tokens'] + usage['completion_tokens'], usage)
    return usage['prompt_tokens'] - usage['prompt_tokens_details']['cached_tokens']


def check_chunks(chunks, n=1, usage=False):
    """The order of a stream; the text of each choice."""
    rig.need(chunks[-1] == (None, '[DONE]'), chunks[-1])
    chunks = [data for name, data in chunks[:-1]]
    if usage:
        last = chunks.pop()
        rig.need(last['choices'] == [] and last['usage']['completion_tokens'] > 0, last)
        rig.need(all(chunk['usage'] is None for chunk in chunks), 'usage')
    heads = {tuple(chunk[key] for key in ('id', 'object', 'created', 'model', 'system_fingerprint')) for chunk in chunks}
    rig.need(len(heads) == 1 and heads.pop()[1] == 'chat.completion.chunk', heads)
    texts, ended = {}, set()
    for chunk in chunks:
        choice, = chunk['choices']
        i = choice['index']
        rig.need(i not in ended, 'something behind the end of a choice')
        if i not in texts:
            rig.need(choice['delta'] == {'role': 'assistant', 'content': ''}, choice)
        texts[i] = texts.get(i, '') + choice['delta'].get('content', '')
        if choice['finish_reason']:
            rig.need(choice['delta'] == {}, choice)
            ended.add(i)
    rig.need(sorted(texts) == list(range(n)) and len(ended) == n, (texts, ended))
    return [texts[i] for i in range(n)]


def write_model(path, context):
    """The bundled model with a template that takes tools, and a longer context."""
    with open(os.path.join(rig.source, 'models/confab-small.q8_0.gguf'), 'rb') as f:
        model = model_file.with_template(f.read(), model_file.TOOLS_TEMPLATE)
    with open(path, 'wb') as f:
        f.write(model_file.with_context(model, context))
    return path


# What a model with that template writes: reasoning, and a call.
THOUGHT = '<think>\nI need it.\n</think>\n\n'


def call(city):
    return '<tool_call>\n{"name": "weather", "arguments": {"city": "%s"}}\n</tool_call>' % city


def only(text):
    """The grammar with which a reply is this text."""
    return 'root ::= ' + json.dumps(text)
