#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tcp.py: TCP with tokens: who is answered, what a browser may do, reloading, and settings that are refused."""
import http.client
import os
import re
import signal
import subprocess
import time

import rig

ONE, TWO, THREE = 'token-number-one-x', 'token-number-two-x', 'token-number-three'


def write_tokens(r, text, mode=0o600):
    path = r.folder + '/tokens'
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chmod(path, mode)
    return path


class Tcp:
    """Requests to the address that the gateway says it listens on."""

    def __init__(self, r):
        host, port = re.search(r'listening on (127\.0\.0\.1):(\d+)', r.gateway.said()).groups()
        self.host, self.port = host, int(port)

    def ask(self, method, path, **fields):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=rig.LONG)
        response = rig.ask(connection, method, path, None, **fields)
        answer = response.status, response.headers, rig.read(response)
        connection.close()
        return answer

    def status(self, method, path, **fields):
        return self.ask(method, path, **fields)[0]


def start(r, *flags):
    r.start_gateway('--tcp', '127.0.0.1:0', '--token-file', write_tokens(r, f'{ONE} 1000\n# x\n{TWO} root anna\n'), *flags)
    return Tcp(r)


def test_tokens(r):
    tcp = start(r)
    status, fields, body = tcp.ask('GET', '/nothing')
    rig.need(status == 401 and fields['WWW-Authenticate'] == 'Bearer' and body['error']['code'] == 'permission', body)
    rig.need(tcp.status('GET', '/health') == 200, 'health takes no token')
    for token in ONE, TWO:
        rig.need(tcp.status('GET', '/nothing', Authorization='Bearer ' + token) == 404, 'a token')
        rig.need(tcp.status('GET', '/nothing', Authorization='bearer  ' + token) == 404, 'a token')
        rig.need(tcp.status('GET', '/nothing', x_api_key=token) == 404, 'a key')
    for wrong in 'Bearer ' + ONE[:-1], 'Bearer ' + ONE + 'x', 'Basic ' + ONE, ONE, 'Bearer', 'Bearer ' + THREE:
        rig.need(tcp.status('GET', '/nothing', Authorization=wrong) == 401, wrong)
    # on the Unix socket the kernel says who it is
    rig.need(r.get('/nothing')[0] == 404 and r.get('/nothing', Authorization='Bearer x')[0] == 404, 'Unix')
    rig.need(ONE not in r.gateway.said(), 'a token is in the log')
    r.stop_gateway()


def test_tenants(r):
    tcp = start(r, '--tenant-header', 'x-tenant')
    for token, tenant, status in (ONE, 'anna', 404), (ONE, 'bert', 404), (TWO, 'anna', 404), (TWO, 'bert', 403):
        got, _, body = tcp.ask('GET', '/nothing', x_api_key=token, x_tenant=tenant)
        rig.need(got == status, (token, tenant, got, body))
    rig.need(body['error']['code'] == 'permission', body)  # a token of one tenant opens no other's conversations
    rig.need(tcp.status('GET', '/nothing', x_api_key=TWO) == 404, 'without the field')
    r.stop_gateway()


def test_browsers(r):
    tcp = start(r, '--allow-host', 'box.lan', '--allow-origin', 'https://chat.example')
    token = {'Authorization': 'Bearer ' + ONE}
    rig.need(tcp.status('GET', '/nothing', Host='evil.example', **token) == 421, 'a foreign host')
    rig.need(tcp.status('GET', '/nothing', Host='box.lan:99', **token) == 404, 'a listed host')
    rig.need(tcp.status('GET', '/nothing', Origin='https://evil.example', **token) == 403, 'a foreign page')
    status, fields, _ = tcp.ask('GET', '/nothing', Origin='https://chat.example', **token)
    rig.need(status == 404 and fields['Access-Control-Allow-Origin'] == 'https://chat.example' and fields['Vary'] == 'Origin',
             fields)
    status, fields, _ = tcp.ask('OPTIONS', '/health', Origin='https://chat.example',
                                Access_Control_Request_Method='GET', Access_Control_Request_Headers='authorization, x-a')
    rig.need(status == 204 and fields['Access-Control-Allow-Headers'] == 'authorization, x-a' and
             'GET' in fields['Access-Control-Allow-Methods'], fields)
    rig.need('Access-Control-Allow-Origin' not in tcp.ask('GET', '/health')[1], 'said to nobody')
    r.stop_gateway()


