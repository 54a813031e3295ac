#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quickstart.py SOURCE BUILD: tools/quickstart on the programs of a build folder, to its last steps, which go on by HTTP
in the conversation that was begun with the command, and show the page."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

source, build = sys.argv[1:3]


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


if not shutil.which('curl'):
    print('SKIP: no curl')
    sys.exit(77)
with tempfile.TemporaryDirectory(prefix='confab-qs-') as folder:
    result = subprocess.run([f'{source}/tools/quickstart', '--build', build], stdin=subprocess.DEVNULL, text=True,
                            capture_output=True, env={**os.environ, 'TMPDIR': folder}, check=False)
    print(result.stdout, result.stderr)
    need(result.returncode == 0, f'status {result.returncode}')
    need(not os.listdir(folder), f'it leaves {os.listdir(folder)} behind')
steps = re.split(r'\n\d+\. ', result.stdout)
need(len(steps) == 10, f'{len(steps) - 1} steps')
page, last = steps[-1], steps[-2]
need(re.search(r'^  http://127\.0\.0\.1:\d+/#token=[\w-]{40,}$', page, re.M), page)
need('curl --unix-socket' in last and 'X-Conversation-Id: travel' in last, last)
need('it: Your favourite colour is green.' in last, last)
prompt, cached = map(int, re.search(r'prompt_tokens: (\d+), cached_tokens: (\d+)', last).groups())
# all that was there when the daemon had been restarted, but for the last token of a reply, which is computed with what
# follows
before = int(re.search(r'travel \(#1\): 11 turns, (\d+) tokens', result.stdout)[1])
need(before - 1 <= cached < prompt, f'{before} tokens before, {cached} of {prompt} cached')
result = subprocess.run([f'{source}/tools/quickstart', '--biuld', build], capture_output=True, check=False)
need(result.returncode == 2 and b'usage' in result.stderr, result)
