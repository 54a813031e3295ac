#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hostile.py: slow, broken and hostile clients of the real gateway. After each the next client is served."""
import re
import socket

import rig

H = b'Host: localhost\r\n'
TIMES = ('--header-timeout', '300ms', '--body-timeout', '300ms', '--idle-timeout', '300ms', '--max-header', '8K',
         '--max-body', '100K')


def until_end(s):
    """All that comes until the gateway closes."""
    data = b''
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


def statuses(data):
    return [int(n) for n in re.findall(rb'HTTP/1\.1 (\d+) ', data)]


def served(r):
    rig.need(r.get('/health')[0] == 200, 'the next client is not served')


def ask_raw(r, text):
    with r.raw() as s:
        s.sendall(text)
        data = until_end(s)
    served(r)
    return data


def test_slow_head(r):
    rig.need(statuses(ask_raw(r, b'GET / HTTP/1.1\r\n')) == [408], 'half a head')
    rig.need(ask_raw(r, b'') == b'', 'an idle connection is closed without a word')


def test_dripping_head(r):
    """A byte now and then does not keep a head alive."""
    with r.raw() as s:
        s.settimeout(0.02)
        data = b''
        try:
            while True:
                s.send(b'G')
                try:
                    data = s.recv(65536)
                    break
                except TimeoutError:
                    pass
        except BrokenPipeError:
            data = s.recv(65536)
    rig.need(statuses(data) == [408], data)
    served(r)


def test_slow_body(r):
    rig.need(statuses(ask_raw(r, b'GET /health HTTP/1.1\r\n' + H + b'Content-Length: 5\r\n\r\n12')) == [408], 'half a body')
    rig.need(statuses(ask_raw(r, b'GET /health HTTP/1.1\r\n' + H + b'Transfer-Encoding: chunked\r\n\r\n5\r\n12')) == [408],
             'half a chunk')


def test_smuggling(r):
    """Whatever is behind a request that could be read in two ways is never read as a request."""
    evil = b'GET /evil HTTP/1.1\r\n' + H + b'\r\n'
    for fields in (b'Content-Length: 0\r\nTransfer-Encoding: chunked\r\n', b'Content-Length: 0\r\nContent-Length: 50\r\n',
                   b'Content-Length: +0\r\n', b'Transfer-Encoding: chunked, identity\r\n', b'Transfer-Encoding : chunked\r\n',
                   b'Transfer-Encoding: \tchunke\r\n', b'X: y\r\n Content-Length: 50\r\n', b'Content-Length\r\n',
                   b'X: a\nContent-Length: 50\r\n', b'X: a\rContent-Length: 50\r\n', b'Content-Length: 5 0\r\n'):
        data = ask_raw(r, b'POST /health HTTP/1.1\r\n' + H + fields + b'\r\n' + evil)
        rig.need(len(statuses(data)) == 1 and statuses(data)[0] in (400, 501) and b'evil' not in data, (fields, data))
    # a body is a body, whatever it looks like
    data = ask_raw(r, b'GET /health HTTP/1.1\r\nConnection: close\r\n' + H + b'Content-Length: %d\r\n\r\n' % len(evil) + evil)
    rig.need(statuses(data) == [200], data)


def test_giant_head(r):
    rig.need(statuses(ask_raw(r, b'GET /' + b'a' * 9000)) == [414], 'a long line')
    rig.need(statuses(ask_raw(r, b'GET / HTTP/1.1\r\n' + b'A: b\r\n' * 3000)) == [431], 'many fields')


def test_giant_body(r):
    data = ask_raw(r, b'GET /health HTTP/1.1\r\n' + H + b'Content-Length: 999999999999\r\n\r\n')
    rig.need(statuses(data) == [413], data)
    rig.need(b'application/json' in data, data)
    with r.raw() as s: # the refusal reaches a client that does not stop sending
        s.sendall(b'GET /health HTTP/1.1\r\n' + H + b'Transfer-Encoding: chunked\r\n\r\n80000\r\n')
        try:
            for _ in range(8):
                s.sendall(b'x' * 0x10000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        rig.need(statuses(until_end(s)) == [413], 'a long body')
    served(r)


def test_not_http(r):
    for text in (b'\x16\x03\x01\x02\x00\x01', b'SSH-2.0-x\r\n\r\n', b'\0' * 100, b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
                 b'GET / HTTP/1.1\n\n', '{"model":"m"}\r\n\r\n'.encode()):
        rig.need(statuses(ask_raw(r, text)) in ([400], [505]), text)


def test_pipelining(r):
    one = b'GET /health HTTP/1.1\r\n' + H + b'\r\n'
    data = ask_raw(r, one * 200 + b'GET /nothing HTTP/1.1\r\nConnection: close\r\n' + H + b'\r\n' + one)
    rig.need(statuses(data) == [200] * 200 + [404], statuses(data))


def test_abrupt_ends(r):
    texts = (b'', b'G', b'GET /health HTTP/1.1\r\n' + H, b'GET /health HTTP/1.1\r\n' + H + b'\r\n',
             b'POST /x HTTP/1.1\r\n' + H + b'Content-Length: 5\r\n\r\n1')
    for text in texts * 20:
        with r.raw() as s:
            s.sendall(text)
        with r.raw() as s:
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
            until_end(s)
    served(r)


def test_half_closed(r):
    """Who has nothing more to say still gets an answer that is ready."""
    with r.raw() as s:
        s.sendall(b'GET /nothing HTTP/1.1\r\n' + H + b'\r\n')
        s.shutdown(socket.SHUT_WR)
        rig.need(statuses(until_end(s)) == [404], 'no answer')


def test_expect(r):
    with r.raw() as s:
        s.sendall(b'GET /health HTTP/1.1\r\n' + H + b'Expect: 100-continue\r\nContent-Length: 2\r\n\r\n')
        rig.need(s.recv(100) == b'HTTP/1.1 100 Continue\r\n\r\n', 'it is not told to go on')
        s.sendall(b'ok')
        rig.need(statuses(s.recv(4096)) == [200], 'no answer')
    data = ask_raw(r, b'POST /nothing HTTP/1.1\r\n' + H + b'Expect: 100-continue\r\nContent-Length: 2\r\n\r\n')
    rig.need(statuses(data) == [404], 'the body of a request that is refused is asked for')


def test_many_connections(r):
    """A thousand clients that say nothing, and one that asks."""
    idle = [r.raw() for _ in range(1000)]
    served(r)
    for s in idle:
        s.close()
    served(r)


rig.run(globals(), gateway=TIMES)