def test_reload(r):
    config = r.folder + '/g.conf'
    with open(config, 'w', encoding='utf-8') as f:
        f.write('allow-host = one.lan\n')
    tcp = start(r, '--config', config)
    rig.need(tcp.status('GET', '/health', Host='one.lan') == 200, 'before')
    with open(config, 'w', encoding='utf-8') as f:
        f.write('allow-host = two.lan\n')
    write_tokens(r, f'{THREE} 1000\n')
    r.gateway.process.send_signal(signal.SIGHUP)
    wait_for(lambda: tcp.status('GET', '/health', Host='two.lan') == 200)
    rig.need(tcp.status('GET', '/health', Host='one.lan') == 421, 'the old host')
    wait_for(lambda: tcp.status('GET', '/nothing', x_api_key=THREE) == 404)
    rig.need(tcp.status('GET', '/nothing', x_api_key=ONE) == 401, 'the old token')
    # what is wrong is not taken, and said
    write_tokens(r, f'{ONE} 1000\n', mode=0o644)
    r.gateway.process.send_signal(signal.SIGHUP)
    wait_for(lambda: 'tokens stay as they were' in r.gateway.said())
    rig.need(tcp.status('GET', '/nothing', x_api_key=THREE) == 404 and tcp.status('GET', '/nothing', x_api_key=ONE) == 401,
             'tokens of a file that all may read')
    r.stop_gateway()


def wait_for(fn):
    deadline = time.monotonic() + rig.LONG
    while not fn():
        rig.need(time.monotonic() < deadline, 'it does not happen')
        time.sleep(0.01)


def test_refused_settings(r):
    tokens = write_tokens(r, f'{ONE} 1000\n')
    for flags, status, words in (
            (['--tcp', '127.0.0.1:0'], 2, 'token-file'),
            (['--tcp', '0.0.0.0:0', '--token-file', tokens], 3, 'allow-remote'),
            (['--tcp', '[::]:0', '--token-file', tokens], 3, 'allow-remote'),
            (['--tcp', 'localhost:80', '--token-file', tokens], 3, 'ADDRESS:PORT'),
            (['--tcp', '127.0.0.1:99999', '--token-file', tokens], 3, 'ADDRESS:PORT'),
            (['--tcp', '127.0.0.1', '--token-file', tokens], 3, 'ADDRESS:PORT'),
            (['--token-file', r.folder + '/none'], 3, 'none'),
            (['--token-file', r.folder], 3, 'not a file'),
            (['--no-such-flag'], 2, 'unknown flag'),
            (['--max-body', '1'], 2, 'max-body'),
            (['--config', r.folder + '/none.conf'], 2, 'cannot open')):
        done = subprocess.run([rig.confab_gateway, '--listen', r.socket, *flags], capture_output=True, text=True,
                              check=False, timeout=rig.LONG)
        rig.need(done.returncode == status and words in done.stderr, (flags, done))
        rig.need(done.stderr.startswith('confab-gateway: error: ') and done.stderr.count('\n') == 1, done.stderr)
    os.chmod(tokens, 0o640)
    done = subprocess.run([rig.confab_gateway, '--listen', r.socket, '--tcp', '127.0.0.1:0', '--token-file', tokens],
                          capture_output=True, text=True, check=False, timeout=rig.LONG)
    rig.need(done.returncode == 3 and '0640' in done.stderr, done)
    for flag in '--help', '--version', '--check-settings':
        rig.need(subprocess.run([rig.confab_gateway, flag], capture_output=True, check=False).returncode == 0, flag)


def test_allow_remote(r):
    r.start_gateway('--tcp', '0.0.0.0:0', '--token-file', write_tokens(r, f'{ONE} 1000\n'), '--allow-remote', 'yes')
    rig.need('listening on 0.0.0.0:' in r.gateway.said(), r.gateway.said())
    r.stop_gateway()


rig.run(globals(), gateway=None)
