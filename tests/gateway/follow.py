#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""follow.py CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE CONFAB: a gateway that goes where a conversation is held.

There are two gateways, `here` and `there`, and one real daemon, there. Here is a daemon of this file (Near): it hands everything on to the real one, as if
they shared a register, but refuses some requests with `moved` and the address that the test wants. Where the other gateway has to
be wrong, slow or hostile, it is one of this file, too (Odd)."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import rig

OPEN, CONTINUE, FORK, GET, CANCEL, ATTACH = 3, 4, 5, 8, 13, 21 # of Request, in confab.proto
MINE, OTHER, TENANT = 'token-of-this-user', 'token-of-the-other', 'token-of-a-tenant'
CHAT = '/v1/chat/completions'
ENV = {**os.environ, 'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':quarantine_size_mb=1'} # memory is measured


# ---- a daemon that says moved ----

def varint(n):
    out = b''
    while n > 0x7f:
        out, n = out + bytes([n & 0x7f | 0x80]), n >> 7
    return out + bytes([n])


def read_varint(data, at):
    n = shift = 0
    while True:
        if at >= len(data):
            return None, at
        n, shift, at = n | (data[at] & 0x7f) << shift, shift + 7, at + 1
        if data[at - 1] < 0x80:
            return n, at


def text(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def id_and_verb(frame):
    at, request, verb = 0, 0, 0
    while at < len(frame):
        tag, at = read_varint(frame, at)
        if tag == 8:
            request, at = read_varint(frame, at)
        else:
            verb = verb or tag >> 3
            size, at = read_varint(frame, at)
            at += size
    return request, verb


class Near:
    def __init__(self, path, daemon):
        self.daemon, self.address, self.moved, self.n_moved = daemon, '', set(), 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.daemon)
                how = near, far, threading.Lock(), threading.Event()
                threading.Thread(target=self.requests, args=how, daemon=True).start()
                threading.Thread(target=self.events, args=how, daemon=True).start()

    def refusal(self, request):
        error = text(1, b'moved') + text(2, b'machine far is writing a reply there') + b'\x18\x01' + text(4, b'far')
        event = varint(8) + varint(request) + text(3, error + text(5, self.address.encode()))
        return varint(len(event)) + event

    def requests(self, near, far, lock, greeted):
        data = b''
        with contextlib.suppress(OSError):
            while more := near.recv(1 << 16):
                data += more
                while True:
                    size, at = read_varint(data, 0)
                    if size is None or len(data) < at + size:
                        break
                    whole, frame, data = data[:at + size], data[at:at + size], data[at + size:]
                    request, verb = id_and_verb(frame)
                    if verb in self.moved:
                        self.n_moved += 1
                        greeted.wait(rig.LONG)
                        with lock:
                            near.sendall(self.refusal(request))
                    else:
                        far.sendall(whole)
        with contextlib.suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def events(near, far, lock, greeted):
        """Whole frames, so that a refusal never stands within one."""
        data = b''
        with contextlib.suppress(OSError):
            while more := far.recv(1 << 16):
                data, n = data + more, 0
                while True:
                    size, at = read_varint(data, n)
                    if size is None or len(data) < at + size:
                        break
                    n = at + size
                with lock:
                    near.sendall(data[:n])
                    greeted.set()
                data = data[n:]
        with contextlib.suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)


# ---- gateways that are odd ----

class Odd:
    """A server on a port of its own; @answer gets a connection whose request was read, and the request."""

    def __init__(self, answer, context=None):
        self.answer, self.context, self.requests = answer, context, []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError, ValueError):
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection:
                request = b''
                while b'\r\n\r\n' not in request:
                    more = connection.recv(1 << 16)
                    if not more:
                        return
                    request += more
                head, body = request.split(b'\r\n\r\n', 1)
                size = int((re.findall(rb'(?i)\r\ncontent-length: (\d+)', head) or [b'0'])[0])
                while len(body) < size:
                    body += connection.recv(1 << 16)
                self.requests.append((head.decode(), body))
                self.answer(connection, head, body)
                if self.context:
                    connection.unwrap()

    def close(self):
        self.listener.close()


