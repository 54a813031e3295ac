# SPDX-License-Identifier: MIT
"""Agents: their first message brings thousands of tokens, they make requests of their own besides the chat, and may ask
several times for one message of the user. So what is looked at is all that the daemon noted.

  with agents.start() as rig:
      agents.check(rig, MyAgent(rig))

An agent is an object that runs a program for each message:

  say(text)    says the text in its session, which the first text begins. Returns what the program printed as the reply
  other(text)  begins another session with the text, and leaves it
  fork(text)   says the text in a copy of its session, and leaves the copy. Returns what say() does. May be missing
  session      what it goes on in. Set back to what it was, it goes on there

An agent takes back what was said in one or both of these ways, as its program offers them. `turn` is the number of the
user's message in the session, from 0; what followed it goes with it. Both return what say() does.

  edit(turn, text)    begins a session with what stands before the message, says the text there, and goes on there
  rewind(turn, text)  takes it out of its session, and says the text there instead
  no_edit             of an agent that has neither: why
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

TURNS, EDIT_AT = 20, gateway_rig.EDIT_AT
MODULES = harness.PACKAGES / 'node_modules'
ARCH = {'x86_64': 'x64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine())


# Tells the model of no tools.
PLAIN_TEMPLATE = (b'{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%- endfor -%}'
                  b'{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}')


def start(context=65536, max_reply=gateway_rig.MAX_TOKENS, **more):
    """A Rig with room for agents. Replies of agents that send no limit are short, too."""
    limit = '--max-reply', str(max_reply)
    return gateway_rig.start(context=context, daemon=('--pool-size', '1G'), gateway=limit, **more)


class Program:
    """An agent's program with a home of its own."""

    def __init__(self, rig, name, argv, **env):
        self.home = pathlib.Path(rig.folder / name)
        self.work = self.home / 'work'
        self.work.mkdir(parents=True)
        self.argv = argv
        # PWD is where some believe they are.
        self.env = {'HOME': str(self.home), 'PWD': str(self.work), 'XDG_CONFIG_HOME': '', 'XDG_DATA_HOME': '', **env}

    def write(self, path, text):
        (self.home / path).parent.mkdir(parents=True, exist_ok=True)
        (self.home / path).write_text(text, encoding='utf-8')

    def run(self, *words):
        return harness.run([*self.argv, *words], cwd=self.work, env=self.env)

    @contextlib.contextmanager
    def beside(self, *argv, **env):
        """Another program of the agent, which reads and writes lines while the block runs: a Lines."""
        log = self.home / 'beside.log'
        with open(log, 'wb') as errors:
            process = subprocess.Popen([str(word) for word in argv], cwd=self.work, env={**os.environ, **self.env, **env},
                                       text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        limit = threading.Timer(harness.LIMIT, process.kill)
        limit.start()
        try:
            yield Lines(process, log)
        finally:
            process.terminate()
            process.communicate()
            limit.cancel()


class Lines:
    """What a program says, line by line, and what it is told."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    def tell(self, message):
        self.process.stdin.write(json.dumps(message) + '\n')
        self.process.stdin.flush()

    def wait(self, is_it):
        """The first line that it is; those before go by."""
        for text in self.process.stdout:
            if is_it(text):
                return text
        raise RuntimeError(f'{self.process.args} ended: {self.log.read_text(errors="replace")[-2000:]}')

    def wait_json(self, **fields):
        """The first line of JSON that has these fields."""
        return json.loads(self.wait(lambda text: text.startswith('{') and fields.items() <= json.loads(text).items()))


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


def all_shown(rig):
    return [rig.native('show', str(conversation['id']))[0] for conversation in rig.conversations()]


def find(rig, text):
    """The conversation in which the user says it: side requests that say it are shorter, other sessions do not."""
    mine = [one for one in all_shown(rig)
            if any(text in turn['text'] for turn in one['turns'] if turn['role'] == 'user')]
    need(mine, f'no conversation has {text!r}')
    return max(mine, key=lambda one: one['n_tokens'])


def texts(conversation):
    return [(turn['role'], turn['text']) for turn in conversation['turns']]


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

    def other(self, text):
        """Most of what its prompt begins with is known from this session: tools and system message."""
        self.agent.other(text)
        run = find(self.rig, text)['turns'][-1]['run']
        need(not self.shares or run['n_computed'] <= run['n_prompt'] / 10, f'another session begins with {run}')

    def edit(self, turn, text):
        """In another session, which goes on, as this one does then."""
        session, id_, said = self.agent.session, self.id, list(self.said)
        self._go_back(self.agent.edit, turn, text)
        self.say('This is said behind what is new.')
        need(self.agent.session != session, 'the edit was not made in a session of its own')
        self.agent.session, self.id, self.said = session, None, said
        self.say('This is said where nothing is new.')

    def rewind(self, turn, text):
        """In this session, which goes on."""
        session = self.agent.session
        self._go_back(self.agent.rewind, turn, text)
        need(self.agent.session == session, f'the edit was made in {self.agent.session} in place of {session}')
        self.say('This is said in place of the rest.')

    def _go_back(self, how, turn, text):
        """What stands before the message is as it was, and the daemon has what was said before, too: whole."""
        before = texts(find(self.rig, self.said[-1]))
        cut = next(place for place, (role, one) in enumerate(before) if role == 'user' and self.said[turn] in one)
        del self.said[turn:]
        self.id = None
        self._look(text, how(turn, text))
        after = texts(find(self.rig, text))
        need(after[:cut] == before[:cut], f'what stood before turn {cut} is not what does: {after[1:cut]}')
        # The agent may add a reminder of its own.
        need([role for role, _ in after[cut:] if role != 'system'] == ['user', 'assistant'], f'it says more: {after[cut:]}')
        need(any(texts(one)[:len(before)] == before for one in all_shown(self.rig)), f'nothing ends any more as {before[cut:]}')

    def _look(self, text, printed):
        mine = find(self.rig, text)
        self.said.append(text)
        turns = mine['turns']
        need(self.id in (None, mine['id']), f'it went on in {mine["id"]} in place of {self.id}')
        self.id = mine['id']
        need(turns[-1]['text'].strip() == printed.strip(), f'it printed {printed!r}, but the reply is {turns[-1]}')
        users = iter([turn['text'] for turn in turns if turn['role'] == 'user'])
        need(all(any(one in turn for turn in users) for one in self.said), f'{self.said} are not all in {turns}')
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
    if hasattr(agent, 'fork'):
        name = 'a copied session computes its new message alone, and so does the original'
        harness.check(name, lambda: copy(session))
    check_edits(session, agent)


def check_edits(session, agent):
    name = f'turn {EDIT_AT} edited'
    if hasattr(agent, 'edit'):
        harness.check(f'{name} in another session: what stands before it is not computed again, and the original goes on',
                      lambda: session.edit(EDIT_AT, 'My name is Olga now.'))
    if hasattr(agent, 'rewind'):
        harness.check(f'{name} in its session: what stands before it is not computed again, and the original is kept',
                      lambda: session.rewind(EDIT_AT, 'My name is Paula now.'))
    if hasattr(agent, 'no_edit'):
        harness.skip(name, agent.no_edit)


def check_plain(kind, **more):
    """An agent of this class on a model that takes no tools, although it sends some with each request. `more` is for
    start()."""
    def run():
        with start(template=PLAIN_TEMPLATE, **more) as rig:
            session = Session(rig, kind(rig), False)
            session.say('Hello')
            session.say('Hello again')

    harness.check('a model that takes no tools answers without', run)


def copy(session):
    session.fork('This is said in a copy.')
    session.say('This is not said in a copy.')
    session.say('And neither is this.')
