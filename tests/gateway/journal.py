#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""journal.py: what daemon and gateway tell the journal (here standard error) at the level debug, with their request logs: events and requests,
and nothing that was said, nor what users named."""
import os
import pathlib
import re
import signal
import subprocess
import time

import rig
from openai_client import CHAT, native, user

# In a text, a name, a title, a tag, a path, a query, a token, a schema: each has its own number.
SECRET = 'Zimtstern'


def secret(i):
    return f'{SECRET}{i}'


def fails(r, *args):
    done = subprocess.run([rig.confab, '--socket', r.daemon_socket, *args], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, timeout=rig.LONG)
    rig.need(done.returncode != 0, f'{args} did not fail')


def wait_for(said, words, what=re.search):
    end = time.monotonic() + rig.LONG
    while not what(words, said()):
        rig.need(time.monotonic() < end, f'in vain for "{words}": {said()}')
        time.sleep(0.02)


def daemon(r):
    return r.daemons[r.daemon_socket]


def lines(said, words):
    return [line for line in said.splitlines() if re.search(words, line)]


def test_start(r):
    """Each says once that it is ready, with what."""
    r.config = f'{r.folder}/confabd.conf'
    pathlib.Path(r.config).write_text('request-log = on\nlog-level = debug\n', 'utf-8')
    r.start_daemon('--config', r.config)
    r.start_gateway('--log-level', 'debug', '--request-log', 'on')
    # The service manager hears of it first.
    wait_for(daemon(r).said, r'(?m)^confabd: info: confabd \S+ serves \S+ on /')
    wait_for(r.gateway.said, r'(?m)^confab-gateway: info: confab-gateway \S+ answers on /')


def test_requests(r):
    """A line for each request, with what it took."""
    [opened] = native(r, 'open', secret(1), '--system', f'You know {secret(2)}.')
    number = opened['id']
    native(r, 'say', secret(1), '--max-tokens', '3', f'Hello {secret(3)}')
    [line] = lines(daemon(r).said(), rf'continue {number} of user \d+: ok in ')
    rig.need(re.search(r'prompt (\d+) tokens: \d+ from RAM, \d+ from disk, \d+ shared, \d+ computed; 3 generated \(length\); '
                       r'queued [\d.]+ ms, restore [\d.]+, prefill [\d.]+, decode [\d.]+$', line), line)
    rig.need(len(lines(daemon(r).said(), rf'info: open {number} of user \d+: ok in ')) == 1, daemon(r).said())


def test_secrets(r):
    """All that users can say, right and wrong, by both ways in."""
    native(r, 'set', secret(1), '--title', secret(4), '--tag', f'{SECRET}=5')
    native(r, 'fork', secret(1), secret(6))
    native(r, 'publish', secret(6))
    native(r, 'rename', secret(6), secret(7))
    for wrong in (('open', secret(1)), ('show', secret(8)), ('say', secret(9), 'Hi'), ('say', secret(1), '--json-schema', f'{{"{SECRET}": 1'),
                  ('say', secret(1), '--grammar', f'root ::= {SECRET}', 'Hi'), ('rename', secret(1), secret(7)),
                  ('fork', secret(1), secret(7)), ('evict', secret(8))):
        fails(r, *wrong)
    status, _, answer = r.post(CHAT, {'messages': [user(secret(10))], 'max_tokens': 2}, x_conversation_id=secret(11))
    rig.need(status == 200, answer)
    r.post(CHAT, {'messages': [{'role': secret(12), 'content': 'x'}]})
    r.post(CHAT + f'?key={secret(13)}', b'{"' + SECRET.encode(), authorization=f'Bearer {secret(14)}')
    status, _, answer = r.get(f'/confab/v1/conversations/{secret(11)}')
    rig.need(status == 200, answer)
    r.get(f'/{secret(15)}', x_api_key=secret(16))
    native(r, 'close', secret(7))
    with r.raw() as s:
        s.sendall(f'GET /{SECRET} HTTP/1.1\r\nHost: {SECRET}.example\r\n\r\n'.encode())
        rig.need(b' 421 ' in s.recv(4096), 'a foreign host')
    with r.raw() as s:
        s.sendall(f'{SECRET} /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.encode())
        rig.need(b' 405 ' in s.recv(4096), 'a method that nobody knows')
    for said in daemon(r).said(), r.gateway.said():
        rig.need(SECRET not in said, lines(said, SECRET))
    # Whose mistakes these were, is for the request log; no line of the level error, nor a warning.
    for said in daemon(r).said(), r.gateway.said():
        rig.need(not lines(said, r'^\S+: (error|warning): '), said)
    rig.need(lines(daemon(r).said(), r'administrator uid \d+ \(pid \d+\): publishing a conversation: done, conversation \d+$'), daemon(r).said())


def test_http_requests(r):
    said = r.gateway.said()
    me = rf'of user {os.geteuid()}'
    rig.need(re.search(rf'info: POST /v1/chat/completions {me}: 200 in [\d.]+ ms, begun after [\d.]+ ms; body of \d+ bytes, answer of \d+\n', said), said)
    rig.need(re.search(rf'POST /v1/chat/completions {me}: 400 in ', said), said)
    rig.need(re.search(rf'GET /confab/v1/conversations/\* {me}: 200 in ', said), said)
    rig.need(re.search(rf'GET \(no route\) {me}: 404 in ', said), said)
    rig.need(re.search(r'GET \(no route\): 421 in ', said), said)
    rig.need(re.search(r'info: \(other\) \(no route\).*: 405 in ', said), said)


def test_aborted(r):
    """A client that goes before its answer is complete."""
    connection = r.connect()
    rig.ask(connection, 'POST', CHAT, {'messages': [user('Tell me a long story.')], 'max_tokens': 1500, 'stream': True,
                                       'logit_bias': {}}).fp.readline()
    connection.close()
    wait_for(r.gateway.said, r'POST /v1/chat/completions of user \d+: 200, aborted in ')
    wait_for(daemon(r).said, r'continue \d+ of user \d+: (ok|cancelled|disconnected) in ')


def test_a_daemon_that_goes(r):
    """It is told once that a daemon is lost, however many ask, and once that it is back."""
    r.stop_daemon()
    for _ in range(3):
        rig.need(r.post(CHAT, {'messages': [user('Hi')]})[0] == 503, 'without a daemon')
    rig.need(len(lines(r.gateway.said(), r"^confab-gateway: warning: '.*' does not answer: ")) == 1, r.gateway.said())
    r.start_daemon('--config', r.config)
    rig.need(r.get('/health')[0] == 200 and r.get('/health')[0] == 200, 'with a daemon')
    rig.need(len(lines(r.gateway.said(), r"^confab-gateway: info: '.*' answers, with the model \S+")) == 2, r.gateway.said())


def test_reload(r):
    """What was changed is named; a mistake is an error, and nothing changes; the request log can be switched off."""
    d = daemon(r)
    pathlib.Path(r.config).write_text('request-log = off\nlog-level = debug\nlist-page = 7\ncontext = 1024\nmax-queued = 100\n', 'utf-8')
    d.process.send_signal(signal.SIGHUP)
    wait_for(d.said, r'info: settings reloaded: list-page, request-log\n.*warning: settings that wait for a restart: context, max-queued\n')
    before = len(lines(d.said(), r'info: stats of user'))
    native(r, 'stats')
    rig.need(len(lines(d.said(), r'info: stats of user')) == before, d.said())
    pathlib.Path(r.config).write_text('bogus = 1\n', 'utf-8')
    d.process.send_signal(signal.SIGHUP)
    wait_for(d.said, r'error: settings stay as they were: .*bogus')
    r.gateway.process.send_signal(signal.SIGHUP)
    wait_for(r.gateway.said, r'info: settings reloaded\n')


def test_end(r):
    r.stop_gateway()
    said = r.gateway_said
    rig.need(said.endswith('confab-gateway: info: stopping\nconfab-gateway: info: stopped\n'), said)
    d = daemon(r)
    r.stop_daemon()
    rig.need(re.search(r'info: stopping: 0 requests in flight\n(.*debug: .*\n)*confabd: info: stopped\n$', d.said()), d.said())


rig.run(globals(), daemon=None, gateway=None)
