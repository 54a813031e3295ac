# SPDX-License-Identifier: MIT
"""What the parts of tools/check-clients share: the folders that they are given, programs that say when they are
ready, and checks as lines of TAP.

tools/check-clients runs a part (an executable in tools/clients/parts) with these variables:

  CONFAB_SOURCE    the checkout
  CONFAB_BUILD     the build folder whose programs are to be used
  CONFAB_MODEL     the bundled model
  CONFAB_PACKAGES  a folder whose node_modules has the part's packages of versions.json
  CONFAB_WORK      an empty folder, which is removed afterwards; HOME is a folder in it

The part prints a line for each check, "ok - NAME", "not ok - NAME" or "ok - NAME # SKIP WHY"; lines that begin with a
space after "not ok" say why. In Python:

  import harness
  with harness.start_daemon() as daemon:
      harness.check('it answers', lambda: ask(daemon.socket))
  harness.finish()
"""
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import traceback

SOURCE, BUILD, MODEL, PACKAGES, WORK = (pathlib.Path(os.environ.get(f'CONFAB_{name}', '')) for name in
                                        ('SOURCE', 'BUILD', 'MODEL', 'PACKAGES', 'WORK'))
# A machine may be busy: this long a program may take to be ready, or to end.
LIMIT = 120

_n_failed = 0


class Program:
    """A program that tells systemd's way (NOTIFY_SOCKET) when it is ready: confabd, and a gateway. What it says is
    in `log`. It gets the descriptors `pass_fds` under their own numbers."""

    def __init__(self, name, argv, pass_fds=()):
        self.name = name
        self.pass_fds = pass_fds
        self.log = WORK / f'{name}.log'
        self.argv = [str(word) for word in argv]
        self.process = None

    def start(self):
        """Returns when it is ready."""
        path = str(WORK / f'{self.name}.notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, open(self.log, 'ab') as log:
            manager.bind(path)
            manager.settimeout(0.2)
            self.process = subprocess.Popen(self.argv, env={**os.environ, 'NOTIFY_SOCKET': path}, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, pass_fds=self.pass_fds)
            try:
                self._wait_ready(manager)
            finally:
                os.unlink(path)

    def _wait_ready(self, manager):
        # The timeout is for looking whether it has ended; what is waited for is the message.
        for _ in range(LIMIT * 5):
            with contextlib.suppress(TimeoutError):
                if b'READY=1' in manager.recv(4096):
                    return
            if self.process.poll() is not None:
                break
        self.kill()
        raise RuntimeError(f'{self.name} did not start:\n{self.words()}')

    def words(self):
        """The end of what it said."""
        return self.log.read_text(errors='replace')[-2000:]

    def stop(self):
        """Tells it to end and waits; it must end well."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            status = self.process.wait(LIMIT)
        finally:
            self.kill()
        if status != 0:
            raise RuntimeError(f'{self.name} ended with status {status}:\n{self.words()}')

    def kill(self):
        """Ends it at once, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
        else:
            self.kill()


def start_daemon(*flags, name='confabd'):
    """A confabd on the bundled model, for `with`: `socket` is its path."""
    path = WORK / f'{name}.sock'
    daemon = Program(name, [BUILD / 'daemon/confabd', '--model', MODEL, '--socket', path, '--state', WORK / f'{name}.state',
                            '--pool-size', '64M', *flags])
    daemon.socket = path
    return daemon


def say(line):
    print(line, flush=True)


def report(name, why=None):
    """One check: it passed, or failed for the reason `why`."""
    global _n_failed  # pylint: disable=global-statement
    say(f'ok - {name}' if why is None else f'not ok - {name}')
    if why is not None:
        _n_failed += 1
        for line in why.splitlines():
            say(f'  {line}')


def check(name, function):
    """A check that fails if the function raises; returns what it returns."""
    try:
        result = function()
    except Exception:  # pylint: disable=broad-except
        report(name, traceback.format_exc())
        return None
    report(name)
    return result


def skip(name, why):
    say(f'ok - {name} # SKIP {why}')


def run(argv, cwd=None, env=None, limit=600):
    """The output of a command that has to succeed; its input is empty."""
    result = subprocess.run([str(word) for word in argv], cwd=cwd, env={**os.environ, **(env or {})}, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                            check=False)
    if result.returncode:
        raise RuntimeError(f'{" ".join(str(word) for word in argv)}: status {result.returncode}\n{result.stdout[-4000:]}')
    return result.stdout


def finish():
    """The last call of a part."""
    sys.exit(1 if _n_failed else 0)