def front(port):
    """What stands before a gateway and speaks TLS: hands the request on, and the answer back."""
    def answer(connection, head, body):
        with socket.create_connection(('127.0.0.1', port)) as far:
            far.sendall(head + b'\r\n\r\n' + body)
            while data := far.recv(1 << 16):
                connection.sendall(data)
    return answer


def certificate(folder, name, *names):
    """(certificate, context of a server): self-signed, for names like DNS:localhost."""
    cert, key = f'{folder}/{name}.crt', f'{folder}/{name}.key'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', cert,
                    '-days', '2', '-subj', '/CN=test', '-addext', 'subjectAltName=' + ','.join(names)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


# ---- the stage ----

class Stage:
    def __init__(self, here, there):
        self.here, self.there = here, there
        there.start_daemon()
        self.start(there)
        self.near = Near(here.daemon_socket, there.daemon_socket)
        self.ca = None
        if shutil.which('openssl'):
            self.ca, self.good = certificate(here.folder, 'good', 'DNS:localhost', 'IP:127.0.0.1')
            _, self.wrong = certificate(here.folder, 'wrong', 'DNS:elsewhere.example')
            _, self.unknown = certificate(here.folder, 'unknown', 'DNS:localhost', 'IP:127.0.0.1')
            with open(self.ca, 'a', encoding='ascii') as f: # known, but of another name
                f.write(open(f'{here.folder}/wrong.crt', encoding='ascii').read())
        self.start(here, '--follow', 'yes', *(['--follow-ca-file', self.ca] if self.ca else []))
        self.direct = f'http://127.0.0.1:{there.port}'

    @staticmethod
    def start(r, *flags):
        path = r.folder + '/tokens'
        with open(path, 'w', encoding='ascii') as f:
            f.write(f'{MINE} {os.getuid()}\n{OTHER} {65534 if os.getuid() == 0 else os.getuid()} x\n{TENANT} {os.getuid()} anna\n')
        os.chmod(path, 0o600)
        r.start_gateway('--tcp', '127.0.0.1:0', '--token-file', path, '--tenant-header', 'x-tenant',
                        '--daemon', 'd', *flags, cwd=r.folder, env=ENV) # ids of responses name the daemon by this path
        r.port = int(re.search(r'listening on 127\.0\.0\.1:(\d+)', r.gateway.said())[1])

    @contextlib.contextmanager
    def moved(self, address, *verbs):
        self.near.address, self.near.moved, before = address, set(verbs or (CONTINUE, FORK, ATTACH, CANCEL)), self.near.n_moved
        yield
        rig.need(self.near.n_moved > before, 'nothing was moved')
        self.near.moved = set()

    @staticmethod
    def connect(r):
        return http.client.HTTPConnection('127.0.0.1', r.port, timeout=rig.LONG)

    def ask(self, method, path, body=None, r=None, token=MINE, **fields):
        connection = self.connect(r or self.here)
        response = rig.ask(connection, method, path, body, Authorization='Bearer ' + token, **fields)
        answer = response.status, response.headers, rig.read(response)
        connection.close()
        return answer

    def stream(self, path, body, read=rig.events, **fields):
        connection = self.connect(self.here)
        response = rig.ask(connection, 'POST', path, body, Authorization='Bearer ' + MINE, **fields)
        rig.need(response.status == 200, (response.status, body, response.status != 200 and response.read()))
        got = list(read(response))
        connection.close()
        return got


def user(words):
    return {'role': 'user', 'content': words}


def error_of(answer):
    return answer['error'].get('code') or answer['error']['message'] if isinstance(answer['error'], dict) else answer['error']


# ---- tests ----

