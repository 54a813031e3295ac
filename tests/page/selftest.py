#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""selftest.py: what the other tests rely on would be seen if it were wrong. A check that cannot fail is none."""
import re
import sys

sys.dont_write_bytecode = True
import rig

EXACT = 'Hello **you**, "quoted" \\ back\nand `code`, ümläut 漢字.\n\n\tTab'


def caught(r, pattern):
    """clean() fails because of this, and has then forgotten it."""
    try:
        r.browser.clean()
    except AssertionError as error:
        rig.need(re.search(pattern, str(error)), error)
    else:
        raise AssertionError(f'nobody saw {pattern}')
    r.browser.clean()


def test_faults_are_seen(r, page):
    r.show(page)
    r.browser.clean()
    for script, pattern in (("console.error('a fault')", 'a fault'), ("console.warn('a warning')", 'a warning'),
                            ("setTimeout(() => nothingOfThisName())", 'nothingOfThisName'), ("Promise.reject(new Error('lost'))", 'lost'),
                            ("document.body.setAttribute('style', 'color: red')", 'VIOLATION: style-src'),
                            ("document.head.append(Object.assign(document.createElement('style'), {textContent: 'p {}'}))", 'VIOLATION: style-src-elem'),
                            ("try { document.createElement('p').innerHTML = '<b>'; } catch {}", 'VIOLATION: require-trusted-types-for'),
                            ("fetch('http://elsewhere.example/').catch(() => {})", 'VIOLATION: connect-src blocked http://elsewhere'),
                            ("new Image().src = 'http://elsewhere.example/x.png'", 'VIOLATION: img-src')):
        page.run(script + '; await new Promise(requestAnimationFrame);')
        page.wait(lambda: r.browser.faults(), pattern)  # pylint: disable=unnecessary-lambda
        caught(r, pattern)
    page.expect('a fault')
    page.run("console.error('a fault')")
    page.wait(lambda: any('a fault' in text for _, text in r.browser.said()), 'it is said')
    r.browser.clean()


def test_others_are_seen(r, page):
    """A request elsewhere, from a document without a policy."""
    page.open('data:text/html,<title>x</title>')
    page.expect('ERR_NAME_NOT_RESOLVED') # which the console says some time later
    page.run("fetch('http://elsewhere.example/').catch(() => {})")
    page.wait(lambda: r.browser.foreign(), 'it is seen')  # pylint: disable=unnecessary-lambda
    caught(r, 'request to another host: http://elsewhere.example/')
    page.run("fetch(a).catch(() => {})", r.url(token=None))
    page.wait(lambda: r.browser.foreign(), 'another port is another')  # pylint: disable=unnecessary-lambda
    page.expect('ERR_NAME_NOT_RESOLVED', 'CORS', 'ERR_FAILED', re.escape(r.origin))


def test_driver_starts_again(r, page):
    """A driver that ends before it has a port is not the end."""
    del page
    real, n = rig.browsers.subprocess.Popen, iter(range(99))
    rig.browsers.subprocess.Popen = lambda command, **rest: real(command if next(n) > 0 else ['false'], **rest)
    try:
        with rig.browsers.Browser(r.folder + '/again'):
            rig.need(next(n) == 2, 'the second one starts')
    finally:
        rig.browsers.subprocess.Popen = real


def test_waits_end(r, page):
    page.open('data:text/html,<button>Yes</button><button hidden>No</button>')
    for fn in (lambda: page.wait('false', 'never', limit=0.1), lambda: page.wait('nothing.of.this', 'never', limit=0.1),
               lambda: page.one('i', limit=0.1), lambda: page.gone('button', limit=0.1), lambda: page.role('button', 'No', limit=0.1)):
        try:
            fn()
        except AssertionError:
            continue
        raise AssertionError('it did not fail')
    rig.need(page.role('button', re.compile('^Y')).text == 'Yes' and len(page.roles('button')) == 1, 'by its name')


