# SPDX-License-Identifier: MIT
"""python3-openai.py URL KEY [SOCKET]: chats with sid's python3-openai. Each line of standard input is a JSON object, and
so is each line of the answer: {"messages", "how", ...} is answered by {"text", "n_prompt", "n_cached", "n_generated",
"logprobs"}, or {"error", "status", "param"}."""
import json
import sys
import types

import openai

try:
    import httpx2 as httpx
except ImportError: # that of older releases
    import httpx


def create(client, asked):
    answer = client.chat.completions.create(**asked)
    choice = answer.choices[0]
    return choice.message.content, choice.logprobs, answer.usage


def stream(client, asked):
    text, logprobs, usage = '', [], None
    for chunk in client.chat.completions.create(stream=True, stream_options={'include_usage': True}, **asked):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ''
            if choice.logprobs:
                logprobs += choice.logprobs.content
    return text, logprobs, usage


def helper(client, asked):
    """The strict one: it puts the reply together itself and looks at each event."""
    with client.chat.completions.stream(stream_options={'include_usage': True}, **asked) as events:
        ends = [event.type for event in events if event.type.endswith('.done')]
        answer = events.get_final_completion()
    if ends != ['content.done', 'logprobs.content.done']:
        raise ValueError(f'the stream ended with {ends}')
    choice = answer.choices[0]
    return choice.message.content, choice.logprobs, answer.usage


def responses(client, asked):
    """The strict one of responses, with all of the history."""
    fields = {'model': asked['model'], 'input': asked['messages'], 'temperature': asked['temperature'], 'store': False,
              'max_output_tokens': asked['max_tokens'], 'include': ['message.output_text.logprobs']}
    with client.responses.stream(**fields) as events:
        text = ''.join(event.delta for event in events if event.type == 'response.output_text.delta')
        answer = events.get_final_response()
    if text != answer.output_text:
        raise ValueError(f'the deltas say {text!r}, the reply is {answer.output_text!r}')
    usage = types.SimpleNamespace(prompt_tokens=answer.usage.input_tokens, completion_tokens=answer.usage.output_tokens,
                                  prompt_tokens_details=answer.usage.input_tokens_details)
    return text, [token for item in answer.output for part in item.content for token in part.logprobs], usage


def leave(client, asked):
    """Closes the connection behind the first words."""
    with client.chat.completions.create(stream=True, **asked) as chunks:
        for chunk in chunks:
            if chunk.choices and chunk.choices[0].delta.content:
                return chunk.choices[0].delta.content, None, None
    raise ValueError('the stream has no words')


def answer(client, how, asked):
    ways = {'create': create, 'stream': stream, 'helper': helper, 'responses': responses, 'leave': leave}
    text, logprobs, usage = ways[how](client, asked)
    told = {'text': text}
    if usage:
        told |= {'n_prompt': usage.prompt_tokens, 'n_cached': usage.prompt_tokens_details.cached_tokens,
                 'n_generated': usage.completion_tokens}
    if logprobs:
        told['logprobs'] = [token.logprob for token in getattr(logprobs, 'content', logprobs)]
    return told


def main():
    url, key, *unix = sys.argv[1:]
    http = httpx.Client(transport=httpx.HTTPTransport(uds=unix[0])) if unix else None
    client = openai.OpenAI(base_url=f'{url}/v1', api_key=key, max_retries=0, http_client=http)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            told = answer(client, asked.pop('how'), asked)
        except openai.APIStatusError as error:
            told = {'error': type(error).__name__, 'status': error.status_code, 'code': error.code, 'param': error.param}
        print(json.dumps(told), flush=True)


main()
