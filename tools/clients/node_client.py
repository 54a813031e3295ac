# SPDX-License-Identifier: MIT
"""Clients in JavaScript (tools/clients/sdk/*.js) that hold a chat as gateway_rig wants it."""
import json
import os
import shutil
import subprocess

import gateway_rig
import harness

STAGE = harness.WORK / 'sdk'


def stage():
    """The scripts beside a node_modules with the part's packages, where node looks for it."""
    if not STAGE.exists():
        shutil.copytree(harness.SOURCE / 'tools/clients/sdk', STAGE)
        (STAGE / 'node_modules').symlink_to(harness.PACKAGES / 'node_modules')
        (STAGE / 'package.json').write_text('{"type": "module"}\n')
    return STAGE


class NodeClient:
    """One process of node. `call` calls a function of its script; `add` is a list of fields for its next requests, which
    the library does not know."""

    def __init__(self, rig, script, **options):
        env = {**os.environ, 'CONFAB_URL': rig.url, 'CONFAB_TOKEN': rig.token, 'CONFAB_UNIX': rig.unix,
               'CONFAB_OPTIONS': json.dumps(options)}
        self.log = harness.WORK / 'node.log'
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(['node', str(stage() / script)], env=env, text=True, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log)

    def call(self, name, argument=None, add=()):
        self.send(name, argument, add)
        return self.receive()

    def send(self, name, argument=None, add=()):
        self.process.stdin.write(json.dumps({'call': name, 'argument': argument, 'add': list(add)}) + '\n')
        self.process.stdin.flush()

    def receive(self):
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError(f'node ended: {self.log.read_text(errors="replace")[-2000:]}')
        answer = json.loads(text)
        if 'error' in answer:
            raise AssertionError(answer['error'])
        return answer.get('value')

    # ---- what gateway_rig asks for ----

    def say(self, text):
        return gateway_rig.Reply(**self.call('say', text))

    def edit(self, turn, text):
        return gateway_rig.Reply(**self.call('edit', [turn, text]))

    def title(self, text):
        self.call('title', text)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.stdin.close()
        if kind is not None:
            self.process.kill()
        self.process.wait(harness.LIMIT)
        self.process.stdout.close()
