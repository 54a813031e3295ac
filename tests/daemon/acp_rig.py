# SPDX-License-Identifier: MIT
"""A real daemon and `confab acp` on pipes, for the tests of ACP."""
import json
import os
import queue
import subprocess
import sys
import threading
import time

DEADLINE = 120 # seconds; only a hang takes so long


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


class Daemon:
    def __init__(self, confabd, confab, folder, model):
        self.confabd, self.confab, self.model = confabd, confab, model
        self.socket, self.state, self.log = (os.path.join(folder, name) for name in ('socket', 'state', 'log'))
        self.process = None

    def start(self, *flags):
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(
                [self.confabd, '--model', self.model, '--socket', self.socket, '--state', self.state, '--pool-size',
                 '512M', '--disk-floor', '0', *flags], stderr=log)
        deadline = time.monotonic() + DEADLINE
        while subprocess.run([self.confab, '--socket', self.socket, 'stats'], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, check=False).returncode:
            need(self.process.poll() is None and time.monotonic() < deadline, f'no daemon: {self.said()}')
            time.sleep(0.02)

    def said(self):
        with open(self.log, encoding='utf-8', errors='replace') as f:
            return f.read()

    def stop(self):
        process, self.process = self.process, None
        if process:
            process.terminate()
            need(process.wait(DEADLINE) == 0, f'the daemon did not end well: {self.said()}')

    def run(self, *args, status=0):
        done = subprocess.run([self.confab, '--socket', self.socket, *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=DEADLINE)
        need(done.returncode == status, f'{args}: status {done.returncode}, not {status}: {done.stderr}')
        return done.stdout

    def look(self, session):
        """A conversation, as `confab ls --json` shows it; None if there is none."""
        for c in json.loads(self.run('ls', '--json'))['conversations']:
            if session in (str(c['id']), c['name']):
                return c
        return None


class Agent:
    """`confab acp`. A thread reads what it writes, so it never waits for the test."""

    def __init__(self, daemon, *args, stdin=subprocess.PIPE):
        self.process = subprocess.Popen([daemon.confab, '--socket', daemon.socket, 'acp', *args], stdin=stdin,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.messages, self.errors = queue.Queue(), []
        self.answers, self.updates = {}, [] # by id; (session, update)
        self.next_id = 0
        threading.Thread(target=self.read_all, daemon=True).start()
        self.errors_thread = threading.Thread(target=self.read_errors, daemon=True)
        self.errors_thread.start()

    def read_all(self):
        for line in self.process.stdout:
            self.messages.put(line)
        self.messages.put(None)

    def read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line.decode(errors='replace'))

    def send(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b'\n')
        self.process.stdin.flush()

    def begin(self, method, **params):
        """Send a request; its id."""
        self.next_id += 1
        self.send({'jsonrpc': '2.0', 'id': self.next_id, 'method': method, 'params': params})
        return self.next_id

    def notify(self, method, **params):
        self.send({'jsonrpc': '2.0', 'method': method, 'params': params})

    def take(self):
        """The next message, noted in answers or updates; None at the end."""
        try:
            line = self.messages.get(timeout=DEADLINE)
        except queue.Empty:
            sys.exit(f'FAILED: the agent says nothing: {self.errors}')
        if line is None:
            return None
        message = json.loads(line)
        need(message.get('jsonrpc') == '2.0', f'a message of another protocol: {message}')
        if 'method' in message:
            need(message['method'] == 'session/update' and 'id' not in message, f'only updates are sent: {message}')
            self.updates.append((message['params']['sessionId'], message['params']['update']))
        else:
            need(('result' in message) != ('error' in message), f'a result or an error: {message}')
            self.answers.setdefault(json.dumps(message['id']), []).append(message)
        return message

    def answer(self, number):
        """The answer to request `number`."""
        key = json.dumps(number)
        while not self.answers.get(key):
            need(self.take() is not None, f'the agent ended: {self.errors}')
        return self.answers[key].pop(0)

    def call(self, method, **params):
        message = self.answer(self.begin(method, **params))
        need('result' in message, f'{method} failed: {message}')
        return message['result']

    def refused(self, method, **params):
        message = self.answer(self.begin(method, **params))
        need('error' in message, f'{method} is refused: {message}')
        return message['error']

    def open(self, cwd='/home/user/project'):
        return self.call('session/new', cwd=cwd, mcpServers=[])['sessionId']

    def begin_prompt(self, session, text):
        return self.begin('session/prompt', sessionId=session, prompt=[{'type': 'text', 'text': text}])

    def prompt(self, session, text):
        """(why it ended, the reply)."""
        n = len(self.updates)
        result = self.answer(self.begin_prompt(session, text))
        need('result' in result, f'a prompt failed: {result}')
        return result['result']['stopReason'], self.said(session, n)

    def said(self, session, start=0, kind='agent_message_chunk'):
        return ''.join(u['content']['text'] for s, u in self.updates[start:]
                       if s == session and u['sessionUpdate'] == kind)

    def wait_for_words(self, session, more=0):
        """Until the session has said something, more than `more` characters."""
        while len(self.said(session)) <= more:
            need(self.take() is not None, f'the agent ended: {self.errors}')

    def load(self, session, cwd='/home/user/project'):
        """The history: [(who, text)]."""
        n = len(self.updates)
        self.call('session/load', sessionId=session, cwd=cwd, mcpServers=[])
        names = {'user_message_chunk': 'user', 'agent_message_chunk': 'agent'}
        return [(names[u['sessionUpdate']], u['content']['text']) for s, u in self.updates[n:]
                if s == session and u['sessionUpdate'] in names]

    def list(self, **params):
        """All pages."""
        found, pages = [], 0
        while True:
            page = self.call('session/list', **params)
            found += page['sessions']
            pages += 1
            if 'nextCursor' not in page:
                return found, pages
            params['cursor'] = page['nextCursor']

    def end(self, status=0):
        """Close standard input: it ends by itself."""
        if self.process.stdin:
            self.process.stdin.close()
        while self.take() is not None:
            pass
        got = self.process.wait(DEADLINE)
        self.errors_thread.join(DEADLINE)
        need(got == status, f'the agent ended with {got}, not {status}: {self.errors}')
        need(not any(self.answers.values()), f'answers that nobody waited for: {self.answers}')
