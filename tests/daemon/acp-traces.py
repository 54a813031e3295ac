#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""acp-traces.py CONFABD CONFAB SOURCE: what editors were recorded to say to other agents is said to `confab acp`. Every
request is answered, with the members that the recorded answer has to have; ids of sessions are exchanged for ours."""
import glob
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
from acp_rig import Agent, Daemon, need

confabd, confab, source = sys.argv[1:4]
MODEL = os.path.join(source, 'models/confab-small.q8_0.gguf')
TRACES = os.path.join(os.environ.get('CONFAB_SHARED', os.path.join(source, '..', 'shared')), 'facts/http/traces')
traces = sorted(glob.glob(os.path.join(TRACES, 'acp-*.jsonl')))
if not traces or not os.path.exists(MODEL):
    print(f'SKIP: no recorded sessions of ACP in {TRACES}, or no {MODEL}')
    sys.exit(77)

REQUIRED = {'initialize': 'protocolVersion', 'session/new': 'sessionId', 'session/prompt': 'stopReason',
            'session/list': 'sessions', 'session/fork': 'sessionId'}


class Trace:
    def __init__(self, daemon, path):
        self.daemon, self.name, self.agent = daemon, os.path.basename(path), None
        self.sessions = {} # theirs: ours
        with open(path, encoding='utf-8') as f:
            self.lines = [json.loads(line) for line in f]
        self.n_requests = 0

    def recorded(self, at, number):
        """The recorded answer to the request in line `at`."""
        for who, message in self.lines[at + 1:]:
            if who == 'agent' and message.get('id') == number and 'method' not in message:
                return message
        return {'result': {}}

    def ours(self, message):
        message = json.loads(json.dumps(message))
        params = message.get('params', {})
        if 'sessionId' in params:
            params['sessionId'] = self.sessions[params['sessionId']]
        return message

    def check(self, at, message):
        recorded, answer = self.recorded(at, message['id']), self.agent.answer(message['id'])
        method = message['method']
        need('result' in answer, f'{self.name}: {method} failed: {answer}')
        result, theirs = answer['result'], recorded.get('result', {})
        if method in REQUIRED:
            need(REQUIRED[method] in result, f'{self.name}: {method} has {REQUIRED[method]}: {answer}')
        if theirs.get('stopReason') == 'cancelled':
            need(result['stopReason'] == 'cancelled', f'{self.name}: the prompt is cancelled: {answer}')
        if 'sessionId' in theirs:
            self.sessions[theirs['sessionId']] = result.get('sessionId', message.get('params', {}).get('sessionId'))
        if method == 'session/list':
            listed = {s['sessionId'] for s in result['sessions']}
            known = {self.sessions[s['sessionId']] for s in theirs.get('sessions', []) if s['sessionId'] in self.sessions}
            need(known <= listed, f'{self.name}: listed are {listed}, not {known}')
        self.n_requests += 1

    def play(self):
        at = 0
        while at < len(self.lines):
            who, message = self.lines[at]
            at += 1
            if who == 'agent':
                continue
            if message.get('method') == 'initialize':
                self.end()
                self.agent = Agent(self.daemon, '--max-tokens', '5')
            if self.agent is None:
                self.agent = Agent(self.daemon, '--max-tokens', '5')
            # Notifications go out with the request before them, so that a cancel comes before its end.
            said, begun = [self.ours(message)], at - 1
            while at < len(self.lines) and (self.lines[at][0] == 'agent' or 'id' not in self.lines[at][1]):
                if self.lines[at][0] == 'client':
                    said.append(self.ours(self.lines[at][1]))
                at += 1
            self.agent.send(b''.join(json.dumps(m).encode() + b'\n' for m in said))
            if 'method' in message and 'id' in message:
                self.check(begun, said[0])
        self.end()

    def end(self):
        if self.agent:
            self.agent.end()
        self.agent = None


with tempfile.TemporaryDirectory(prefix='confab-acp-traces-') as folder:
    the_daemon = Daemon(confabd, confab, folder, MODEL)
    the_daemon.start()
    n = 0
    try:
        for trace in (Trace(the_daemon, path) for path in traces):
            trace.play()
            n += trace.n_requests
        the_daemon.stop()
    finally:
        if the_daemon.process and the_daemon.process.poll() is None:
            the_daemon.process.kill()
            the_daemon.process.wait()
need(n > 20, f'only {n} requests were recorded')
print(f'{n} requests of {len(traces)} recordings were answered')