def check_dialects(s, where):
    """Each dialect, whole and as a stream."""
    chat = {'messages': [user('Who is Nora?')], 'max_tokens': 6, 'temperature': 0}
    with s.moved(where):
        status, fields, answer = s.ask('POST', CHAT, chat)
        rig.need(status == 200 and answer['usage']['completion_tokens'] == 6, answer)
        rig.need(fields.get_all('Cache-Control') == ['no-store'] and len(fields.get_all('Date')) == 1, fields)
        whole = answer['choices'][0]['message']['content']
        events = s.stream(CHAT, {**chat, 'stream': True})
        rig.need(events[-1] == (None, '[DONE]'), events)
        said = ''.join(e['choices'][0]['delta'].get('content') or '' for _, e in events[:-1] if e['choices'])
        rig.need(said == whole, (said, whole))
        status, _, answer = s.ask('POST', '/v1/completions', {'prompt': 'Nora is', 'max_tokens': 4})
        rig.need(status == 200 and answer['object'] == 'text_completion', answer)
        status, _, answer = s.ask('POST', '/v1/messages', chat)
        rig.need(status == 200 and answer['type'] == 'message', answer)
        events = s.stream('/v1/messages', {**chat, 'stream': True})
        rig.need(events[0][0] == 'message_start' and events[-1][0] == 'message_stop', events)
        status, _, answer = s.ask('POST', '/api/chat', {'messages': chat['messages'], 'stream': False, 'options': {'num_predict': 4}})
        rig.need(status == 200 and answer['done'], answer)
        lines = s.stream('/api/chat', {'messages': chat['messages'], 'options': {'num_predict': 4}}, read=rig.lines)
        rig.need(lines[-1]['done'], lines)
        status, _, answer = s.ask('POST', '/v1/responses', {'input': 'Who is Nora?', 'max_output_tokens': 4})
        rig.need(status == 200 and answer['object'] == 'response', answer)
        events = s.stream('/v1/responses', {'input': 'And Bela?', 'previous_response_id': answer['id'], 'max_output_tokens': 4, 'stream': True})
        rig.need(events[0][0] == 'response.created' and events[-1][0] in ('response.incomplete', 'response.completed'), events)


def check_own(s, where, name):
    status, _, made = s.ask('POST', '/confab/v1/conversations', {'name': name}, r=s.there)
    rig.need(status == 201, made)
    path = f'/confab/v1/conversations/{made["id"]}'
    say = {'message': 'Say: \u00e4 &+%', 'max_tokens': 5, 'stream': False}
    with s.moved(where, CONTINUE, FORK, ATTACH, GET, OPEN):
        status, _, answer = s.ask('POST', path + '/continue', say)
        rig.need(status == 200 and answer['done'], answer)
        events = s.stream(path + '/continue', {**say, 'stream': True})
        rig.need(events[-1][0] == 'done', events)
        # a query, and a name that has to be encoded
        status, _, answer = s.ask('GET', f'/confab/v1/conversations/-?conversation={name.replace(" ", "+")}')
        rig.need(status == 200 and answer['name'] == name, answer)
        status, _, answer = s.ask('HEAD', path)
        rig.need(status == 200 and answer == b'', answer)
        status, fields, answer = s.ask('POST', '/confab/v1/conversations', {'name': name + '2'})
        rig.need(status == 201 and fields['Location'].endswith(f'/{answer["id"]}'), answer)
        # the other side's refusals are as good
        status, _, answer = s.ask('POST', path + '/continue', {**say, 'expect_revision': 99})
        rig.need(status == 409 and answer['error']['code'] == 'conflict', answer)
        status, _, answer = s.ask('POST', '/confab/v1/conversations', {'name': name})
        rig.need(status == 409 and answer['error']['code'] == 'exists', answer)


def test_gateway(s):
    check_dialects(s, s.direct)
    check_own(s, s.direct, 'a b')


def test_daemon_of_this_host(s):
    check_dialects(s, 'unix:' + s.there.daemon_socket)
    check_own(s, 'unix:' + s.there.daemon_socket, 'c d')
    # whom the kernel knows goes there as well, but not to a gateway
    body = {'messages': [user('Who is Nora?')], 'max_tokens': 4}
    with s.moved('unix:' + s.there.daemon_socket):
        rig.need(s.here.post(CHAT, body)[0] == 200, 'by the Unix socket')
    with s.moved(s.direct):
        status, _, answer = s.here.post(CHAT, body)
        rig.need(status == 409 and error_of(answer) == 'moved', answer)


