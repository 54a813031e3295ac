# SPDX-License-Identifier: MIT
"""A confabd and a confab-gateway for real clients, and the chat of 20 turns that each of them has to hold.

  with gateway_rig.start() as rig:
      client = MyClient(rig.url, rig.token)
      gateway_rig.check_chat(rig, client)

The gateway has a TCP port, whose clients send `token` as their key, and a Unix socket, `unix`. Both are made here and
passed to the gateway, so that they stay the same when it is restarted.

A client is an object that holds one chat and sends all of it with each request:

  say(text)         sends the text as the next message. Returns a Reply
  edit(turn, text)  takes back the user's message number `turn` (from 0) and what followed, and says this instead
  title(text)       a side request, as frontends make them to name a chat: what it answers does not matter

What a reply cost is told three times: by the client (the usage that the gateway told it), by the daemon's note of
the run in the conversation (confab show), and by the daemon's counter of all computed tokens (confab stats).
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

import harness

sys.path.insert(0, str(harness.SOURCE / 'tests/util'))
import model_file

SYSTEM = 'You are kind.'
TURNS = 20
RESTART_AT, TITLES_AT, EDIT_AT = 7, (0, 5, 12), 10
MAX_TOKENS = 24
TOKEN = 'token-of-a-real-client'
# LISTEN_PID is the gateway's own process id, which only a shell in its place knows.
PASS = 'exec 13<&{0} 14<&{1}; exec 3<&13 4<&14 13<&- 14<&-; LISTEN_PID=$$ LISTEN_FDS=2 exec "$@"'


@dataclasses.dataclass
class Reply:
    """`n_prompt`, `n_cached` and `n_generated` are None where a client does not tell its user; `logprobs` is a number
    for each token of the text."""
    text: str
    n_prompt: int = None
    n_cached: int = None
    n_generated: int = None
    logprobs: list = None


class Rig:
    """`folder` is the rig's own, and goes away with the part."""

    def __init__(self, folder, model, daemon, gateway, port):
        self.folder, self.model, self.daemon, self.gateway = folder, model, daemon, gateway
        self.url, self.token, self.unix = f'http://127.0.0.1:{port}', TOKEN, str(folder / 'gateway.sock')

    def restart(self):
        """Both programs end well and are started again."""
        self.gateway.stop()
        self.daemon.stop()
        self.daemon.start()
        self.gateway.start()

    def native(self, *args):
        """What the command prints with --json: a list of its lines."""
        return native(self.daemon.socket, *args)

    def n_computed(self):
        """Tokens of prompts that the daemon has computed since its start."""
        return self.native('stats')[0]['tokens_prefilled']

    def conversations(self):
        return self.native('ls')[0]['conversations']

    def newest(self):
        """The conversation that was last changed, with its turns."""
        newest = max(self.conversations(), key=lambda conversation: conversation['updated_usec'])
        return self.native('show', str(newest['id']))[0]


def native(path, *args):
    argv = [str(harness.BUILD / 'client/confab'), '--socket', str(path), '--json', *args]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=harness.LIMIT)
    if done.returncode:
        raise RuntimeError(f'{args}: {done.stderr}')
    return [json.loads(line) for line in done.stdout.splitlines()]


def write_model(folder, context, template, name='confab-small'):
    """The bundled model with a template that takes tools, and a context that agents' prompts fit into. What it says far
    beyond the context that it was trained for is no English."""
    path = folder / f'{name}.gguf'
    model = model_file.with_context(model_file.with_template(harness.MODEL.read_bytes(), template), context)
    path.write_bytes(model_file.with_name(model, name.encode()))
    return path


def make_daemon(name, model, *flags):
    return harness.start_daemon('--model', model, '--disk-floor', '0', *flags, name=name)


