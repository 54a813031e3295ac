#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""basics.py: what the gateway answers beside the dialects: health, unknown paths, wrong methods, HEAD and OPTIONS."""
import rig


def test_health(r):
    status, fields, body = r.get('/health')
    rig.need(status == 200 and body['status'] == 'ok', body)
    rig.need(fields['Content-Type'] == 'application/json' and 'Date' in fields, fields)


def test_nothing_there(r):
    status, _, body = r.get('/there/is/nothing')
    rig.need(status == 404 and body['error']['code'] == 'not_found', body)


def test_wrong_method(r):
    status, fields, body = r.request('DELETE', '/health')
    rig.need(status == 405 and fields['Allow'] == 'GET, HEAD, OPTIONS', (fields, body))


def test_head(r):
    status, fields, body = r.request('HEAD', '/health')
    rig.need(status == 200 and body == b'' and int(fields['Content-Length']) > 0, fields)
    rig.need(r.request('HEAD', '/nothing')[0] == 404, 'HEAD of nothing')


def test_options(r):
    status, fields, _ = r.request('OPTIONS', '/health')
    rig.need(status == 204 and fields['Allow'] == 'GET, HEAD, OPTIONS', fields)


def test_foreign_pages(r):
    rig.need(r.get('/health', Origin='http://evil.example')[0] == 403, 'a foreign page')
    rig.need(r.get('/health', Origin='null')[0] == 403, 'a page of no origin')
    rig.need(r.get('/health', Origin='http://localhost')[0] == 200, 'a page of its own')


def test_one_connection(r):
    connection = r.connect()
    for _ in range(20):
        rig.need(rig.read(rig.ask(connection, 'GET', '/health'))['status'] == 'ok', 'health')
    connection.close()


rig.run(globals())
