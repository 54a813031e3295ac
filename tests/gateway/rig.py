# SPDX-License-Identifier: MIT
"""A real confabd and a real confab-gateway in a folder of their own, and HTTP over the gateway's Unix socket.

Tests are called with CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE CONFAB. A test file is a list of functions:

    import rig

    def test_health(r):
        status, head, body = r.get('/health')
        rig.need(status == 200, body)

    rig.run(globals())                       # all functions test_*, with one daemon and one gateway
    rig.run(globals(), daemon=('--context', '1024'), gateway=('--keep-alive', '1s'))

Nothing here waits for a time: programs say that they are ready (sd_notify), and reads wait for the answer.
"""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

confabd, confab_gateway, make_model, source, confab = ([os.path.abspath(path) for path in sys.argv[1:6]] + [''] * 5)[:5]
MODEL = os.path.join(source, 'models/confab-small.q4_0.gguf')
LONG = 120 # seconds that nothing should take


def need(ok, words):
    if not ok:
        raise AssertionError(words)


# What `stats` tells beside the named figures.
BESIDE = {'all_users', 'version', 'started_usec', 'uptime_usec', 'time_usec', 'since_usec', 'histograms', 'rates', 'own', 'own_rates',
          'users', 'more_users'}

class Program:
    """A program that says when it is ready."""

    def __init__(self, folder, name, args, **how):
        self.name, self.log = name, f'{folder}/{name}.log'
        path = f'{folder}/{name}.notify'
        if os.path.exists(self.log):
            os.unlink(self.log)
        if os.path.exists(path):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, open(self.log, 'ab') as log:
            notify.bind(path)
            os.chmod(path, 0o666)
            notify.settimeout(1)
            env = {**how.pop('env', os.environ), 'NOTIFY_SOCKET': path}
            self.process = subprocess.Popen(args, stderr=log, stdin=subprocess.DEVNULL, env=env, **how)
            for _ in range(LONG):
                try:
                    if b'READY=1' in notify.recv(4096).split(b'\n'):
                        return
                except TimeoutError:
                    need(self.process.poll() is None, f'{name} ended: {self.said()}')
        self.process.kill()
        raise AssertionError(f'{name} did not become ready: {self.said()}')

    def said(self):
        with open(self.log, encoding='utf-8', errors='replace') as f:
            return f.read()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(LONG)
        need(status == 0, f'{self.name} ended with {status}: {self.said()}')

    def kill(self):
        self.process.kill()
        self.process.wait(LONG)


