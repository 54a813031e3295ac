#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""smoke.py: the page comes up in each way that it can lie: by TCP with a token, through a tunnel, and under a prefix."""
import sys

sys.dont_write_bytecode = True
import rig

TITLE = 'Seen from everywhere'


def shows(page, r, fine=(200, 304)):
    """The page is whole: its list has what the daemon has, and nothing of its frame is missing."""
    page.wait("document.querySelector('#list').innerText.includes(a)", 'the list has the conversation', args=[TITLE])
    page.wait("[...document.querySelectorAll('#list, #talk, #strip')].every(one => one.childElementCount > 0)", 'the frame is filled')
    rig.need(page.roles('textbox', 'Message') or page.all('#message'), 'there is a field for messages')
    statuses = {one['status'] for one in r.browser.requests()}
    rig.need(statuses <= {*fine, None}, statuses)


def test_tcp(r, page):
    r.opened(about={'title': TITLE})
    r.show(page)
    shows(page, r)
    rig.need(page.url == f'{r.origin}/#/', page.url)
    rig.need(rig.TOKEN not in page.js('JSON.stringify([location.href, history.state, {...localStorage}, document.cookie])'), 'the token is seen')
    rig.need(not [one for one in r.browser.requests() if rig.TOKEN in one['url']], 'the token is in an address')
    asked = r.browser.requests('/confab/v1/')
    rig.need(asked and all(one['headers'].get('Authorization') == f'Bearer {rig.TOKEN}' for one in asked), asked)
    page.reload()
    shows(page, r)
    # the way back does not lead to it
    rig.need(rig.TOKEN not in page.js('location.href'), page.url)


def test_without_token(r, page):
    page.expect('401')
    page.open(r.url(token=None))
    page.role('dialog')
    page.type(rig.TOKEN, page.one('dialog input'))
    page.press('Enter')
    page.gone('dialog')
    shows(page, r, fine=(200, 304, 401))


def test_tunnel(r, page):
    tunnel = r.tunnel()
    r.show(page, url=tunnel.url)
    shows(page, r)
    rig.need(not [one for one in r.browser.requests() if 'Authorization' in one['headers']], 'the kernel says who it is')


def test_prefix(r, page):
    front = r.front('/some/chat')
    r.show(page, url=front.url)
    shows(page, r)
    asked = r.browser.requests()
    rig.need(all(one['url'].startswith(front.url) for one in asked), [one['url'] for one in asked])


rig.run(globals())
