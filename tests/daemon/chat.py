#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""chat.py CONFABD CONFAB SOURCE: a chat from a pipe, with the bundled model and all of its commands.

What they do is looked at from outside, by other commands. What a terminal adds is tested by client/chat and client/line.
"""
import json
import os
import subprocess
import sys
import tempfile

confabd, confab, source = sys.argv[1:4]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from acp_rig import DEADLINE, Daemon, need


def chat(daemon, lines, *args, status=0):
    """What a chat writes that is given these lines."""
    done = subprocess.run([confab, '--socket', daemon.socket, 'chat', *args], input=''.join(line + '\n' for line in lines),
                          capture_output=True, text=True, check=False, timeout=DEADLINE)
    need(done.returncode == status, f'{lines}: status {done.returncode}: {done.stderr}')
    return done.stdout


def show(daemon, name):
    return json.loads(daemon.run('show', '--json', name))


def roles(daemon, name):
    return [turn['role'] for turn in show(daemon, name)['turns']]


def test_turns(daemon):
    out = chat(daemon, ['My name is Tom.', '/system Be brief.', '/fork other', 'hello', '/rewind', '/switch talk',
                        '/edit My name is Ann.', '/regenerate', '/system', '/quit', 'never said'], 'talk', '-t', '0')
    need(roles(daemon, 'talk') == ['user', 'assistant'], roles(daemon, 'talk'))
    need(show(daemon, 'talk')['turns'][0]['text'] == 'My name is Ann.', 'the message was not edited')
    need(roles(daemon, 'other') == ['user', 'assistant', 'system'], roles(daemon, 'other'))
    need('Tom' in out and 'Ann' in out and out.endswith('there is no system message\n'), out)


def test_system(daemon):
    chat(daemon, ['/system You are a pirate.', 'hello'], 'pirate', '-s', 'You are a clerk.')
    turns = show(daemon, 'pirate')['turns']
    need([turn['role'] for turn in turns] == ['system', 'user', 'assistant'], turns)
    need(turns[0]['text'] == 'You are a pirate.', turns[0])


def test_settings(daemon):
    out = chat(daemon, ['/set temperature=0', '/set top-k=7', '/set title=A title', '/set tags=b, a', '/set top-k=', '/set'], 'set')
    need('temperature=0\ntitle=A title\ntags=b,a\n' in out, out)
    shown = show(daemon, 'set')
    need(shown['sampling'] == {'temperature': 0}, shown)
    need(shown['about']['title'] == 'A title', shown)


def test_looking(daemon):
    out = chat(daemon, ['/stats', '/tree'], 'talk')
    need('2 turns, ' in out and ' of 2048 tokens, ' in out and 'last reply: ' in out and 'its prompt: ' in out, out)
    need(daemon.run('tree') in out, out)
    stats = json.loads(chat(daemon, ['/stats'], 'talk', '--json').splitlines()[-1])
    need(stats['name'] == 'talk' and stats['turns'][-1]['run']['n_generated'] > 0, stats)


def test_saving(daemon, folder):
    path = os.path.join(folder, 'talk')
    chat(daemon, [f'/save {path}.md', f'/save {path}.json'], 'talk')
    with open(path + '.md', encoding='utf-8') as f:
        text = f.read()
    turns = show(daemon, 'talk')['turns']
    need(text == f"# talk\n\n## user\n\nMy name is Ann.\n\n## assistant\n\n{turns[1]['text']}\n", text)
    with open(path + '.json', encoding='utf-8') as f:
        need([turn['text'] for turn in json.load(f)['turns']] == [turn['text'] for turn in turns], 'another transcript')
    chat(daemon, [f'/save {path}.md'], 'talk', status=1)


def main():
    with tempfile.TemporaryDirectory(prefix='confab-test-') as folder:
        daemon = Daemon(confabd, confab, folder, os.path.join(source, 'models/confab-small.q8_0.gguf'))
        try:
            daemon.start()
            test_turns(daemon)
            test_system(daemon)
            test_settings(daemon)
            test_looking(daemon)
            test_saving(daemon, folder)
            daemon.stop()
        finally:
            if daemon.process:
                daemon.process.kill()


main()
