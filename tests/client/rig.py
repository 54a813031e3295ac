# SPDX-License-Identifier: MIT
"""What the tests of the Python client share: cases as TAP, a real daemon, a daemon that plays a script.

Each program is called as PROGRAM PACKAGE-FOLDER CONFABD SOURCE. A case is a function without arguments, or a
coroutine function. It fails by an exception, also by one that Python can only print (in a finalizer, in a callback
of the loop), and by a file or socket that it leaves to the garbage collector.
"""
import asyncio
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from contextlib import contextmanager

package, confabd, source = sys.argv[1:4]
sys.dont_write_bytecode = True
sys.path.insert(0, package)

MODEL = os.path.join(source, 'models/confab-small.q8_0.gguf')
TIMEOUT = 120  # seconds after which something hangs


def skip_all(reason):
    print(f'1..0 # SKIP {reason}')
    sys.exit(0)


try:
    import google.protobuf  # noqa: F401
except ImportError:
    skip_all(f'{sys.executable} has no module google.protobuf (package python3-protobuf)')

import confab  # noqa: E402
from confab import ConfabError, blocking, frame, messages  # noqa: E402


def need(ok, words):
    if not ok:
        raise AssertionError(words)


@contextmanager
def fails(*codes):
    """The block fails with a ConfabError of one of these codes, which is put into the list that is given."""
    seen = []
    try:
        yield seen
    except ConfabError as e:
        need(e.code in codes, f'{e!r}, not {codes}')
        seen.append(e)
    else:
        raise AssertionError(f'this does not fail with {codes}')


# ---- cases ----

def run_case(case, trouble):
    if not asyncio.iscoroutinefunction(case):
        case()
        return

    async def whole():
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = TIMEOUT
        loop.set_exception_handler(
            lambda _loop, context: trouble.append(f'in the loop: {context}'))
        await asyncio.wait_for(case(), TIMEOUT)
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(whole(), debug=True)


def main(*cases):
    warnings.simplefilter('error')
    # Finalizers of this package may run without harm at any time: let them.
    gc.set_threshold(50, 5, 5)
    n_failed = 0
    for n, case in enumerate(cases, 1):
        trouble = []
        sys.unraisablehook = lambda what: trouble.append(f'{what.err_msg}: {what.exc_value!r} in {what.object!r}')
        signal.alarm(2 * TIMEOUT)
        try:
            run_case(case, trouble)
            gc.collect()
            need(not trouble, '\n'.join(map(str, trouble)))
            print(f'ok {n} - {case.__name__}', flush=True)
        except Exception:  # pylint: disable=broad-except  # the next case is to run
            n_failed += 1
            print('# ' + traceback.format_exc().replace('\n', '\n# '))
            for words in trouble:
                print('# ' + str(words).replace('\n', '\n# '))
            print(f'not ok {n} - {case.__name__}', flush=True)
    print(f'1..{len(cases)}')
    sys.exit(1 if n_failed else 0)


# ---- the real daemon ----

class Daemon:
    """`with Daemon() as daemon`: ready, with the bundled model, in a folder of its own."""

    def __init__(self, **settings):
        if not os.path.exists(MODEL):
            skip_all(f'no {MODEL}')
        self.folder = tempfile.mkdtemp(prefix='confab-client-')
        self.path = os.path.join(self.folder, 'socket')
        self.settings = {'model': MODEL, 'socket': self.path, 'state': os.path.join(self.folder, 'state'),
                         'pool-size': '128M', 'threads': '1', **settings}
        self.process = None

    def start(self):
        path = os.path.join(self.folder, 'notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(TIMEOUT)
            with open(os.path.join(self.folder, 'log'), 'ab') as log:
                self.process = subprocess.Popen(
                    [confabd, *(f'--{name}={value}' for name, value in self.settings.items())], stderr=log,
                    env={**os.environ, 'NOTIFY_SOCKET': path, 'MEMORY_PRESSURE_WATCH': '/dev/null'})
            while b'READY=1' not in manager.recv(4096):
                pass
        os.unlink(path)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_why):
        status = self.process.poll()
        if status is None:
            self.process.terminate()
            status = self.process.wait(TIMEOUT)
        with open(os.path.join(self.folder, 'log'), encoding='utf-8', errors='replace') as log:
            text = log.read()
        shutil.rmtree(self.folder)
        need(status in (0, -signal.SIGKILL), f'the daemon ended with {status}:\n{text}')


# ---- a daemon that plays a script ----

def event(request, **kind):
    return frame.encode(messages.Event(request=request, **kind).SerializeToString())


def hello(**fields):
    return event(1, hello=messages.Hello(**{'version': 1, 'software': 'fake', 'max_frame': 4 << 20, **fields}))


class Peer:
    """The other end of a client's socket, read and written by the test."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(TIMEOUT)
        self.decoder = frame.Decoder()

    def read(self):
        """The next Request, and the descriptor that came with it or -1; None at the end."""
        while True:
            item = self.decoder.next()
            if item:
                return messages.Request.FromString(item[0]), item[1]
            data, fd = frame.receive(self.sock)
            if not data:
                return None
            self.decoder.push(data, fd)

    def write(self, data):
        self.sock.sendall(data)

    def close(self):
        self.decoder.close()
        self.sock.close()


@contextmanager
def scripted(script):
    """A socket whose other end is given to script(peer), in a thread. What goes wrong there is raised here."""
    ours, theirs = socket.socketpair()
    wrong = []

    def play():
        peer = Peer(theirs)
        try:
            script(peer)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client may end it at any time
        except BaseException as e:  # pylint: disable=broad-except  # told below
            wrong.append(e)
        finally:
            peer.close()

    thread = threading.Thread(target=play)
    thread.start()
    try:
        with ours:
            yield ours
    finally:
        thread.join(TIMEOUT)
    need(not wrong, f'the script: {wrong}')
    need(not thread.is_alive(), 'the script hangs')


# ---- both clients ----

class Awaitable:
    """A blocking client with the methods of the one for asyncio, so that one text tests both."""

    STREAMS = ('continue_', 'attach', 'watch', 'export_stream', 'backup', 'check')

    def __init__(self, client):
        self.client = client

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_why):
        self.client.disconnect()

    def __getattr__(self, name):
        value = getattr(self.client, name)
        if not callable(value):
            return value
        if name in self.STREAMS:
            return lambda *args, **kwargs: AwaitableStream(value(*args, **kwargs))

        async def method(*args, **kwargs):
            return value(*args, **kwargs)
        return method


class AwaitableStream:
    def __init__(self, stream):
        self.stream = stream

    def __aiter__(self):
        return self

    async def __anext__(self):
        for item in self.stream:
            return item
        raise StopAsyncIteration

    async def text(self):
        return self.stream.text()

    async def aclose(self):
        self.stream.close()

    def __getattr__(self, name):
        return getattr(self.stream, name)


async def connect_asyncio(path, **how):
    return await confab.Client.connect(path, **how)


async def connect_blocking(path, **how):
    return Awaitable(blocking.Client.connect(path, timeout=TIMEOUT, **how))


async def from_socket_asyncio(sock, **how):
    return await confab.Client.from_socket(sock, **how)


async def from_socket_blocking(sock, **how):
    return Awaitable(blocking.Client.from_socket(sock, timeout=TIMEOUT, **how))


def both(case):
    """The case, for each client: case(connect, from_socket)."""
    def made(name, *how):
        async def run():
            await case(*how)
        run.__name__ = f'{case.__name__} ({name})'
        return run
    return (made('asyncio', connect_asyncio, from_socket_asyncio),
            made('blocking', connect_blocking, from_socket_blocking))