def test_tls(s):
    if not s.ca:
        return
    body = {'messages': [user('Who is Nora?')], 'max_tokens': 4}
    for context, host, follows in (s.good, 'localhost', True), (s.good, '127.0.0.1', True), (s.wrong, 'localhost', False), \
            (s.wrong, '127.0.0.1', False), (s.unknown, 'localhost', False), (None, 'localhost', False):
        odd = Odd(front(s.there.port), context)
        with s.moved(f'https://{host}:{odd.port}'):
            status, _, answer = s.ask('POST', CHAT, body)
            rig.need(status == (200 if follows else 409), (host, context, answer))
            rig.need(len(odd.requests) == follows, 'who got the token')
            if follows:
                events = s.stream(CHAT, {**body, 'stream': True})
                rig.need(events[-1] == (None, '[DONE]'), events)
        odd.close()
    # nobody signs TLS's end: the answer may have been cut off
    def cut(connection, head, body):
        connection.sendall(b'HTTP/1.1 200 OK\r\n\r\nhello')
        connection.shutdown(socket.SHUT_RDWR)
    odd = Odd(cut, s.good)
    with s.moved(f'https://localhost:{odd.port}'):
        try:
            s.ask('GET', '/confab/v1/conversations/1/attach')
            rig.need(False, 'it was taken as whole')
        except (http.client.HTTPException, ConnectionError):
            pass
    odd.close()


def test_what_is_sent(s):
    odd = Odd(lambda c, h, b: c.sendall(b'HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\nLocation: /x\r\nX-Y: z\r\n'
                                        b'Content-Type: text/odd\r\nAlt-Svc: h3\r\n\r\n{}'))
    with s.moved(f'http://127.0.0.1:{odd.port}', GET):
        status, fields, body = s.ask('GET', '/confab/v1/conversations/7?want=%26%20%C3%A4%2B', Cookie='c=d', X_Y='kept', Connection='close, x-z', X_Z='gone',
                                     Origin=f'http://127.0.0.1:{s.here.port}', X_Forwarded_For='1.2.3.4')
    rig.need(status == 202 and body == b'{}' and fields['Location'] == '/x' and fields['Content-Type'] == 'text/odd', fields)
    rig.need(not fields['Set-Cookie'] and not fields['Alt-Svc'] and fields['Content-Length'] == '2', fields)
    head, body = odd.requests[0]
    line, *rest = head.split('\r\n')
    sent = dict(field.lower().split(': ', 1) for field in rest)
    rig.need(line == 'GET /confab/v1/conversations/7?want=%26%20%C3%A4%2B HTTP/1.1' and body == b'', line)
    rig.need(sent.pop('host') == f'127.0.0.1:{odd.port}' and sent.pop('authorization') == 'bearer ' + MINE, sent)
    rig.need(sent == {'connection': 'close', 'confab-followed': str(os.getuid()), 'x-y': 'kept'}, sent)
    with s.moved(f'http://127.0.0.1:{odd.port}', GET):
        rig.need(s.ask('GET', '/confab/v1/conversations/7', token=TENANT)[0] == 202, 'a tenant')
        rig.need(s.ask('GET', '/confab/v1/conversations/7', x_tenant='a;b')[0] == 202, 'a tenant by its field')
    rig.need(f'Confab-Followed: {os.getuid()};anna' in odd.requests[1][0], odd.requests[1])
    rig.need(f'Confab-Followed: {os.getuid()};a%3Bb' in odd.requests[2][0], odd.requests[2])
    odd.close()


def test_one_hop(s):
    """Two gateways that both say moved: one more try, and the answer is moved."""
    odd = Odd(front(s.here.port))
    with s.moved(f'http://127.0.0.1:{odd.port}'):
        status, fields, answer = s.ask('POST', CHAT, {'messages': [user('Who is Nora?')], 'max_tokens': 4})
        rig.need(status == 409 and error_of(answer) == 'moved' and fields['Retry-After'] == '1', answer)
        rig.need(len(odd.requests) == 1, odd.requests)
        # whoever sets the mark is not followed, and is nobody else by it
        status, _, answer = s.ask('POST', CHAT, {'messages': [user('Who is Nora?')], 'max_tokens': 4}, Confab_Followed=str(os.getuid()))
        rig.need(status == 409 and len(odd.requests) == 1, answer)
    with s.moved(f'http://127.0.0.1:{odd.port}', GET): # which has no body that would have to be kept
        status, _, answer = s.ask('GET', '/confab/v1/conversations/1', Confab_Followed=str(os.getuid()))
        rig.need(status == 409 and len(odd.requests) == 1, answer)
    for mark in '0;x', 'x', '', '77', f'{os.getuid()};anna':
        rig.need(s.ask('GET', '/v1/models', Confab_Followed=mark)[0] == 421, mark)
    rig.need(s.ask('GET', '/v1/models', Confab_Followed=f'{os.getuid()};anna', token=TENANT)[0] == 200, 'a tenant')
    rig.need(s.ask('GET', '/v1/models', Confab_Followed=str(os.getuid()), token='x' * 20)[0] == 401, 'a mark is no token')
    odd.close()
    # likewise on one host
    with s.moved('unix:' + s.here.daemon_socket):
        before = s.near.n_moved
        status, _, answer = s.ask('POST', CHAT, {'messages': [user('Who is Nora?')], 'max_tokens': 4})
        rig.need(status == 409 and error_of(answer) == 'moved' and s.near.n_moved == before + 2, answer)