class Connection(http.client.HTTPConnection):
    """http.client over a Unix socket."""

    def __init__(self, path):
        super().__init__('localhost', timeout=LONG)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Rig:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='confab-gw-')
        self.daemon_socket, self.socket = f'{self.folder}/d', f'{self.folder}/g'
        self.daemons, self.gateway, self.gateway_said = {}, None, ''

    def __enter__(self):
        return self

    def __exit__(self, *what):
        try:
            for program in [self.gateway, *self.daemons.values()]:
                if program and what[0]:
                    program.kill()
                elif program:
                    program.stop()
        finally:
            for program in [self.gateway, *self.daemons.values()]:
                if program and program.process.poll() is None:
                    program.kill()
            shutil.rmtree(self.folder)

    def start_daemon(self, *flags, model=None, path=None):
        """Without speculation, unless it is asked for: tests in the middle of a reply know how long one lasts, and what repeats would be over in
        half of the time."""
        path = path or self.daemon_socket
        name = 'daemon-' + os.path.basename(path)
        args = [confabd, '--model', model or MODEL, '--socket', path, '--state', path + '.state', '--pool-size', '64M',
                '--threads', '1', '--disk-floor', '0', '--speculation', 'off', *flags]
        self.daemons[path] = Program(self.folder, name, args)

    def stop_daemon(self, path=None, kill=False):
        program = self.daemons.pop(path or self.daemon_socket)
        if kill:
            program.kill()
        else:
            program.stop()

    def start_gateway(self, *flags, **how):
        args = [confab_gateway, '--listen', self.socket]
        if '--daemon' not in flags:
            args += ['--daemon', self.daemon_socket]
        if '--page' not in flags:
            args += ['--page', os.path.join(source, 'client/gateway/page')]
        self.gateway = Program(self.folder, 'gateway', [*args, *flags], **how)

    def stop_gateway(self):
        program, self.gateway = self.gateway, None
        program.stop()
        self.gateway_said = program.said()

    def make_model(self, *args, name='model.gguf'):
        """A model of tools/make-model: make_model('arch:qwen3', 'f32')."""
        path = f'{self.folder}/{name}'
        subprocess.run([make_model, path, *args], check=True, stdout=subprocess.DEVNULL)
        return path

    def confab(self, *args, socket=None):
        """What the command prints about the daemon, or about the one at the socket."""
        return subprocess.run([confab, '--socket', socket or self.daemon_socket, *args], stdin=subprocess.DEVNULL, check=True,
                              capture_output=True, timeout=LONG).stdout

    def stats(self):
        """Figures of the daemon, by name."""
        return json.loads(self.confab('--json', 'stats'))

    def figures(self):
        """The named ones alone."""
        return {name: value for name, value in self.stats().items() if name not in BESIDE}

    # ---- HTTP ----

    def connect(self):
        """An http.client connection, kept between requests."""
        return Connection(self.socket)

    def raw(self):
        """A connected socket."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(LONG)
        s.connect(self.socket)
        return s

    def request(self, method, path, body=None, **fields):
        """(status, fields, body): the body as JSON if it is some. Fields: x_conversation_id='a'."""
        connection = self.connect()
        try:
            response = ask(connection, method, path, body, **fields)
            return response.status, response.headers, read(response)
        finally:
            connection.close()

    def get(self, path, **fields):
        return self.request('GET', path, **fields)

    def post(self, path, body, **fields):
        return self.request('POST', path, body, **fields)

    def stream(self, path, body, **fields):
        """The events of a stream as (name, data): the name None if there is none, the data parsed but for [DONE]."""
        connection = self.connect()
        try:
            response = ask(connection, 'POST', path, body, **fields)
            if response.status != 200:
                raise AssertionError(f'{response.status}: {response.read()}')
            yield from events(response)
        finally:
            connection.close()


def ask(connection, method, path, body=None, **fields):
    fields = {name.replace('_', '-'): value for name, value in fields.items()}
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
        fields.setdefault('Content-Type', 'application/json')
    connection.request(method, path, body, fields)
    return connection.getresponse()


def read(response):
    data = response.read()
    if (response.headers.get('Content-Type') or '').startswith('application/json') and data:
        return json.loads(data)
    return data


def events(response):
    """Of server-sent events: (name, data)."""
    name, data = None, []
    for line in response:
        line = line.decode().rstrip('\r\n')
        if line.startswith('event: '):
            name = line[7:]
        elif line.startswith('data: '):
            data.append(line[6:])
        elif not line and data:
            text = '\n'.join(data)
            yield name, text if text == '[DONE]' else json.loads(text)
            name, data = None, []


def lines(response):
    """Of an answer in lines of JSON."""
    for line in response:
        if line.strip():
            yield json.loads(line)


def run(names, daemon=(), gateway=(), model=None):
    """Run the test_ functions of @names. daemon=None, gateway=None: without one. model: a path, or a tuple of make_model()'s arguments."""
    if not os.path.exists(MODEL):
        print(f'SKIP: no {MODEL}')
        sys.exit(77)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    tests = [(name, fn) for name, fn in names.items() if name.startswith('test_')]
    failed = []
    with Rig() as rig:
        if daemon is not None:
            if isinstance(model, tuple):
                model = rig.make_model(*model)
            rig.start_daemon(*daemon, model=model)
        if gateway is not None:
            rig.start_gateway(*gateway)
        for name, fn in tests:
            try:
                fn(rig)
                print(f'ok: {name}', flush=True)
            except Exception: # pylint: disable=broad-except
                failed.append(name)
                said = rig.gateway.said() if rig.gateway else rig.gateway_said
                print(f'FAILED: {name}\n{traceback.format_exc()}\ngateway: {said}', flush=True)
                if gateway is None and rig.gateway:
                    rig.gateway.kill()
                    rig.gateway = None
    if failed or not tests:
        sys.exit(f'FAILED: {len(failed)} of {len(tests)}: {failed}')
