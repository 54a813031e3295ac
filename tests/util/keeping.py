# SPDX-License-Identifier: MIT
"""How a test talks to the keeper of its servers (postgres_keeper.py, redis_keeper.py): lines of JSON, one answer for each."""
import json
import os
import subprocess
import sys
import threading


class Kept:
    """A keeper's process. error: what is raised when it says that something has failed; of: whose keeper it is, in words."""

    def __init__(self, program, error, of, *arguments):
        self.error, self.of = error, of
        self.lock = threading.Lock()
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), program)
        # A session of its own: who ends the test by its process group must not end the keeper.
        self.process = subprocess.Popen([sys.executable, '-IS', path, *arguments], bufsize=0, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise self.error(f'the keeper of {self.of} has ended')
        answer = json.loads(line)
        if 'error' in answer:
            raise self.error(answer['error'])
        return answer['value']

    def ask(self, name, *arguments):
        with self.lock:
            try:
                self.process.stdin.write(json.dumps([name, arguments]).encode() + b'\n')
            except BrokenPipeError as e:
                raise self.error(f'the keeper of {self.of} has ended') from e
            return self.answer()

    @property
    def pid(self):
        return self.process.pid

    @property
    def closed(self):
        return self.process.stdin.closed

    def kill(self):
        self.process.kill()

    def close(self):
        """It ends the servers. Nothing is done the second time."""
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        status = self.process.wait()
        self.process.stdout.close()
        if status:
            raise self.error(f'the keeper of {self.of} ended with status {status}')
