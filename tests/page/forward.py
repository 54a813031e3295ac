# SPDX-License-Identifier: MIT
"""What lies between a browser and a gateway: TCP on this machine, to the gateway's Unix socket.

Tunnel passes bytes, as `ssh -L` does. Front reads requests, as a reverse proxy does: it may lie under a prefix, and tests tell it to
hold, change, answer or slow down what goes through it. Both can break every connection, and be away:

    front.cut()                                  # connections break, new ones are taken
    front.down() ... front.up()                  # nobody listens
    front.reply('Hello')                         # the daemon answers the next Continue with exactly this (a grammar sees to it)
    front.change('/continue$', ignore_eos=True)  # fields of the JSON that the page sends
    front.answer('/stats$', 503, {...})          # instead of the gateway
    front.rewrite('/stats$', lambda told: ...)   # what the gateway answers
    with front.held('/continue$'): ...           # requests wait until the end of the block
    front.rate = 2000                            # bytes of answers per second
"""
import contextlib
import http.client
import json
import re
import select
import socket
import threading
import time

LONG = 120
PIECE = 65536


class Forwarder:
    """Takes connections on 127.0.0.1 and passes them on to a Unix socket."""

    def __init__(self, target):
        self.target, self.port, self.listener = target, 0, None
        self.lock, self.open, self.rate = threading.Lock(), set(), None
        self.up()

    @property
    def url(self):
        return f'http://127.0.0.1:{self.port}/'

    def up(self):
        """Listens, at the same port as before."""
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(('127.0.0.1', self.port))
        s.listen(64)
        self.port, self.listener = s.getsockname()[1], s
        threading.Thread(target=self._accept, args=[s], daemon=True).start()

    def down(self):
        """Breaks every connection and takes no more."""
        s, self.listener = self.listener, None
        if s:
            s.shutdown(socket.SHUT_RDWR)
            s.close()
        self.cut()

    close = down

    def cut(self):
        """Breaks every connection."""
        with self.lock:
            for s in self.open:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client):
        upstream = socket.socket(socket.AF_UNIX)
        with self.lock:
            self.open |= {client, upstream}
        try:
            self._pass(client, upstream)
        except OSError:
            pass
        finally:
            with self.lock:
                self.open -= {client, upstream}
            client.close()
            upstream.close()

    def _pass(self, client, upstream):
        upstream.connect(self.target)
        self._both_ways(client, upstream)

    def _both_ways(self, client, upstream):
        """Passes bytes until one side ends; the other is then closed."""
        while True:
            ready, _, _ = select.select([client, upstream], [], [])
            for s in ready:
                data = s.recv(PIECE if s is client or not self.rate else max(1, self.rate // 20))
                if not data:
                    return
                (upstream if s is client else client).sendall(data)
                if s is upstream and self.rate:
                    time.sleep(len(data) / self.rate)


class Tunnel(Forwarder):
    """As ssh -L."""


class Front(Forwarder):
    """A reverse proxy that strips its prefix, with one request for each connection."""

    def __init__(self, target, prefix=''):
        self.prefix, self.rules, self.replies, self.seen = prefix, [], [], []
        super().__init__(target)

    @property
    def url(self):
        return f'http://127.0.0.1:{self.port}{self.prefix}/'

    # ---- what is done with requests: patterns of 'METHOD /path?query' ----

    def reply(self, *texts, **fields):
        """The next Continue gets exactly this text, the one behind it the next, and so on. Fields are added to its request."""
        for text in texts:
            self.replies.append({'gbnf': grammar(text), 'stop': None, **fields})

    def change(self, pattern, **fields):
        """Fields of the JSON of requests; None takes one out."""
        self.rules.append((pattern, 'change', fields))

    def answer(self, pattern, status, body, kind='application/json', times=None):
        """Answers in place of the gateway, `times` times or always. The body: bytes, a text, or what becomes JSON."""
        if not isinstance(body, bytes):
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
        left = [times if times is not None else 1 << 30]
        self.rules.append((pattern, 'answer', (left, status, kind, body)))

    def refuse(self, pattern, status, code, message='made by a test', retry=False, times=None):
        """An error in the words of /confab/v1."""
        self.answer(pattern, status, {'error': {'code': code, 'message': message, 'retry': retry, 'param': None}}, times=times)

    def rewrite(self, pattern, fn):
        """What the gateway answers as JSON is given to fn, and what fn returns is the answer: for turns of a megabyte, say."""
        self.rules.append((pattern, 'rewrite', fn))

    def lose(self, pattern, times=1):
        """The gateway gets such requests, but its answers are lost: the connection breaks."""
        self.rules.append((pattern, 'lose', [times]))

    @contextlib.contextmanager
    def held(self, pattern):
        """Requests wait until the end of the block."""
        rule = (pattern, 'hold', threading.Event())
        self.rules.append(rule)
        try:
            yield
        finally:
            self.rules.remove(rule)
            rule[2].set()

    def forget(self):
        """No rules any more."""
        self.rules, self.replies, self.seen, self.rate = [], [], [], None

    # ---- a request ----

    def _pass(self, client, upstream):
        client.settimeout(LONG)
        head, rest = read_head(client)
        if not head:
            return
        first, *fields = head.split('\r\n')
        method, path, version = first.split(' ', 2)
        if not path.startswith(self.prefix + '/'):
            client.sendall(answer_of(404, 'text/plain', b'nothing here\n'))
            return
        path = path[len(self.prefix):]
        length = next((int(one.split(':')[1]) for one in fields if one.lower().startswith('content-length:')), 0)
        while len(rest) < length:
            data = client.recv(PIECE)
            if not data:
                return
            rest += data
        self.seen.append((method, path, rest))
        lost, rewritten = False, None
        for pattern, what, how in list(self.rules):
            if not re.search(pattern, f'{method} {path}'):
                continue
            if what == 'hold':
                how.wait(LONG)
            elif what == 'change':
                rest = changed(rest, how)
            elif what == 'rewrite':
                rewritten = how
            elif what == 'lose' and how[0] > 0:
                how[0] -= 1
                lost = True
            elif what == 'answer' and how[0][0] > 0:
                how[0][0] -= 1
                client.sendall(answer_of(*how[1:]))
                return
        if method == 'POST' and path.split('?')[0].endswith('/continue') and self.replies:
            rest = changed(rest, self.replies.pop(0))
        kept = [one for one in fields if not one.lower().startswith(('content-length:', 'connection:'))]
        kept += ['Connection: close', *([f'Content-Length: {len(rest)}'] if rest or method == 'POST' else [])]
        upstream.connect(self.target)
        upstream.sendall('\r\n'.join([f'{method} {path} {version}', *kept, '', '']).encode() + rest)
        if lost:
            upstream.settimeout(LONG)
            upstream.recv(PIECE)
            return
        if rewritten:
            response = http.client.HTTPResponse(upstream)
            response.begin()
            told = json.dumps(rewritten(json.loads(response.read()))).encode()
            client.sendall(answer_of(response.status, 'application/json', told))
            return
        self._both_ways(client, upstream)


def read_head(s):
    data = b''
    while b'\r\n\r\n' not in data:
        more = s.recv(PIECE)
        if not more:
            return None, b''
        data += more
    head, _, rest = data.partition(b'\r\n\r\n')
    return head.decode('latin-1'), rest


def changed(body, fields):
    told = json.loads(body or b'{}')
    told.update(fields)
    return json.dumps({name: value for name, value in told.items() if value is not None}).encode()


def answer_of(status, kind, body):
    head = f'HTTP/1.1 {status} Made\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n\r\n'
    return head.encode() + body


def grammar(text):
    """A grammar of one text."""
    escaped = ''.join({'\\': '\\\\', '"': '\\"', '\n': '\\n', '\r': '\\r', '\t': '\\t'}.get(c, c) for c in text)
    return f'root ::= "{escaped}"'