def test_nobody_there(s):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        dead = listener.getsockname()[1]
    chat = {'messages': [user('Who is Nora?')], 'max_tokens': 4}
    for where in f'http://127.0.0.1:{dead}', f'https://127.0.0.1:{dead}', f'unix:{s.here.folder}/nobody', 'unix:relative', 'http://192.0.2.1', \
            'https://', 'ftp://x', 'x', '', 'https://no-such-name.invalid':
        for path, body in (CHAT, chat), (CHAT, {**chat, 'stream': True}), ('/v1/messages', chat), ('/api/chat', {'messages': chat['messages']}), \
                ('/v1/responses', {'input': 'x'}), ('/confab/v1/conversations/1/continue', {'message': 'x'}):
            if where.endswith('.invalid') and path != CHAT:
                continue
            with s.moved(where):
                status, fields, answer = s.ask('POST', path, body)
                rig.need(status == 409 and 'machine far is writing' in json.dumps(answer) and fields['Retry-After'] == '1', (where, path, answer))
        rig.need(where.endswith('.invalid') or answer['error']['machine'] == 'far', answer)
    with s.moved(s.direct.replace('http', 'gopher'), GET):
        status, _, answer = s.ask('GET', '/confab/v1/conversations/1')
        rig.need(answer['error']['machine'] == 'far' and answer['error']['address'].startswith('gopher'), answer)


def test_odd_answers(s):
    chat = {'messages': [user('Who is Nora?')], 'max_tokens': 4}
    refused = b'HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n'
    # (answer, status to a POST, to a GET); None: the connection breaks
    for answer, post, get in (b'', 503, 409), (b'SSH-2.0-x\r\n\r\n', 503, 409), (refused % 401, 409, 409), (refused % 421, 409, 409), \
            (refused % 404, 404, 404), (b'HTTP/1.1 204 x\r\n\r\n', 204, 204), (b'HTTP/1.1 304 x\r\n\r\n', 304, 304), (refused % 500, 500, 500), (b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello', None, None), \
            (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n', None, None), \
            (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n', None, None), \
            (b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello', 503, 409), (b'HTTP/1.1 101 x\r\n\r\n', 503, 409):
        odd = Odd(lambda c, h, b, a=answer: c.sendall(a))
        for method, path, body, wanted in ('POST', CHAT, chat, post), ('GET', '/confab/v1/conversations/1', None, get):
            with s.moved(f'http://127.0.0.1:{odd.port}', CONTINUE, GET):
                try:
                    got = s.ask(method, path, body)
                except (http.client.HTTPException, ConnectionError):
                    got = (None,)
                rig.need(got[0] == wanted, (answer, method, got))
                if got[0] == 503:
                    rig.need(error_of(got[2]) == 'disconnected', got)
        odd.close()