def test_figures(r, page):
    page.open('data:text/html,<p>a<p id=b>b')
    page.forget()
    page.run('await new Promise(requestAnimationFrame); const end = performance.now() + 120; while (performance.now() < end);')
    page.wait("window.__kept.longtask.length > 0", 'a long task is told')
    rig.need(page.longest_task() > 100, page.kept('longtask'))
    page.run("const p = document.createElement('div'); p.style.height = '300px'; document.body.prepend(p)")
    page.wait("window.__kept['layout-shift'].length > 0", 'what moved is told')
    rig.need(page.shifts()[0] > 0, page.shifts())
    rig.need(page.figures()['JSHeapUsedSize'] > 0, 'figures')


def test_looks(r, page):
    page.size(320, 500, scale=2)
    page.open('data:text/html,<meta name=viewport content=width=device-width>')
    page.theme('dark')
    page.reduced_motion()
    rig.need(page.js("[innerWidth, innerHeight, devicePixelRatio, matchMedia('(prefers-color-scheme: dark)').matches, "
                     "matchMedia('(prefers-reduced-motion: reduce)').matches]") == [320, 500, 2, True, True], 'as it was asked for')
    page.language('de-DE')
    rig.need(page.js('[navigator.language, (1.5).toLocaleString()]') == ['de-DE', '1,5'], 'the language')


def test_axe(r, page):
    page.open('data:text/html,<html lang=en><title>x</title><main><h1>x</h1><img src=data:,>')
    try:
        r.axe(page)
    except AssertionError as error:
        rig.need('image-alt' in str(error), error)
    else:
        raise AssertionError('an image without words is not found')
    page.expect('data:,')


def test_replies(r, page):
    """Exactly what a test wants, from the real daemon."""
    made = r.opened()
    r.begin_scripted(made, 'Say it.', EXACT)
    rig.need(r.idle(made)['turns'][1]['text'] == EXACT, r.turns(made))
    r.tell(made, 'And now?', 'This.')
    rig.need(r.turns(made)[2:] == [('user', 'And now?'), ('assistant', 'This.')], r.turns(made))
    front = r.front()
    front.reply('First of two.', 'Second of two.')
    for text in 'First of two.', 'Second of two.':
        _, _, told = ask(front, 'POST', r.path(made, 'continue'), {'message': 'x', 'stream': False})
        rig.need(told['text'] == text, told)


def ask(front, method, path, body=None):
    http, gateway = rig.gateway_rig.http.client, rig.gateway_rig
    connection = http.HTTPConnection('127.0.0.1', front.port, timeout=rig.LONG)
    try:
        response = gateway.ask(connection, method, front.prefix + path, body)
        return response.status, response.headers, gateway.read(response)
    finally:
        connection.close()


def test_front(r, page):
    front, stats = r.front('/x/y'), rig.BASE + '/stats'
    rig.need(ask(front, 'GET', stats)[0] == 200, 'it passes')
    front.refuse('/stats$', 503, 'unavailable', times=1)
    rig.need([ask(front, 'GET', stats)[0] for _ in range(2)] == [503, 200], 'once')
    front.rewrite('/stats$', lambda told: {'only': 'this'})
    rig.need(ask(front, 'GET', stats)[2] == {'only': 'this'}, 'rewritten')
    front.forget()
    front.lose('POST .*/conversations$')
    for fn in (lambda: ask(front, 'POST', rig.ALL, {'name': 'lost'}), front.down, lambda: ask(front, 'GET', stats)):
        try:
            fn()
        except OSError:
            continue
        except rig.gateway_rig.http.client.HTTPException:
            continue
        rig.need(fn == front.down, 'the connection should break')
    rig.need(r.conversation('lost')['n_turns'] == 0, 'the gateway had it')
    front.up()
    rig.need(ask(front, 'GET', stats)[0] == 200, 'again')


rig.run(globals())