@contextlib.contextmanager
def start(context=16384, template=model_file.TOOLS_TEMPLATE, daemon=(), gateway=(), other=False):
    """A Rig. `daemon` and `gateway` are more flags. With `other` there is a second daemon, with the model confab-other: a
    gateway with one daemon takes any name for its model's."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=harness.WORK))
    model = write_model(folder, context, template)
    tokens = folder / 'tokens'
    with open(os.open(tokens, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), 'w', encoding='utf-8') as file:
        file.write(f'{TOKEN} {os.getuid()}\n')
    unix = folder / 'gateway.sock'
    with contextlib.ExitStack() as stack, socket.socket(socket.AF_UNIX) as a, socket.socket() as b:
        a.bind(str(unix))
        b.bind(('127.0.0.1', 0))
        for one in (a, b):
            one.listen(128)
        confabd = make_daemon(f'{folder.name}/confabd', model, *daemon)
        if other:
            second = write_model(folder, context, template, 'confab-other')
            gateway = ('--daemon', stack.enter_context(make_daemon(f'{folder.name}/other', second)).socket, *gateway)
        argv = ['bash', '-c', PASS.format(a.fileno(), b.fileno()), 'confab-gateway',
                harness.BUILD / 'client/gateway/confab-gateway', '--daemon', confabd.socket, '--token-file', tokens,
                *gateway]
        program = harness.Program(f'{folder.name}/confab-gateway', argv, pass_fds=(a.fileno(), b.fileno()))
        with confabd, program:
            yield Rig(folder, model, confabd, program, b.getsockname()[1])


# ---- the chat ----

def need(ok, words):
    if not ok:
        raise AssertionError(words)


def wait_for(is_so, words):
    """For what the daemon does by itself, soon, and tells nobody."""
    deadline = time.monotonic() + harness.LIMIT
    while not is_so():
        need(time.monotonic() < deadline, words)


def line(turn):
    return f'My name is Nora, and this is number {turn}.'


class Chat:
    """A chat as it goes on: `said` has the texts of the user and the replies to them."""

    def __init__(self, rig, client):
        self.rig, self.client, self.said = rig, client, []

    def say(self, text):
        self._ask(text, lambda: self.client.say(text))

    def edit(self, turn, text):
        del self.said[turn:]
        self._ask(text, lambda: self.client.edit(turn, text))

    def _ask(self, text, send):
        before = self.rig.n_computed()
        reply = send()
        computed = self.rig.n_computed() - before
        self.said.append((text, reply))
        self._look(reply, computed)

    def _look(self, reply, computed):
        """The conversation that the reply went to says the same, and computed no more than the new message."""
        turns = self.rig.newest()['turns']
        run, where = turns[-1]['run'], f'turn {len(self.said)}'
        told = [turn['text'] for turn in turns if turn['role'] == 'assistant']
        need(turns[-1]['role'] == 'assistant', f'{where}: the last turn is not the reply but {turns[-1]}')
        need([text.strip() for text in told] == [said.text.strip() for _, said in self.said], f'{where}: {told}')
        replies = [turn['end'] for turn in turns[:-1] if turn['role'] == 'assistant']
        # The last token of a reply was sampled; it is computed when something follows it.
        allowed = run['n_prompt'] - replies[-1] + 1 if replies else run['n_prompt']
        need(run['n_computed'] <= allowed, f'{where}: {run["n_computed"]} tokens computed, {allowed} allowed: {run}')
        need(computed == run['n_computed'], f'{where}: {computed} tokens by stats, {run}')
        if reply.n_prompt is not None:
            need(reply.n_prompt == run['n_prompt'], f'{where}: the client was told {reply}, the daemon says {run}')
        if reply.n_cached is not None:
            need(reply.n_cached == run['n_prompt'] - run['n_computed'], f'{where}: {reply}, {run}')
        if reply.n_generated is not None:
            need(reply.n_generated == run['n_generated'], f'{where}: {reply}, {run}')


def check_chat(rig, client, label='', edit=True):
    """The checks, each a line: 20 turns with a restart and titles in between, an edit, and what the daemon keeps; and
    the log-probabilities, if the client tells them. `edit`: the client can take back what it said."""
    chat, branches = Chat(rig, client), []
    label = f'{label}: ' if label else ''

    def twenty_turns():
        for turn in range(TURNS):
            if turn in TITLES_AT:
                client.title(f'Generate a title for this conversation: {line(turn)}')
            if turn == RESTART_AT:
                rig.restart()
            chat.say(line(turn))
        branches.append(list(chat.said))
        return True

    def edit_turn():
        n_before = len(rig.conversations())
        chat.edit(EDIT_AT, 'My name is Olga now.')
        chat.say('What is my name?')
        branches.append(list(chat.said))
        need(len(rig.conversations()) == n_before + 1, 'an edit forks')

    done = harness.check(f'{label}20 turns, each computes its new message alone; a restart, titles in between',
                         twenty_turns)
    if not done:
        return
    if not edit:
        harness.skip(f'{label}turn {EDIT_AT} edited', 'nothing is resent, and nothing can be taken back, in this way')
    else:
        harness.check(f'{label}turn {EDIT_AT} edited: what stands before it is not computed again', edit_turn)
    if branches[0][0][1].logprobs is not None:
        harness.check(f'{label}log-probabilities are those of the native protocol, bit for bit',
                      lambda: compare_native(rig, branches))


def compare_native(rig, branches):
    """The same conversations with another daemon, by its own protocol."""
    with make_daemon(f'{rig.folder.name}/reference', rig.model) as reference:
        for branch in branches:
            _compare_branch(reference.socket, branch)


def _compare_branch(path, said):
    name = native(path, 'open', '--system', SYSTEM)[0]['name']
    for turn, (text, reply) in enumerate(said):
        events = native(path, 'say', name, text, '--temperature', '0', '--max-tokens', str(MAX_TOKENS),
                        '--logprobs', '0')
        tokens = [token['logprob'] for event in events for token in event.get('tokens', [])]
        shown = native(path, 'show', name)[0]['turns'][-1]
        # The token that ends a reply has no text, so that HTTP does not tell it.
        wanted = tokens[:-1] if shown['finish'] == 'stop' else tokens
        need(shown['text'] == reply.text, f'turn {turn}: {shown["text"]!r}, but by HTTP {reply.text!r}')
        need_same(reply.logprobs, wanted)


def need_same(mine, theirs):
    """Two lists of log-probabilities have the same bits."""
    need(len(mine) == len(theirs) > 0, f'{mine}, but natively {theirs}')
    for a, b in zip(mine, theirs):
        need(struct.pack('f', a) == struct.pack('f', b), f'{a!r}, but natively {b!r}')