def test_stream_without_delay(s):
    """Each event is there before the next one is sent."""
    go = threading.Semaphore(0)
    def answer(connection, head, body):
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n')
        for i in range(20):
            go.acquire() # pylint: disable=consider-using-with
            event = b'data: %d\n\n' % i
            connection.sendall(b'%x\r\n%s\r\n' % (len(event), event))
        connection.sendall(b'0\r\n\r\n')
    odd = Odd(answer)
    with s.moved(f'http://127.0.0.1:{odd.port}'):
        connection = s.connect(s.here)
        response = rig.ask(connection, 'POST', CHAT, {'messages': [user('x')], 'stream': True}, Authorization='Bearer ' + MINE)
        rig.need(response.headers['Content-Type'] == 'text/event-stream', response.headers)
        go.release()
        for i, (_, data) in enumerate(rig.events(response)):
            rig.need(data == i, data)
            go.release()
        rig.need(i == 19, i)
        connection.close()
    odd.close()


def memory(r):
    return int(re.search(r'VmRSS:\s+(\d+)', open(f'/proc/{r.gateway.process.pid}/status', encoding='ascii').read())[1]) >> 10


def test_slow_reader(s):
    """100 MiB for a client that does not read: they stay where they come from."""
    size, sent = 100 << 20, [0]
    def answer(connection, head, body):
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % size)
        while sent[0] < size:
            sent[0] += connection.send(bytes(min(1 << 16, size - sent[0])))
    odd = Odd(answer)
    with s.moved(f'http://127.0.0.1:{odd.port}', GET):
        before = memory(s.here)
        connection = s.connect(s.here)
        response = rig.ask(connection, 'GET', '/confab/v1/conversations/1', Authorization='Bearer ' + MINE)
        last, end = -1, time.monotonic() + rig.LONG
        while sent[0] != last: # until it stands still
            last = sent[0]
            time.sleep(0.3)
            rig.need(time.monotonic() < end, 'it goes on')
        rig.need(sent[0] < size // 2 and memory(s.here) < before + 16, (sent, before, memory(s.here)))
        got = 0
        while data := response.read(1 << 20):
            got += len(data)
        rig.need(got == size and memory(s.here) < before + 16, (got, before, memory(s.here)))
        connection.close()
    odd.close()


def test_long_body(s):
    """Some MiB of history, and twelve of them at once."""
    words = 'la ' * (1 << 20)
    odd = Odd(lambda c, h, b: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n%7d' % len(b)))
    body = json.dumps({'message': words}).encode()
    with s.moved(f'http://127.0.0.1:{odd.port}'):
        results = []
        def ask():
            results.append(s.ask('POST', '/confab/v1/conversations/1/continue', body))
        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rig.need([r[0] for r in results] == [200] * 12, [(r[0], r[2]) for r in results])
        rig.need(all(int(r[2]) == len(body) for r in results) and all(b == body for _, b in odd.requests), 'the body')
    odd.close()


def test_client_goes(s):
    gone, begun = threading.Event(), threading.Event()
    def answer(connection, head, body):
        begun.set()
        if b'conversations/2' in head:
            connection.sendall(b'HTTP/1.1 200 OK\r\n\r\nx')
        with contextlib.suppress(ConnectionError): # reset, if the gateway had not read all
            rig.need(connection.recv(1) == b'', 'more is asked')
        gone.set()
    odd = Odd(answer)
    for path in '/confab/v1/conversations/1', '/confab/v1/conversations/2':
        begun.clear()
        gone.clear()
        with s.moved(f'http://127.0.0.1:{odd.port}', GET):
            connection = s.connect(s.here)
            connection.request('GET', path, headers={'Authorization': 'Bearer ' + MINE})
            rig.need(begun.wait(rig.LONG), 'it was not followed')
            connection.close()
            rig.need(gone.wait(rig.LONG), 'the other connection stays')
    odd.close()


def test_cancelled_there(s):
    """A client that goes from here cancels its reply there."""
    status, _, made = s.ask('POST', '/confab/v1/conversations', {}, r=s.there)
    rig.need(status == 201, made)
    path = f'/confab/v1/conversations/{made["id"]}'
    with s.moved(s.direct):
        connection = s.connect(s.here)
        response = rig.ask(connection, 'POST', path + '/continue', {'message': 'x', 'ignore_eos': True}, Authorization='Bearer ' + MINE)
        next(rig.events(response))
        connection.sock and connection.sock.close()
        response.close()
        connection.close()
        end = time.monotonic() + rig.LONG
        while s.ask('GET', path, r=s.there)[2]['generating']:
            rig.need(time.monotonic() < end, 'it goes on')


def test_settings(s):
    s.here.stop_gateway()
    chat = {'messages': [user('Who is Nora?')], 'max_tokens': 4}
    s.start(s.here, '--follow', 'no')
    with s.moved(s.direct):
        rig.need(s.ask('POST', CHAT, chat)[0] == 409, 'follow = no')
    s.here.stop_gateway()
    # auto: the first address is learned
    s.start(s.here)
    with s.moved(s.direct, CONTINUE, GET):
        rig.need(s.ask('GET', '/confab/v1/conversations/77777')[0] == 404, 'without a body it is followed at once')
        rig.need(s.ask('POST', CHAT, chat)[0] == 200, 'bodies are kept')
    s.here.stop_gateway()
    s.start(s.here)
    with s.moved(s.direct, CONTINUE, GET):
        rig.need(s.ask('POST', CHAT, chat)[0] == 409, 'the first one')
        rig.need(s.ask('POST', CHAT, chat)[0] == 200, 'the second')
    s.here.stop_gateway()
    ended = subprocess.run([rig.confab_gateway, '--listen', s.here.socket, '--daemon', s.here.daemon_socket, '--follow-ca-file', '/dev/null'],
                           capture_output=True, timeout=rig.LONG)
    rig.need(ended.returncode == 3 and b'follow-ca-file' in ended.stderr, ended)
    s.start(s.here, '--follow', 'yes')


def test_stopping(s):
    """An answer that is under way ends as others do."""
    go, begun = threading.Event(), threading.Event()
    def answer(connection, head, body):
        begun.set()
        go.wait(rig.LONG)
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    odd = Odd(answer)
    with s.moved(f'http://127.0.0.1:{odd.port}', GET):
        connection = s.connect(s.here)
        connection.request('GET', '/confab/v1/conversations/1', headers={'Authorization': 'Bearer ' + MINE})
        rig.need(begun.wait(rig.LONG), 'it was not followed')
        s.here.gateway.process.send_signal(signal.SIGTERM)
        go.set()
        rig.need(connection.getresponse().read() == b'ok', 'the answer')
        connection.close()
    s.here.stop_gateway()
    # and one that does not end, within stop-timeout
    s.start(s.here, '--stop-timeout', '100ms')
    begun.clear()
    go.clear()
    with s.moved(f'http://127.0.0.1:{odd.port}', GET):
        connection = s.connect(s.here)
        connection.request('GET', '/confab/v1/conversations/1', headers={'Authorization': 'Bearer ' + MINE})
        rig.need(begun.wait(rig.LONG), 'it was not followed')
        s.here.stop_gateway()
        connection.close()
    go.set()
    odd.close()


def times(s):
    """Not a test: medians of a small GET, in ms."""
    def median(n, call):
        all_of_them = []
        for _ in range(n):
            began = time.perf_counter()
            rig.need(call()[0] in (404, 409), 'a GET')
            all_of_them.append(time.perf_counter() - began)
        return sorted(all_of_them)[n // 2] * 1000
    get = lambda **how: s.ask('GET', '/confab/v1/conversations/77777', **how) # pylint: disable=unnecessary-lambda-assignment
    odd = Odd(front(s.there.port), s.good)
    print(f'at the other gateway {median(200, lambda: get(r=s.there)):.2f} ms')
    for name, where in ('not followed', 'x'), ('http', s.direct), ('https, with a front in Python', f'https://127.0.0.1:{odd.port}'), \
            ('unix', 'unix:' + s.there.daemon_socket):
        with s.moved(where, GET):
            print(f'{name}: {median(200, get):.2f} ms')


def main():
    if not os.path.exists(rig.MODEL):
        print(f'SKIP: no {rig.MODEL}')
        sys.exit(77)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    wanted = sys.argv[6:]
    with rig.Rig() as there, rig.Rig() as here:
        stage = Stage(here, there)
        for name, fn in list(globals().items()):
            if name in wanted or (not wanted and name.startswith('test_')):
                try:
                    fn(stage)
                except Exception:
                    print(f'FAILED: {name}\nhere: {here.gateway.said() if here.gateway else ""}\nthere: {there.gateway.said()}', flush=True)
                    raise
                print(f'ok: {name}', flush=True)


main()
