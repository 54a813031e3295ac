#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hostile.py: whatever models, tools, files, other programs and proxies write: nothing of it runs, nothing is loaded, nothing is there that may
not be, the page keeps its form and stays usable, and what was shown does not jump while more comes. (That nothing is loaded or refused by
the policy is looked at behind each test: rig.py.)"""
import json
import os
import sys

sys.dont_write_bytecode = True
import rig
from acts import flat, grows, hears, listen, same, send, settles, turns, within, words
from rig import need

EVIL = 'https://evil.invalid/'
RUN = 'window.hit=1'
SCRIPTS = [
    f'<script>{RUN}</script>', f'<img src=x onerror="{RUN}">', f'<img src="{EVIL}pixel.png">', f'<iframe src="{EVIL}"></iframe>',
    f'<svg onload="{RUN}"><use href="{EVIL}#x"/></svg>', f'<style>@import "{EVIL}s.css"; * {{display: none !important}}</style>',
    f'<link rel="stylesheet" href="{EVIL}s.css">', f'<base href="{EVIL}">', f'<meta http-equiv="refresh" content="0;url={EVIL}">',
    f'<form action="{EVIL}"><input autofocus onfocus="{RUN}"></form>', f'<video src="{EVIL}v.mp4" autoplay></video><object data="{EVIL}"></object>',
    f'<div style="position:fixed;inset:0;background:url({EVIL}b.png)" onclick="{RUN}">all of it</div>', f'<details open ontoggle="{RUN}">x</details>',
    f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror={RUN}&gt;">', f'<a href="javascript:{RUN}">a</a>',
]
LINKS = [
    f'[one](javascript:{RUN})', f'[two](data:text/html,<script>{RUN}</script>)', '[three](vbscript:x)', '[four](file:///etc/passwd)',
    f'![five]({EVIL}five.png)', '![six](data:image/svg+xml,<svg/onload=1>)', f'[www.bank.example]({EVIL}login)',
    f'[https://bank.example/login]({EVIL})',
    f'[a\u202ecod.elpmaxe\u202cz]({EVIL})', f'[me@bank.example](mailto:you@evil.invalid "{RUN}")', f'<{EVIL}auto>', f'[x]({EVIL}"onmouseover="{RUN})',
    f'[ref]\n\n[ref]: javascript:{RUN}', f'[![picture]({EVIL}i.png)]({EVIL}out)', f'[xn](https://xn--80ak6aa92e.invalid/)',
    f'[user](https://bank.example@evil.invalid/)',
]
ODD = [
    '`code \u202e in it`, turned \u202eback to front\u202c, isolated \u2067right to left\u2069, hidden\u200b\u00ad\u2060 and \U000e0041 tags',
    'red \x1b[31mescape\x1b[0m, bell \x07, back\x08space, \x9b31m',
    f'\u202eturned, with a [link]({EVIL}) in it', 'carriage\rreturn', 'many combining: ' + 'a' + '\u0301' * 300, '\ufffd\ufffe \U0010ffff',
    '\u00a0' * 80, 'ＦＵＬＬ　ｗｉｄｔｈ' * 8,
]
UNCLOSED = ['**bold', '*_~~`mixed', '[link](', '![image](http', '```js\nlet a = "', '> quote\n> - list\n>   1. deeper', '| a | b |\n|---',
    '$$\n\\frac{1', '\\(x', '<b', '&am', '- [ ] *']
# Deeper than anything is shown, in every way that Markdown nests.
DEEP = ['>' * 300 + ' deep', '\n'.join('  ' * i + '- item' for i in range(120)), '[' * 400 + 'x' + ']' * 400, '**_' * 200 + 'x' + '_**' * 200,
    '`' * 999 + 'x' + '`' * 999,
        '\n'.join('> ' * i + f'- {i}' for i in range(60)), '$' + '{' * 500 + '}' * 500 + '$', '$\\frac{' * 60 + '1' + '}{2}' * 60 + '$']

# What may be in a text: of Markdown (safe.js), and what the page itself draws around it. KaTeX draws in .math.
PROSE = '''
  const allowed = new Set(('p br hr h1 h2 h3 h4 h5 h6 em strong del s code pre blockquote ul ol li table thead tbody tr th td a sup sub kbd '
    + 'div figure span button').split(' '));
  const attributes = new Set(('href rel target referrerpolicy title class dir start align role aria-label aria-live '
    + 'aria-pressed tabindex type scope').split(' '));
  const bad = [];
  for (const one of document.querySelectorAll('.prose *, .plain *, .call *, .result *')) {
    if (one.closest('.math') && one.closest('.math') !== one) {
      if (/^(script|img|image|iframe|object|embed|a|link|form|style|use|foreignobject)$/i.test(one.localName) || one.hasAttribute('href')
          || /url/.test(one.style.cssText))
        bad.push(`in a formula: ${one.outerHTML.slice(0, 100)}`);
      continue;
    }
    const ours = one.closest('details.result, .call') ? 'details summary' : '';
    if (!allowed.has(one.localName) && !ours.includes(one.localName))
      bad.push(`element: ${one.outerHTML.slice(0, 100)}`);
    for (const {name} of one.attributes)
      if (!attributes.has(name) && !name.startsWith('data-') && !(name === 'open' && one.localName === 'details'))
        bad.push(`attribute ${name}: ${one.outerHTML.slice(0, 100)}`);
    if (one.localName === 'a' && one.closest('.prose') && !(/^(https?|mailto):/.test(one.href) && one.target === '_blank' && /noopener/.test(one.rel)
        && /noreferrer/.test(one.rel)))
      bad.push(`link: ${one.outerHTML.slice(0, 160)}`);
  }
  for (const one of document.querySelectorAll('script:not([src]), iframe, object, embed, img, base, style, meta[http-equiv], svg image, '
      + 'form:not(.composer, dialog form)'))
    bad.push(`in the page: ${one.outerHTML.slice(0, 100)}`);
  if (window.hit !== undefined)
    bad.push('something ran');
  return bad.slice(0, 8);
'''


def harmless(page):
    """All that is shown may be there, in its place, and nothing ran."""
    page.wait(rig.DRAWN, 'all is drawn')
    page.frames(2)
    bad = page.run(PROSE)
    need(not bad, bad)
    within(page)
    usable(page)


def usable(page):
    """What is beside it is still where it was, and can be used."""
    need(page.run('''
      const at = css => {
        const box = document.querySelector(css).getBoundingClientRect();
        return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
      };
      return at('#message').id === 'message' && at('#new').id === 'new' && at('#send, #stop:not([hidden])') !== null
          && at('#strip .strip-bar').closest('#strip') !== null;
    '''), 'the frame is covered')


def written(r, page, *texts):
    """Conversations whose replies the model writes, exactly so, while the page looks."""
    front = r.front()
    made = r.opened()
    r.show(page, made, url=front.url)
    for text in texts:
        front.reply(text, max_tokens=60000)
        send(page, 'Write it.')
        page.wait(f"document.querySelectorAll('.turn').length === {2 * texts.index(text) + 2}", 'it is asked for')
        settles(page)
        told = r.conversation(made, turns=1)['turns'][-1]
        need(told['text'] == text, (told['text'][:200], text[:200]))
        harmless(page)
    return made


# ---- replies ----

def test_scripts(r, page):
    made = written(r, page, '\n\n'.join(SCRIPTS), '\n\n'.join(f'- {one}' for one in SCRIPTS), '```html\n' + '\n'.join(SCRIPTS) + '\n```')
    for script in SCRIPTS:
        need(flat(script) in flat(page.js("document.querySelector('#talk').textContent")) or '--&gt;' in script,
            f'{script} is shown as it is written')
    page.reload()
    page.wait("document.querySelectorAll('.turn').length === 6", 'it is shown again')
    harmless(page)
    need(r.turns(made), made)


def test_links(r, page):
    """Those that lead nowhere good are words; those whose words name another place say where they lead."""
    written(r, page, '\n\n'.join(LINKS))
    links = {flat(one['text']): one for one in page.js(
        "[...document.querySelectorAll('.prose a')].map(one => ({text: one.textContent, href: one.href, title: one.title, "
        "behind: one.nextElementSibling?.className === 'link-host' ? one.nextElementSibling.textContent : ''}))")}
    for text in ('one', 'two', 'three', 'four', 'six', 'ref'):
        need(text not in links, links.get(text))
    need(links['five']['href'] == EVIL + 'five.png', links)
    for text in ('www.bank.example', 'https://bank.example/login', 'me@bank.example'):
        need('evil.invalid' in links[text]['behind'], links[text])
    need('xn--80ak6aa92e' in links['xn']['behind'], links['xn'])
    turned, = [one for text, one in links.items() if 'U+202E' in text]
    need('\u202e' not in json.dumps(turned, ensure_ascii=False), turned)
    need(all(one['title'] for one in links.values()), 'each link has its address as title')
    # a click goes elsewhere, and takes nothing along
    page.expect('evil.invalid', 'ERR_')
    before = page.url
    page.one('.prose a').click()
    page.wait(lambda: len(page.driver.window_handles) > 2, 'it opens beside the page')
    need(page.url == before, page.url)
    new, = set(page.driver.window_handles) - {r.browser.first, page.handle}
    page.driver.switch_to.window(new)
    r.browser.current = new
    need(page.driver.execute_script('return [window.opener, document.referrer]') == [None, ''], 'it knows nothing of the page')
    page.driver.close()
    r.browser.current = None


def test_odd(r, page):
    """Characters that control are shown by their pictures; what turns text does so up to the end of its block, and in links and code not at all."""
    written(r, page, '\n\n'.join(ODD))
    shown = page.js("document.querySelector('.turn[data-role=\"assistant\"] .turn-body').textContent")
    for c in '\x1b\x07\x08\r\x9b':
        need(c not in shown, f'U+{ord(c):04X} is there as it is')
    need('\u241b[31m' in shown and '\u2407' in shown, shown)
    need('U+202E' in page.text('.prose code') and '\u202e' not in page.text('.prose code'), page.text('.prose code'))
    for one in ('p:nth-of-type(2)', 'p:nth-of-type(3) a', 'p:nth-of-type(1) code'):
        places = page.run("""
          const text = document.querySelector(`.prose ${a}`).firstChild, range = document.createRange();
          const x = i => { range.setStart(text, i); range.setEnd(text, i + 1); return range.getBoundingClientRect().x; };
          return [x(0), x(2)];""", one)
        need(places[0] < places[1], f'{one} is turned: {places}')


def test_unclosed(r, page):
    """Each of them at the end of a reply that broke off, and what follows is not taken in."""
    written(r, page, *UNCLOSED)
    need([one['text'] for one in turns(page) if one['role'] == 'user'] == ['Write it.'] * len(UNCLOSED), turns(page))


def test_deep(r, page):
    given(r, page, '\n\n'.join(DEEP))
    harmless(page)
    depth = page.run("let most = 0; for (const one of document.querySelectorAll('.turn .prose *')) { if (one.closest('.math')) continue; let n = 0; "
                     "for (let at = one; !at.matches('.prose'); at = at.parentElement) n++; most = Math.max(most, n); } return most;")
    need(depth < 120, f'elements lie {depth} deep')


# ---- what is large ----

def given(r, page, *replies, about=None):
    """A conversation as the gateway would tell it: what a model writes in hours."""
    made, front = r.opened(about=about or {}), r.front()
    r.say(made, 'Large.', max_tokens=0)
    told = r.conversation(made, turns=1)
    for text in replies:
        told['turns'].append({'turn': len(told['turns']), 'role': 'assistant', 'text': text, 'start': 10, 'end': 20,
            'created_usec': told['created_usec'],
                              'parts': [{'index': 0, 'kind': 'text', 'text': text, 'ends': True}]})
    told['n_turns'] = len(told['turns'])
    front.answer(rf'GET /confab/v1/conversations/{made["id"]}\?', 200, told)
    r.show(page, made, url=front.url)
    page.wait(f"document.querySelectorAll('.turn[data-turn]').length === {told['n_turns']}", 'it is shown')
    return made, front


def quickest(page, act, most=100, tries=4):
    """The act holds the page up no longer than so many ms; on a machine with other work, in one of some tries, and as much longer as it has work."""
    busy = max(1, os.getloadavg()[0] / os.cpu_count())
    took = []
    for _ in range(tries):
        page.forget()
        act()
        page.frames(3)
        took.append(page.longest_task())
        if took[-1] <= most:
            return
    need(min(took) <= most * busy, f'the page is held up for {took} ms')


SCROLL = '''
  const scroller = document.querySelector('.talk-scroll');
  for (let at = 0; at <= 40; at++) {
    scroller.scrollTop = scroller.scrollHeight * at / 40;
    await new Promise(requestAnimationFrame);
  }
'''


def test_long_line(r, page):
    """A line of 1 MB: its beginning is shown, all of it when it is asked for, and nothing of that holds the page up."""
    line = ''.join(f'word{i} <b>&amp; ' for i in range(90000))[:1 << 20]
    given(r, page, line)

    def show():
        page.reload()
        page.wait("document.querySelector('.show-all')", 'its beginning is there')
        page.js(rig.DRAWN)

    def whole():
        show()
        page.forget()
        page.run("document.querySelector('.show-all').click();")
        page.wait(f"document.querySelector('.turn[data-role=\"assistant\"] .turn-body').textContent.length >= {len(line)}", 'all of it is there')
        page.js(rig.DRAWN)

    quickest(page, show)
    harmless(page)
    quickest(page, whole)
    quickest(page, lambda: page.run(SCROLL))
    harmless(page)
    page.size(320, 640)
    within(page)


def test_long_line_streams(r, page):
    """The same as it comes, in many pieces."""
    made, front = r.opened(), r.front()
    r.show(page, made, url=front.url)
    pieces = [f'word{i} <b>&amp; ' * 20 for i in range(4000)]
    text = ''.join(pieces)

    def event(name, data):
        return f'event: {name}\ndata: {json.dumps(data)}\n\n'

    figures = {'n_prompt': 9, 'n_generated': 9, 'n_ram': 0, 'n_disk': 0, 'n_shared': 0, 'n_computed': 9, 'queued_usec': 1, 'restore_usec': 1,
        'prefill_usec': 1, 'decode_usec': 1000}
    events = [event('accepted', {'revision': 2, 'n_computed': 9})]
    events += [event('delta', {'parts': [{'index': 0, 'kind': 'text', 'text': piece}]}) for piece in pieces]
    events.append(event('done', {'finish': 'end', 'revision': 3, **figures}))
    front.answer('/continue$', 200, ''.join(events), kind='text/event-stream')
    need(len(text) > 1 << 20, len(text))
    told = r.conversation(made)
    told.update(n_turns=2, turns=[{'turn': 0, 'role': 'user', 'text': 'Go on.', 'start': 0, 'end': 9},
                                  {'turn': 1, 'role': 'assistant', 'text': text, 'start': 9, 'end': 18}])
    front.answer('GET .*from_turn=0', 200, told)

    def stream():
        page.reload()
        page.wait("document.querySelector('.talk-empty')", 'the page is ready')
        page.forget()
        send(page, 'Go on.')
        page.wait("document.querySelector('.show-all') && document.querySelector('#stop').hidden", 'it is over')
        page.js(rig.DRAWN)

    quickest(page, stream)
    need(page.roles('button', 'Send'), 'the next message may be sent')


def test_long_list(r, page):
    """5,000 items, all of them there."""
    given(r, page, '\n'.join(f'- item {i} with **words**' for i in range(5000)))
    page.wait("document.querySelectorAll('.prose li').length === 5000", 'all items are there')
    harmless(page)
    quickest(page, lambda: page.run(SCROLL), most=150)


def test_wide_table(r, page):
    """1,000 columns, and one of many that fits into none: it scrolls in itself, or is text."""
    def table(n):
        return '\n'.join(['|' + '|'.join(f'c{i}' for i in range(n)) + '|', '|' + '-|' * n, '|' + '|'.join('value' for _ in range(n)) + '|'])
    given(r, page, table(1000), table(60), '|'.join('x' * 200 for _ in range(9)) + '\n' + '|'.join(['-'] * 9) + '\n' + 'y' * 5000 + '|z')
    harmless(page)
    need(page.js("[...document.querySelectorAll('.table-wrap')].some(one => one.scrollWidth > one.clientWidth)"), 'it scrolls in itself')
    page.size(320, 640)
    within(page)


# ---- everything that is not a reply ----

def nasty(i):
    return f'{i}<img src=x onerror={RUN}>\u202e"\'`$&</script>'


def test_names(r, page):
    """Titles, names, tags, snippets: in the list, the head, the tree, the strip, menus, dialogs, notes, the window's title."""
    r.clear()
    long = 'W' * 500
    made = r.opened(name=nasty(1), about={'title': nasty(2), 'tags': [nasty(3)[:64], 'W' * 64]})
    r.opened(name=long[:128], about={'title': long})
    r.say(made, f'find this {nasty(4)}', max_tokens=5)
    child = r.fork(made, about={'title': nasty(5)})
    r.say(child, 'findable <b>fork</b>', max_tokens=5)
    r.show(page, made)
    page.wait("document.querySelector('.talk-title').textContent.includes('<img')", 'the title is there as it is')
    need(page.title.startswith(nasty(2)), page.title)
    harmless(page)
    page.role('button', 'Tree').click()
    page.wait("document.querySelectorAll('.tree-row').length >= 3", 'the tree is there')
    harmless(page)
    page.click('.strip-bar')
    page.wait("!document.querySelector('#strip-panel').hidden", 'the panel is there')
    page.frames(2)
    within(page, '#strip')
    page.press('Escape')
    page.role('button', 'Actions for this conversation').click()
    page.role('menuitem', 'Settings…').click()
    page.role('textbox', 'Tags')
    within(page, 'dialog')
    page.press('Escape')
    page.gone('dialog')
    page.insert('find', '#list input[type="search"]')
    page.wait("document.querySelector('.row-more')?.textContent.includes('<')", 'a snippet is there')
    within(page, '#list')
    page.role('button', 'Actions for this conversation').click()
    page.role('menuitem', 'Evict').click()
    page.wait("document.querySelector('#notes .note')", 'a note is there')
    need(page.js('window.hit') is None and not page.all('#list img, #notes img, .tree img'), 'nothing is an element')
    page.size(320, 640)
    page.frames(2)
    within(page, '#talk')
    within(page, '#notes')


