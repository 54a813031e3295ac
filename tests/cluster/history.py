# SPDX-License-Identifier: MIT
"""The record of a run of the cluster test: a file of JSON lines, in the order in which they were written.

Several processes append to it, a line with each write. Times (`ns`) are of one monotonic clock. Lines by their `t`:

    begin     what the run was asked for
    call      an operation is about to be sent: id, uid, at (daemon), op, conv, and its arguments
    accepted  a reply was accepted: id, revision, n_prompt and where these tokens' memory came from
    ok        it is done: id, and r: what was answered
    fail      an answer that says that it was not done: id, code, text, r: what had come before
    unknown   nobody knows: the connection was lost, nothing came in time, or the answer says so; likewise
    fault     phase begin or end, kind, on (the part)
    exit      a part ended by itself, or a daemon because it was asked to: on, status, asked
    verdict   what `confab admin check` says of a daemon
    replay    what a lone daemon replies in place of operation `op`: n_prompt, tokens, logprobs; or skipped: it could not be asked

Log-probabilities are the bits of the float, as an integer. Tokens of a reply: those that came, also of one that failed.
"""
import json
import os
import time

NEVER = 1 << 62


# Answers that say that nothing was done, but for those with words that say something else.
REFUSALS = {'not_found', 'exists', 'busy', 'conflict', 'limit', 'context_length_exceeded', 'invalid', 'state', 'permission',
            'unsupported', 'corrupt', 'moved', 'unavailable'}
NOT_REFUSED = 'whether it is stored is not known', 'what became of it is not known', 'the request was carried out'


def is_refusal(code, text):
    return code in REFUSALS and not any(words in text for words in NOT_REFUSED)


class Recorder:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, t, **fields):
        """When this returns it is in the file."""
        line = {'t': t, 'ns': time.monotonic_ns(), **fields}
        os.write(self.fd, (json.dumps(line, separators=(',', ':')) + '\n').encode())


def read(path):
    with open(path, encoding='utf-8') as f:
        return [json.loads(line) for line in f]


def copy(source, path, wanted):
    """The lines that are wanted, behind what is in the file."""
    with open(path, 'a', encoding='utf-8') as f:
        f.writelines(json.dumps(line, separators=(',', ':')) + '\n' for line in read(source) if wanted(line))


class Operation:
    """A call, and how it ended. begin and end: when; what did not end has no end (NEVER)."""

    def __init__(self, line):
        self.id, self.uid, self.at, self.op = line['id'], line['uid'], line['at'], line['op']
        self.conv, self.args = line.get('conv'), line
        self.begin, self.end = line['ns'], NEVER
        self.outcome, self.code, self.text = 'unknown', None, ''
        self.accepted = None # the line
        self.result = {}
        self.tokens = self.logprobs = []

    def finish(self, line):
        self.outcome, self.result = line['t'], line['r']
        self.code, self.text = line.get('code'), line.get('text', '')
        self.tokens, self.logprobs = self.result.get('tokens', []), self.result.get('logprobs', [])
        if self.outcome == 'fail' and not is_refusal(self.code, self.text):
            self.outcome = 'unknown'
        if self.outcome != 'unknown':
            self.end = line['ns']

    @property
    def ok(self):
        return self.outcome == 'ok'

    @property
    def may_have_happened(self):
        return self.outcome != 'fail' or self.accepted is not None

    def __repr__(self):
        return f'{self.op} {self.id} at {self.at}'


class History:
    """The lines, sorted into operations."""

    def __init__(self, lines):
        self.operations, self.replays = {}, {}
        self.faults, self.exits, self.verdicts = [], [], []
        for line in lines:
            t = line['t']
            if t == 'call':
                self.operations[line['id']] = Operation(line)
            elif t == 'accepted':
                self.operations[line['id']].accepted = line
            elif t in ('ok', 'fail', 'unknown'):
                self.operations[line['id']].finish(line)
            elif t == 'replay':
                self.replays[line['op']] = line
            elif t in ('fault', 'exit', 'verdict'):
                {'fault': self.faults, 'exit': self.exits, 'verdict': self.verdicts}[t].append(line)
