#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""long.py CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE CONFAB: histories of thousands of messages, as agents have them."""
import rig
from openai_client import ask, place, user

N = 1040


def cached(answer):
    return answer['usage']['prompt_tokens_details']['cached_tokens']


def test_many_messages(r):
    """Calls and results among them. The whole is taken in once, found again, and found where it was edited."""
    messages = [user('Begin.')]
    for i in range(N // 2):
        function = {'name': 'f', 'arguments': '{}'}
        if i % 16 == 0:
            messages.append({'role': 'assistant', 'content': None,
                             'tool_calls': [{'id': f'c{i}', 'type': 'function', 'function': function}]})
            messages.append({'role': 'tool', 'tool_call_id': f'c{i}', 'content': str(i)})
        else:
            messages += [{'role': 'assistant', 'content': 'a'}, user(str(i % 10))]
    answer = ask(r, messages, max_tokens=2, grammar='root ::= "ok"')
    rig.need(place(answer)[1] == N + 1, answer)
    messages += [answer['choices'][0]['message'], user('More.')]
    more = ask(r, messages, max_tokens=2, grammar='root ::= "ok"')
    rig.need(place(more)[0] == place(answer)[0] and cached(more) >= answer['usage']['total_tokens'] - 1, more)
    edited = [*messages[:N - 1], user('Less.')]
    less = ask(r, edited, max_tokens=2, grammar='root ::= "ok"')
    rig.need(place(less)[1] == N and cached(less) > 0.9 * less['usage']['prompt_tokens'], less)


def test_too_many(r):
    """More than a request may have is an error that says so."""
    status, _, answer = r.post('/v1/chat/completions', {'messages': [user('a')] * 16385})
    rig.need(status == 400 and '16384' in answer['error']['message'], answer)


rig.run(globals(), model=('tiny:llama', '65536'), daemon=('--pool-size', '256M'))