TOOLS = [{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object'}}}]


def test_calls(r, page):
    """Reasoning, calls and results: names, ids, arguments, what a tool gave."""
    made = r.opened(tools=TOOLS)
    arguments = {nasty(6): nasty(7), 'deep': {'a': [[[[[]]]]]}, 'long': 'x' * 600}
    calls = [{'id': f'c{i}', 'name': name, 'arguments': arguments} for i, name in enumerate(['f', nasty(8), 'n' * 200])]
    r.say(made, 'Call it.', max_tokens=0)
    r.say(made, None, given={'reasoning': '\n\n'.join(SCRIPTS[:4]), 'text': SCRIPTS[0], 'calls': calls}, max_tokens=0)
    r.say(made, None, results=[{'call_id': 'c0', 'name': 'f', 'content': '\n'.join(SCRIPTS)},
                               {'call_id': 'c1', 'name': nasty(8), 'content': json.dumps({nasty(9): SCRIPTS})},
                               {'call_id': 'c2', 'name': 'n' * 200, 'content': 'x' * 3000}], max_tokens=0)
    r.show(page, made)
    page.wait("document.querySelectorAll('.turn').length === 3", 'all turns are there')
    need(len(page.all('.call')) == 3 and len(page.all('details.result')) == 3, 'calls and results are there')
    page.run("for (const one of document.querySelectorAll('details.reasoning, details.result')) one.open = true;")
    page.wait("document.querySelectorAll('details.result .call-text, details.result figure').length === 3", 'what tools gave is there')
    harmless(page)
    need('U+202E' in page.text('.call:nth-of-type(3) .call-name, .call + .call .call-name'), page.texts('.call-name'))


def test_files(r, page):
    """Files by name, and files that would end too early or are none."""
    front = r.front()
    made = r.opened()
    r.show(page, made, url=front.url)
    name = f'{nasty(10)}\n.md'.replace('/', '_')
    page.drop('.composer', [(name, 'text/plain', 'first\n</file>\n<script>window.hit=1</script>\nlast'), ('W' * 250, 'text/plain', 'x' * 5000)])
    page.wait("document.querySelectorAll('.files li').length === 2", 'they are attached')
    within(page)
    page.drop('.composer', [('binary', 'application/octet-stream', 'a\0b')])
    page.wait("document.querySelector('#notes').textContent.includes(a)", 'it is refused', args=[words(page, 'composer.notText', name='binary')])
    front.reply('ok')
    send(page, 'Look.')
    settles(page)
    need(len(page.all('.turn details.file')) == 2, 'both are folded in the message')
    page.run("for (const one of document.querySelectorAll('details.file')) one.open = true;")
    need('</file>' in page.text('details.file') and 'last' in page.text('details.file'), 'all of the file is in it')
    harmless(page)


def test_errors(r, page):
    """What a daemon, a gateway or a proxy says in an error."""
    page.expect('the server responded')
    front = r.front()
    made = r.opened()
    listen(page)
    r.show(page, made, url=front.url)
    for code in ('invalid', '<b>x', '__proto__', 'toString', 'constructor', '', 7, None):
        front.forget()
        front.refuse('/continue$', 400, code, message=f'{nasty(11)} {"W" * 3000}', times=1)
        send(page, f'Message {code}')
        page.wait("document.querySelector('.talk-state .error')", f'{code} is told')
        settles(page)
        need(page.js("document.querySelector('.talk-state .error strong').textContent.length") > 10, f'{code} is a sentence')
        harmless(page)
        page.run("document.querySelector('.talk-state .error').remove();")
    for body in ('', '[]', 'null', '{"error": 7}', '{"error": {"message": {"a": 1}}}', '<html>', b'\xff\xfe', '{' * 10000):
        front.forget()
        front.answer('/continue$', 400, body, times=1)
        send(page, 'Message')
        page.wait("document.querySelector('.talk-state .error')", f'{body[:20]!r} is told')
        settles(page)
        harmless(page)
        page.run("document.querySelector('.talk-state .error').remove();")


def test_streams(r, page):
    """A stream that is none."""
    page.expect('SyntaxError', 'TypeError', 'JSON', 'the server responded')
    front = r.front()
    made = r.opened()
    r.show(page, made, url=front.url)
    for body in ('', ':\n\n', 'data: {\n\n', 'event: delta\ndata: null\n\n', 'event: delta\ndata: {"parts": 7}\n\n', '<html></html>'):
        front.forget()
        front.answer('/continue$', 200, body, kind='text/event-stream', times=1)
        send(page, 'Message')
        page.wait("document.querySelector('.talk-state .error, .note[data-kind=\"error\"]')", f'{body!r} is told')
        page.wait("document.querySelector('#stop').hidden", f'after {body!r} the page is ready')
        page.run("document.querySelectorAll('.talk-state .error, .note').forEach(one => one.remove());")
    front.forget()
    front.reply('Fine.')
    page.reload()
    page.wait("document.documentElement.dataset.connection === 'live'", 'the page is connected')
    page.wait("document.querySelector('#message').value === 'Message'", 'the draft was kept')
    page.run("document.querySelector('#message').focus();")
    page.press('Enter')
    page.wait("document.querySelector('#message').value === ''", 'it is accepted')
    same(r, page, made, ['Message'])


# ---- what grows ----

GROWING = '''# A heading with **strong** words

A paragraph with `code`, *emphasis*, a [link](https://example.invalid/path) and $a^2 + b^2 = c^2$, long enough that it takes more than a single line
of the column it is in.

| Name | Value | Formula |
|------|------:|:-------:|
| one | 1 | $x_1$ |
| two, with a cell that is much longer than the one above it | 22222 | $\\frac{1}{2}$ |
| three | 3 | |

```python
def f(x):
    """A text
    of lines."""
    return x # and a long comment that makes this line wider than the column of the text that it is shown in, by far
```

- one
- two with **more
  than one** line
  1. inner
  2. second
- three

$$
\\int_0^1 x^2\\,dx = \\frac{1}{3}
$$

> A quote
> - with a list

## The end

1. first
2. second

Last words.
'''

# In each frame: where the blocks are that have another behind them. The reply's beginning is the origin, so that scrolling does not count.
PLACES = '''
(() => {
  const known = new Map(), moved = window.__moved = [];
  window.__frames = 0;
  const name = one => `${one.localName}.${one.className}: ${one.textContent.slice(0, 30)}`;
  const leaves = 'p, h3, h4, h5, h6, figure, .table-wrap, tr, li, blockquote, .math-block';
  const look = () => {
    requestAnimationFrame(look);
    const prose = document.querySelector('.turn[data-role="assistant"] .prose');
    if (!prose)
      return;
    window.__frames++;
    const origin = prose.getBoundingClientRect();
    const blocks = [...prose.querySelectorAll(leaves)];
    for (const [i, one] of blocks.entries()) {
      // What holds the last one grows with it; what has no box yet is not there.
      const box = one.getBoundingClientRect();
      if (i === blocks.length - 1 || one.contains(blocks.at(-1)) || box.height === 0)
        continue;
      const at = [box.top - origin.top, box.height].map(value => Math.round(value * 2) / 2);
      const before = known.get(one);
      if (before && (Math.abs(before[0] - at[0]) > 0.5 || Math.abs(before[1] - at[1]) > 0.5))
        moved.push(`${name(one)} from ${before} to ${at}`);
      known.set(one, at);
    }
  };
  requestAnimationFrame(look);
})();
'''


def test_nothing_jumps(r, page):
    """Blocks that are followed by others stay where they are and as high as they are, to the end and behind it."""
    front = r.front()
    made = r.opened()
    page.cdp('Page.addScriptToEvaluateOnNewDocument', source=PLACES)
    r.show(page, made, url=front.url)
    front.rate = 30000
    front.reply(GROWING, max_tokens=60000)
    page.forget()
    send(page, 'Write it.')
    grows(page, 10)
    settles(page)
    page.frames(5)
    need(page.js('window.__frames') > 30, f"only {page.js('window.__frames')} frames were seen")
    need(len(page.all('.prose figure, .prose .table-wrap, .prose .math-block, .prose blockquote')) == 4, 'all of it is there')
    moved = page.js('window.__moved')
    need(not moved, moved[:8])
    sum_, shifts = page.shifts()
    need(sum_ < 0.01, (sum_, shifts[:5]))
    harmless(page)


def test_no_jumps_above(r, page):
    """Who reads further up while a reply grows stays there."""
    front = r.front()
    made = r.opened()
    for i in range(4):
        r.tell(made, f'Message {i}', f'Reply {i}. ' * 60)
    r.show(page, made, url=front.url)
    front.rate = 30000
    front.reply(GROWING, max_tokens=60000)
    send(page, 'Write it.')
    grows(page, 10)
    page.run("document.querySelector('.talk-scroll').scrollTop = 120;")
    page.frames(2)
    place = "Math.round(document.querySelector('.turn[data-turn=\"1\"]').getBoundingClientRect().top)"
    before = page.js(place)
    page.forget()
    settles(page)
    need(page.js(place) == before, (before, page.js(place)))
    page.one('.to-end').click()
    page.wait("(s => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(document.querySelector('.talk-scroll'))", 'the end is in view')


rig.run(globals(), model=('tiny:llama', '65536'), daemon=('--pool-size', '256M'))
