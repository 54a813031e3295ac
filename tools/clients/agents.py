# SPDX-License-Identifier: MIT
"""Agents: their first message brings thousands of tokens, they make requests of their own besides the chat, and may ask
several times for one message of the user. So what is looked at is all that the daemon noted.

  with agents.start() as rig:
      agents.check(rig, MyAgent(rig))

An agent is an object that runs a program for each message:

  say(text)    says the text in its session, which the first text begins. Returns what the program printed as the reply
  other(text)  begins another session with the text, and leaves it
  fork(text)   says the text in a copy of its session, and leaves the copy. Returns what say() does. May be missing
  edit(turn, text)
               takes back message number `turn` (from 0) of its session and what followed, and says the text instead, in this
               session or in a copy that is its session from now on. Returns what say() does. May be missing
"""
import contextlib
import json
import os
import pathlib
import platform
import subprocess
import threading

import gateway_rig
import harness
from gateway_rig import need

TURNS, EDIT_AT = 20, 10
MODULES = harness.PACKAGES / 'node_modules'
ARCH = {'x86_64': 'x64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine())


# Tells the model of no tools.
PLAIN_TEMPLATE = (b'{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%- endfor -%}'
                  b'{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}')


def start(context=65536, **more):
    """A Rig with room for agents. Replies of agents that send no limit are short, too."""
    limit = '--max-reply', str(gateway_rig.MAX_TOKENS)
    return gateway_rig.start(context=context, daemon=('--pool-size', '1G'), gateway=limit, **more)


class Program:
    """An agent's program with a home of its own."""

    def __init__(self, rig, name, argv, **env):
        self.home = pathlib.Path(rig.folder / name)
        self.work = self.home / 'work'
        self.work.mkdir(parents=True)
        self.argv, self.env = argv, {'HOME': str(self.home), 'XDG_CONFIG_HOME': '', 'XDG_DATA_HOME': '', **env}

    def write(self, path, text):
        (self.home / path).parent.mkdir(parents=True, exist_ok=True)
        (self.home / path).write_text(text, encoding='utf-8')

    def run(self, *words):
        return harness.run([*self.argv, *words], cwd=self.work, env=self.env)

    @contextlib.contextmanager
    def lines(self, *argv, text=False):
        """A program that is spoken to by lines of JSON (or of text), for `with`, which ends it."""
        with open(self.home / 'lines.log', 'ab') as log, \
                subprocess.Popen([str(word) for word in argv], cwd=self.work, env={**os.environ, **self.env}, text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as process:
            limit = threading.Timer(harness.LIMIT, process.kill)
            limit.start()
            try:
                yield Lines(process, (lambda line: line) if text else json.loads)
            finally:
                limit.cancel()
                process.kill()


class Lines:
    def __init__(self, process, read):
        self.process, self.read = process, read

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + '\n')
        self.process.stdin.flush()

    def wait(self, is_it):
        """The next message that is it."""
        for line in self.process.stdout:
            message = self.read(line)
            if is_it(message):
                return message
        raise RuntimeError('the program ended without an answer')


def check_replies(turns):
    """For each reply nothing was computed but what stands behind the reply before it, and that one's last token, which
    was only sampled. What a fork has of its origin has no notes."""
    end = None
    need('run' in turns[-1], f'the last turn is no reply: {turns[-1]}')
    for turn in turns:
        if turn['role'] != 'assistant':
            continue
        run = turn.get('run')
        if run and end is not None:
            need(run['n_computed'] <= run['n_prompt'] - end + 1, f'turn {turn["turn"]}, behind {end} tokens: {run}')
        end = turn['end']


def find(rig, text):
    """The conversation in which the user says it: side requests that say it are shorter, other sessions do not."""
    shown = [rig.native('show', str(conversation['id']))[0] for conversation in rig.conversations()]
    mine = [one for one in shown if any(text in turn['text'] for turn in one['turns'] if turn['role'] == 'user')]
    need(mine, f'no conversation has {text!r}')
    return max(mine, key=lambda one: one['n_tokens'])


def user_texts(conversation):
    return [turn['text'] for turn in conversation['turns'] if turn['role'] == 'user']


def has_all(said, conversation):
    """In this order."""
    users = iter(user_texts(conversation))
    return all(any(one in text for text in users) for one in said)


def need_none_of(said, conversation):
    for one in said:
        need(not any(one in text for text in user_texts(conversation)), f'{one!r} was taken back: {conversation}')


class Session:
    """Looks at the conversation that a session of an agent is: `id`. `shares`: all of them begin with much the same."""

    def __init__(self, rig, agent, shares):
        self.rig, self.agent, self.shares, self.id, self.said = rig, agent, shares, None, []

    def say(self, text):
        self._look(text, self.agent.say(text))

    def fork(self, text):
        """Which of both, the copy or the original, stays in the conversation is the gateway's choice: an agent need
        not tell what its session is called."""
        self.id = None
        self._look(text, self.agent.fork(text))
        self.id = None
        self.said.pop()

    def edit(self, turn, text):
        """What is taken back stays as it was, in the conversation or in a branch: the gateway chooses."""
        taken, self.said, self.id = self.said[turn:], self.said[:turn], None
        self._look(text, self.agent.edit(turn, text))
        need_none_of(taken, self.rig.native('show', str(self.id))[0])
        whole = find(self.rig, taken[-1])
        need(has_all(self.said[:turn] + taken, whole), f'of {taken} not all are left: {whole}')

    def other(self, text):
        """Most of what its prompt begins with is known from this session: tools and system message."""
        self.agent.other(text)
        run = find(self.rig, text)['turns'][-1]['run']
        need(not self.shares or run['n_computed'] <= run['n_prompt'] / 10, f'another session begins with {run}')

    def _look(self, text, printed):
        mine = find(self.rig, text)
        self.said.append(text)
        turns = mine['turns']
        need(self.id in (None, mine['id']), f'it went on in {mine["id"]} in place of {self.id}')
        self.id = mine['id']
        need(turns[-1]['text'].strip() == printed.strip(), f'it printed {printed!r}, but the reply is {turns[-1]}')
        need(has_all(self.said, mine), f'{self.said} are not all in {turns}')
        check_replies(turns)


def check(rig, agent, n_turns=TURNS, shares=True):
    """The checks, each a line: a session of so many turns, with a restart and other sessions in between; a copy of it."""
    session = Session(rig, agent, shares)
    restart_at, others_at = n_turns // 3, (1, n_turns // 2)

    def talk():
        for turn in range(n_turns):
            if turn in others_at:
                session.other(f'This is another session at {turn}.')
            if turn == restart_at:
                rig.restart()
            session.say(gateway_rig.line(turn))
        return True

    name = f'{n_turns} turns, each computes its new message alone; a restart, and other sessions'
    if not harness.check(name + (', which share its beginning' if shares else ''), talk):
        return
    if hasattr(agent, 'edit'):
        harness.check(f'turn {EDIT_AT} edited: what stands before it is not computed again', lambda: edit(session))
    if hasattr(agent, 'fork'):
        name = 'a copied session computes its new message alone, and so does the original'
        harness.check(name, lambda: copy(session))


def check_plain(kind):
    """An agent of this class on a model that takes no tools, although it sends some with each request."""
    def run():
        with start(template=PLAIN_TEMPLATE) as rig:
            session = Session(rig, kind(rig), False)
            session.say('Hello')
            session.say('Hello again')

    harness.check('a model that takes no tools answers without', run)


def edit(session):
    session.edit(EDIT_AT, 'My name is Olga now.')
    session.say('What is my name?')


def copy(session):
    session.fork('This is said in a copy.')
    session.say('This is not said in a copy.')
    session.say('And neither is this.')
