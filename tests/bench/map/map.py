#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""map.py BUILD [--runs N] [--questions N] [--jobs N] [--tokens N]: what `confab map` takes, beside a program that does
nothing but pipeline Fork, Continue and Close on one connection (bench-pipeline).

A document of about 1,000 tokens is said to the bundled model once. Then each side, in turn, asks 200 short questions
about it, 16 at once, with replies of 16 tokens. Both start as new processes; both times are from the first connection
to the last answer, that of map with the program's start and end. Printed: medians, and the median of the ratios
of neighbouring runs; the aim is at most 1.3."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
AIM = 1.3


def wait_for(daemon, confab):
    deadline = time.monotonic() + 60
    while subprocess.run([*confab, 'stats'], capture_output=True, check=False).returncode:
        if daemon.poll() is not None or time.monotonic() > deadline:
            sys.exit('map.py: the daemon does not start')
        time.sleep(0.02)


def document():
    facts = [f'The key of room {i} hangs on hook {i * 7 % 40}, and its window looks to the {side}.'
             for i, side in zip(range(1, 41), ['north', 'east', 'south', 'west'] * 10)]
    return 'Here is what the house is like. ' + ' '.join(facts)


def main():
    o = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument('build')
    for name, value in ('runs', 5), ('questions', 200), ('jobs', 16), ('tokens', 16):
        o.add_argument('--' + name, type=int, default=value)
    o = o.parse_args()
    with tempfile.TemporaryDirectory(prefix='confab-bench-') as folder:
        socket = f'{folder}/s'
        confab = [f'{o.build}/client/confab', '--socket', socket]
        with open(f'{folder}/log', 'wb') as log:
            daemon = subprocess.Popen(
                [f'{o.build}/daemon/confabd', '--model', f'{ROOT}/models/confab-small.q8_0.gguf', '--socket', socket,
                 '--state', f'{folder}/state', '--pool-size', '512M', '--disk-floor', '0'], stderr=log)
        try:
            wait_for(daemon, confab)
            measure(o, socket, confab)
        finally:
            daemon.terminate()
            daemon.wait()


def measure(o, socket, confab):
    def run(args, text):
        return subprocess.run(args, input=text, text=True, stdout=subprocess.PIPE, check=True).stdout

    run([*confab, 'open', 'house'], '')
    run([*confab, 'say', 'house', '--max-tokens', '0', '-'], document())
    shown = run([*confab, 'ls'], '').splitlines()[1].split()
    questions = ''.join(f'Where is the key of room {i % 40 + 1}? ({i})\n' for i in range(o.questions))
    plain, mapped = [], []
    for _ in range(o.runs + 1):
        plain.append(float(run([f'{o.build}/tests/bench/map/bench-pipeline', socket, 'house', str(o.questions), str(o.jobs),
                                str(o.tokens)], questions)))
        begun = time.monotonic()
        answers = run([*confab, 'map', 'house', '--jobs', str(o.jobs), '--max-tokens', str(o.tokens), '--ignore-eos',
                       '--json'], questions)
        mapped.append(time.monotonic() - begun)
        if answers.count('"finish":"length"') != o.questions:
            sys.exit('map.py: not all questions were answered')
    plain, mapped = plain[1:], mapped[1:] # the first round warms both
    ratio = statistics.median(m / p for m, p in zip(mapped, plain))
    print(f'{o.questions} questions over {shown[3]} tokens, {o.jobs} at once, replies of {o.tokens} tokens, {o.runs} runs')
    print(f'pipelined on one connection  {statistics.median(plain):.3f} s')
    print(f'confab map --json            {statistics.median(mapped):.3f} s')
    print(f'ratio                        {ratio:.3f}  (aim: at most {AIM})')


main()
