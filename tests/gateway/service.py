#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""service.py: starting and stopping: daemons that come and go, a stop that lets answers end, sockets that are passed, and
other users' sockets that are left alone."""
import os
import re
import signal
import socket
import subprocess

import rig

H = b'Host: localhost\r\n'


def test_health_of_daemons(r):
    other = r.folder + '/other'
    r.start_gateway('--daemon', r.daemon_socket, '--daemon', other)
    status, fields, body = r.get('/health')
    rig.need(status == 503 and body['status'] == 'unavailable' and fields['Retry-After'] == '1', body)
    r.start_daemon()
    status, _, body = r.get('/health')
    rig.need(status == 200 and [m['reachable'] for m in body['models']] == [True, False], body)
    name = body['models'][0]['name']
    rig.need(name and r.folder not in str(body), body)
    r.start_daemon(path=other)
    status, _, body = r.get('/health')
    rig.need(status == 200 and [m['reachable'] for m in body['models']] == [True, True], body)
    r.stop_daemon(kill=True)
    r.stop_daemon(other)
    r.stop_gateway()


def test_stop_waits_for_answers(r):
    r.start_gateway()
    with r.raw() as busy, r.raw() as idle:
        busy.sendall(b'GET /nothing HTTP/1.1\r\n' + H + b'\r\nGET /health HTTP/1.1\r\n' + H + b'Content-Length: 4\r\n\r\n12')
        rig.need(b' 404 ' in busy.recv(4096), 'the first')
        idle.sendall(b'GET /nothing HTTP/1.1\r\n' + H + b'\r\n')
        rig.need(b' 404 ' in idle.recv(4096), 'the idle one')
        r.gateway.process.send_signal(signal.SIGTERM)
        rig.need(idle.recv(100) == b'', 'the idle one is closed')
        rig.need(not os.path.exists(r.socket), 'the socket is still there')
        busy.sendall(b'34')
        answer = b''
        while piece := busy.recv(4096):
            answer += piece
        rig.need(answer.startswith(b'HTTP/1.1 503 ') and b'Connection: close' in answer, answer)
    r.stop_gateway()
    rig.need('stopped' in r.gateway_said, r.gateway_said)


def test_stop_does_not_wait_for_ever(r):
    r.start_gateway('--stop-timeout', '100ms')
    with r.raw() as s:
        s.sendall(b'GET /health HTTP/1.1\r\n' + H + b'Content-Length: 4\r\n\r\n12')
        r.gateway.process.send_signal(signal.SIGTERM)
        try:
            rig.need(s.recv(100) == b'', 'it is closed')
        except ConnectionResetError: # with bytes that nobody has read
            pass
    r.stop_gateway()
    rig.need('stop-timeout' in r.gateway_said, r.gateway_said)


def test_sockets_of_others(r):
    r.start_gateway()
    done = subprocess.run([rig.confab_gateway, '--listen', r.socket], capture_output=True, text=True, check=False,
                          timeout=rig.LONG)
    rig.need(done.returncode == 3 and 'listens on' in done.stderr, done)
    rig.need(r.get('/nothing')[0] == 404, 'the first one goes on')
    r.gateway.kill()
    r.start_gateway() # over what the other one left
    rig.need(r.get('/nothing')[0] == 404, 'the next one')
    rig.need(os.stat(r.socket).st_mode & 0o777 == 0o600, 'mode')
    r.stop_gateway()


def test_passed_sockets(r):
    """As the service manager passes them: a Unix socket and one of TCP, which takes tokens."""
    tokens = r.folder + '/tokens'
    with open(tokens, 'w', encoding='utf-8') as f:
        f.write('token-number-one-x 1000\n')
    os.chmod(tokens, 0o600)
    with socket.socket(socket.AF_UNIX) as a, socket.socket() as b:
        a.bind(r.folder + '/passed')
        b.bind(('127.0.0.1', 0))
        for s in a, b:
            s.listen()
        # LISTEN_PID is the program's own id, which only the shell in its place knows.
        code = (f'exec 13<&{a.fileno()} 14<&{b.fileno()}; exec 3<&13 4<&14 13<&- 14<&-; '
                'LISTEN_PID=$$ LISTEN_FDS=$N exec "$@"')

        def start(n, *flags):
            return ['bash', '-c', code, 'x', 'env', f'LISTEN_FDS={n}', rig.confab_gateway, '--daemon', r.daemon_socket, *flags]

        how = {'pass_fds': (a.fileno(), b.fileno())}
        done = subprocess.run(start(2), capture_output=True, text=True, check=False, timeout=rig.LONG, **how)
        rig.need(done.returncode == 3 and 'token-file' in done.stderr, done)
        r.gateway = rig.Program(r.folder, 'gateway', start(2, '--token-file', tokens), **how)
        r.socket, own = r.folder + '/passed', r.socket
        rig.need(r.get('/nothing')[0] == 404, 'the Unix socket')
        with socket.create_connection(b.getsockname()) as s:
            s.sendall(b'GET /nothing HTTP/1.1\r\n' + H + b'\r\n')
            rig.need(b' 401 ' in s.recv(4096), 'TCP')
        r.socket = own
        r.stop_gateway()
        # The addresses of the settings are listened on beside what was passed, once each.
        port = b.getsockname()[1]
        r.gateway = rig.Program(r.folder, 'gateway', start(2, '--token-file', tokens, '--tcp', f'127.0.0.1:{port},127.0.0.1:0'),
                                **how)
        ports = [int(p) for p in re.findall(r'listening on 127\.0\.0\.1:(\d+)', r.gateway.said())]
        rig.need(len(ports) == 2 and ports[0] == port, r.gateway.said())
        for port in ports:
            with socket.create_connection(('127.0.0.1', port)) as s:
                s.sendall(b'GET /nothing HTTP/1.1\r\n' + H + b'\r\n')
                rig.need(b' 401 ' in s.recv(4096), 'TCP')
        r.stop_gateway()


rig.run(globals(), daemon=None, gateway=None)
