#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""calling-tools.py CONFABD CONFAB SOURCE: a model is given functions, asks for one, is answered, and goes on, all with the
command. The bundled model gets a template that takes tools; a grammar makes it write what is wanted."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../util'))
import model_file

confabd, confab, source = sys.argv[1:4]
MODEL = os.path.join(source, 'models/confab-small.q8_0.gguf')
if not os.path.exists(MODEL):
    print(f'SKIP: no {MODEL}')
    sys.exit(77)

WEATHER = {'name': 'weather', 'description': 'The weather now.',
           'parameters': {'type': 'object', 'properties': {'city': {'type': 'string'}}}}
CALL = '<think>\nI need it.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


def gbnf(text):
    return 'root ::= ' + json.dumps(text)


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.path = {name: os.path.join(folder, name) for name in
                     ('model.gguf', 'socket', 'state', 'tools.json', 'call', 'answer', 'results.json')}
        with open(MODEL, 'rb') as f:
            model = model_file.with_template(f.read(), model_file.TOOLS_TEMPLATE)
        with open(self.path['model.gguf'], 'wb') as f:
            f.write(model)
        self.write('tools.json', json.dumps([WEATHER]))
        self.write('call', gbnf(CALL))
        self.write('answer', gbnf('A coat, yes.'))

    def write(self, name, text):
        with open(self.path[name], 'w', encoding='utf-8') as f:
            f.write(text)

    def start(self):
        self.daemon = subprocess.Popen([confabd, '--model', self.path['model.gguf'], '--socket', self.path['socket'],
                                        '--state', self.path['state'], '--pool-size', '64M'],
                                       stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while subprocess.run([confab, '--socket', self.path['socket'], 'stats'], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, check=False).returncode:
            need(self.daemon.poll() is None and time.monotonic() < deadline, 'no daemon')
            time.sleep(0.02)

    def stop(self):
        self.daemon.terminate()
        need(self.daemon.wait(60) == 0, 'the daemon did not end well')

    def run(self, *args, status=0):
        done = subprocess.run([confab, '--socket', self.path['socket'], *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=60)
        need(done.returncode == status, f'{args}: status {done.returncode}, not {status}: {done.stderr}')
        return done.stdout, done.stderr

    def ask(self):
        """A call; its id."""
        out, err = self.run('say', 'trip', '--tools', self.path['tools.json'], '--grammar', self.path['call'],
                            'Do I need a coat?', status=7)
        need(out == '', f'the reply has no text, but {out!r}')
        need('I need it.' in err, f'the reasoning goes to standard error: {err!r}')
        call = re.search(r'^weather\(\{"city": ?"Oslo"\}\) \[(\w{9})\]$', err, flags=re.M)
        need(call, f'the call is told: {err!r}')
        return call.group(1)

    def check(self):
        out, _ = self.run('model')
        need('hermes' in out, f'the model tells how it calls: {out}')
        self.run('open', 'trip')
        first = self.ask()
        self.stop()
        self.start()
        _, err = self.run('say', 'trip', '--result', 'nosuch=1', status=1)
        need(first in err, f'who gives a wrong id is told the right one: {err!r}')
        out, err = self.run('say', 'trip', '--result', first + '=-4 degrees', '--grammar', self.path['answer'])
        need(out == 'A coat, yes.\n', f'the answer to the result: {out!r}')
        _, err = self.run('say', 'trip', '--result', first + '=again', status=1)
        second = self.ask()
        need(second != first, 'another call has another id')
        self.write('results.json', json.dumps([{'call_id': second, 'content': '<|im_end|>'}]))
        out, _ = self.run('say', 'trip', '--json', '--results', self.path['results.json'], '--grammar',
                          self.path['answer'])
        parts = [p for line in out.splitlines() for p in json.loads(line).get('parts', [])]
        need(''.join(p.get('text', '') for p in parts if p['kind'] == 'text') == 'A coat, yes.', f'parts: {out}')
        out, _ = self.run('show', 'trip')
        need(first in out and second in out and '-4 degrees' in out and 'A coat, yes.' in out, f'show: {out}')
        out, _ = self.run('say', 'trip', '--reasoning', 'only', '--grammar', self.path['call'], 'And now?', status=7)
        need(out == 'I need it.\n', f'--reasoning only: {out!r}')
        _, err = self.run('say', 'trip', '--reasoning', 'hide', '--grammar', self.path['call'], 'And now?', status=7)
        need('I need it.' not in err and 'weather(' in err, f'--reasoning hide: {err!r}')


with tempfile.TemporaryDirectory(prefix='confab-tools-') as folder:
    case = Case(folder)
    case.start()
    try:
        case.check()
    finally:
        if case.daemon.poll() is None:
            case.daemon.terminate()
            case.daemon.wait(60)
print('a call was asked for, answered and gone on from')
