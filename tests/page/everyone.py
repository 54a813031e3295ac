#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""everyone.py: the page for all who use it: by keyboard, with a screen reader, in forced colours, with other sizes of text, languages and directions,
on narrow and wide screens. axe-core looks at each state; what it cannot see is looked at here."""
import re
import sys

sys.dont_write_bytecode = True
import rig
from acts import flat, grows, hears, listen, rest, send, sentences, settles, turns, within, words
from rig import need

TOOLS = [{'type': 'function', 'function': {'name': 'weather', 'parameters': {'type': 'object'}}}]
TEXT = '''# A title

A paragraph with `code`, *emphasis*, a [link](https://example.invalid/) and $a^2 + b^2$.

- one
- two
  1. inner

| Name | Value |
|------|------:|
| one | 1 |

```python
def f(x):
    return x + 1 # a comment that is so long that it does not fit into the column, whatever happens to its width
```

$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$

> A quote.
'''
ARABIC, HEBREW = 'مرحبا بالعالم، كيف حالك؟', 'שלום עולם, מה שלומך?'
LOST = "document.activeElement === document.body || document.activeElement === null"


def rich(r):
    """A conversation that has everything, and a branch of it."""
    r.clear()
    made = r.opened(about={'title': 'A bridge of words', 'tags': ['everyone']}, tools=TOOLS)
    call = {'id': 'c1', 'name': 'weather', 'arguments': {'city': 'Oslo'}}
    r.tell(made, 'Show me everything.', {'reasoning': 'I think about it.\n\nFor long.', 'text': TEXT, 'calls': [call]})
    r.say(made, None, results=[{'call_id': 'c1', 'name': 'weather', 'content': '{"degrees": 3}'}], max_tokens=0)
    r.say(made, None, given={'text': 'Three degrees.'}, max_tokens=0)
    child = r.fork(made, at_turn=3, about={'title': 'Another way'})
    r.say(child, None, given={'text': 'It is cold.'}, max_tokens=0)
    return made, child


# ---- states ----

def menu_of(page, opener, item):
    page.role('button', opener).click()
    page.role('menuitem', item).click()


def show_tree(page):
    if page.js("document.querySelector('#panel').hidden"):
        page.click('#tree-button')
    page.wait("document.querySelectorAll('.tree-row').length >= 2", 'the tree is there')
    page.wait("document.querySelector('.tree-rows').getAttribute('aria-busy') !== 'true'", 'all of it')


def show_compare(page):
    page.run("document.querySelector('.turn:last-child .turn-actions button:last-child').click();")
    page.role('menuitem', 'Compare with the other branch').click()
    page.wait("document.querySelectorAll('.compare .compare-side .turn').length >= 2", 'both branches are there')


def show_error(page):
    page.run("location.hash = '#/c/999999';")
    page.one('.start .error')


def show_strip(page):
    page.run("document.querySelector('.strip-bar').click();")
    page.wait("document.querySelectorAll('#strip-panel tbody tr').length >= 1", 'its rows are there')


def show_all_parts(page):
    page.run("for (const one of document.querySelectorAll('details.reasoning, details.result')) one.open = true;")
    page.wait("document.querySelectorAll('details.result figure, details.result .call-text').length === 1 && "
              "document.querySelector('.reasoning-text p')", 'they are open')


def show_editing(page):
    page.run("document.querySelector('.turn[data-role=\"user\"] .turn-actions button').click();")
    page.drop('.composer', [('notes.txt', 'text/plain', 'A few words.')])
    page.wait("/\\d/.test(document.querySelector('.files li .figures')?.textContent ?? '')", 'the file is counted')


def show_list(page):
    page.run("location.hash = '#/';")
    page.wait("document.querySelector('.start h2')", 'the beginning is shown')


def show_note(page):
    menu_of(page, 'Actions for this conversation', 'Warm up')
    page.one('.note')


STATES = {
    'list': show_list,
    'conversation': show_all_parts,
    'tree': show_tree,
    'compare': show_compare,
    'settings': lambda page: menu_of(page, 'Actions for this conversation', 'Settings…'),
    'keys': lambda page: menu_of(page, 'Page: theme, language, keys', 'Keys'),
    'token': lambda page: menu_of(page, 'Page: theme, language, keys', 'Access token'),
    'menu': lambda page: page.role('button', 'Actions for this conversation').click(),
    'aside': lambda page: page.role('button', 'Ask aside').click(),
    'error': show_error,
    'strip': show_strip,
    'editing': show_editing,
    'note': show_note,
}


def each_state(r, page, look, names=STATES, url=None, **how):
    """look(name) in each state of a page that is opened for it."""
    made, _ = how.get('made') or rich(r)
    for name in names:
        page.open('about:blank')
        r.show(page, made, url=url)
        page.wait("document.querySelectorAll('.turn').length === 4 && document.querySelector('.katex')", 'the conversation is there')
        STATES[name](page)
        page.frames(2)
        try:
            look(name)
        except AssertionError as error:
            raise AssertionError(f'{name}: {error}') from error


TARGETS = '''
  return [...document.querySelectorAll('button, a[href], select, summary, input:not([type="checkbox"], [type="file"]), textarea')].filter(one => {
    if (!one.checkVisibility({visibilityProperty: true}) || one.closest('.prose p, .prose li, .prose td, .skip'))
      return false;
    const box = one.getBoundingClientRect();
    return box.width > 0 && (box.width < 24 || box.height < 24);
  }).map(one => `${one.outerHTML.slice(0, 100)}: ${one.getBoundingClientRect().width} x ${one.getBoundingClientRect().height}`);
'''


def test_axe(r, page):
    """No violations: in light and dark, wide and narrow, in each state. What can be pressed is 24 px wide and high at least."""
    page.expect('404')

    def look(_):
        for size in ((1280, 800), (320, 640)):
            page.size(*size)
            for theme in ('light', 'dark'):
                page.theme(theme)
                rest(page)
                r.axe(page, **({} if theme == 'light' else {'runOnly': ['color-contrast']}))
            small = page.run(TARGETS)
            need(not small, small[:6])
        page.size(1280, 800)
        page.theme('light')
    each_state(r, page, look)


def test_axe_drawer(r, page):
    made, _ = rich(r)
    page.size(320, 640)
    r.show(page, made)
    page.role('button', 'Show conversations').click()
    page.wait("getComputedStyle(document.querySelector('#list')).visibility === 'visible'", 'the drawer is open')
    page.wait("document.getAnimations().length === 0", 'it has come to rest')
    for theme in ('light', 'dark'):
        page.theme(theme)
        rest(page)
        r.axe(page)


def test_axe_while_written(r, page):
    made, _ = rich(r)
    front = r.front()
    r.show(page, made, url=front.url)
    front.rate = 3000
    front.reply(sentences(60), max_tokens=20000)
    send(page, 'Go on.')
    grows(page, 10)
    r.axe(page)
    page.click('#stop')
    front.rate = None
    settles(page)


# ---- keys ----

def kept(page, what):
    """The focus is somewhere, in view, and can be seen."""
    page.frames(3)
    page.wait(f'!({LOST})', f'the focus is not lost: {what}', limit=5)
    seen = page.run('''
      const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
      const name = `${one.localName}#${one.id}.${one.className}`;
      if (!one.checkVisibility({visibilityProperty: true, opacityProperty: true}) || box.right < 0 || box.left > innerWidth || box.bottom < 0
          || box.top > innerHeight)
        return `${name} is not in view`;
      const x = Math.max(1, Math.min(innerWidth - 1, box.x + Math.min(box.width / 2, 20))),
        y = Math.max(1, Math.min(innerHeight - 1, box.y + box.height / 2));
      const top = document.elementFromPoint(x, y);
      if (top && !one.contains(top) && !top.contains(one) && !top.closest('.note'))
        return `${name} is covered by ${top.localName}.${top.className}`;
      if (one.matches(':focus-visible') && style.outlineStyle === 'none' && !one.matches('h1, h2, [tabindex="-1"]'))
        return `${name} has no outline`;
      return null;
    ''')
    need(seen is None, f'{what}: {seen}')


def focus(page, css):
    page.run('document.querySelector(a).focus();', css)


def test_tab_order(r, page):
    """Tab goes through the page as it is read, sees each place, and Shift with it goes back."""
    made, _ = rich(r)
    r.show(page, made)
    page.wait("document.querySelector('.katex')", 'it is drawn')
    page.run("document.activeElement.blur(); document.querySelector('.talk-scroll').scrollTop = 0; getSelection().removeAllRanges();")
    page.run("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex');")
    seen = []
    for _ in range(80):
        page.press('Tab')
        told = page.focused()
        if told is None or (seen and told == seen[0]):
            break
        kept(page, f'behind {seen[-1:]}')
        seen.append(told)
    names = [name for _, name in seen]
    wanted = ['Skip to the message', 'New conversation', 'Search all that was said', 'Tree', 'Actions for this conversation',
        'Page: theme, language, keys', 'Turns',
              'Edit', 'link', 'Wrap', 'Copy', 'Another reply', 'Message', 'Attach…', 'Ask aside', 'Send']
    places = [next((i for i, name in enumerate(names) if name == one), -1) for one in wanted]
    need(-1 not in places, (dict(zip(wanted, places)), names))
    need([one for one in places if one not in (places[7], places[11])] == sorted(one for one in places if one not in (places[7], places[11])),
         (list(zip(wanted, places)), names))
    need(sum(1 for role, _ in seen if role == 'link') <= 5, f'of the list there is one row: {seen}')
    back = []
    focus(page, '#send')
    for _ in range(3):
        page.press('Shift+Tab')
        back.append(page.focused()[1])
    need(back == ['Ask aside', 'Attach…', 'Message'], back)
    # the first one leads to the message
    page.run("document.querySelector('#skip').focus();")
    kept(page, 'the skip link')
    page.press('Enter')
    page.wait("document.activeElement.id === 'message'", 'it leads to the message')
    need(page.url.endswith(f'#/c/{made["id"]}'), page.url)


def test_focus_stays(r, page):
    """After everything that makes what had the focus go."""
    made, child = rich(r)
    front = r.front()
    r.show(page, made, url=front.url)
    focused = "document.activeElement.id === a"
    front.reply('One. Two.')
    send(page, 'Send with Enter.')
    page.wait("document.querySelector('#message').value === ''", 'it is accepted')
    settles(page)
    page.wait(focused, 'sent', args=['message'])
    page.insert('Send with the button.')
    front.rate = 5000
    front.reply(sentences(40), max_tokens=20000)
    focus(page, '#send')
    page.press('Enter')
    grows(page, 5)
    kept(page, 'sent with the button')
    focus(page, '#stop')
    page.press('Enter')
    front.forget()
    settles(page)
    kept(page, 'stopped')
    # dialogs and menus give it back to what opened them
    for item in ('Rename…', 'Settings…'):
        page.run("document.querySelector('.talk-head [aria-haspopup]').focus();")
        opener = page.focused()
        page.press('Enter')
        page.role('menuitem', item)
        for _ in range(9):
            if page.focused()[1] == item:
                break
            page.press('ArrowDown')
        page.press('Enter')
        page.role('dialog')
        kept(page, f'{item} is open')
        page.press('Escape')
        page.gone('dialog')
        need(page.focused() == opener, (item, page.focused()))
    page.press('Enter')
    page.one('.menu')
    page.press('Escape')
    page.gone('.menu')
    need(page.focused() == opener, page.focused())
    # notes
    page.run("document.querySelector('.talk-head [aria-haspopup]').focus();")
    page.press('Enter', 'w', 'Enter')
    page.one('.note')
    page.run("document.querySelector('.note button:last-child').focus();")
    page.press('Enter')
    page.gone('.note')
    kept(page, 'a note is dismissed')
    # the panel
    focus(page, '#tree-button')
    page.press('Enter')
    show_tree(page)
    kept(page, 'the panel is open')
    page.run("document.querySelector('.tree-row[tabindex=\"0\"]').focus();")
    page.press('t')
    page.gone('#panel')
    kept(page, 'the panel is closed by its key')
    # two branches
    focus(page, '.turn:last-child .turn-actions button:last-child')
    r.go(page, child)
    show_compare(page)
    kept(page, 'two branches')
    page.press('Escape')
    page.gone('.compare')
    kept(page, 'one branch')
    # a turn that makes way for a branch
    focus(page, '.turn[data-role="assistant"]:last-child .turn-actions button')
    front.reply('Otherwise.')
    page.press('Enter')
    page.wait("location.hash !== a", 'there is a branch', args=[f'#/c/{child["id"]}'])
    settles(page)
    kept(page, 'another reply')
    # the end of a conversation, and the way back
    page.run("document.querySelector('.talk-head [aria-haspopup]').focus();")
    page.press('Enter', 'End', 'Enter')
    page.one('.note')
    page.wait("location.hash === '#/'", 'it is closed')
    kept(page, 'closed')
    page.run("document.querySelector('.note button').focus();")
    page.press('Enter')
    page.wait("location.hash !== '#/'", 'it is there again')
    page.wait("document.querySelector('.talk-scroll').getAttribute('aria-busy') === 'false'", 'it is shown')
    kept(page, 'undone')


def test_focus_stays_more(r, page):
    """Answering what has no reply, files, editing, rows that go, connections that come back."""
    page.expect('ERR_', 'Failed to load')
    r.clear()
    made, other = r.opened(), r.opened(about={'title': 'To be closed'})
    r.say(made, 'No reply to this.', max_tokens=0)
    front = r.front()
    r.show(page, made, url=front.url)
    front.reply('Now there is.')
    page.one('.unanswered')
    focus(page, '.unanswered button')
    page.press('Enter')
    settles(page)
    kept(page, 'answered')
    page.drop('.composer', [('notes.txt', 'text/plain', 'A few words.')])
    page.one('.files button')
    focus(page, '.files button')
    page.press('Enter')
    page.gone('.files li')
    kept(page, 'a file is taken out')
    focus(page, '.turn[data-role="user"] .turn-actions button')
    page.press('Enter')
    page.one('.composer-banner button')
    focus(page, '.composer-banner button')
    page.press('Enter')
    page.gone('.composer-banner')
    kept(page, 'nothing is edited')
    focus(page, f'#list li[data-id="{other["id"]}"] button')
    page.press('Enter', 'End', 'Enter')
    page.wait(f"!document.querySelector('#list li[data-id=\"{other['id']}\"]')", 'the row is gone')
    kept(page, 'a row is gone')
    front.down()
    page.one('.connection button')
    focus(page, '.connection button')
    front.up()
    page.gone('.connection')
    kept(page, 'connected again')


def test_drawer(r, page):
    """On a narrow screen the list and the panel lie above the talk: the focus goes there, stays there, and comes back."""
    made, child = rich(r)
    page.size(320, 640)
    r.show(page, made)
    focus(page, '.drawer-button')
    page.press('Enter')
    page.wait("document.querySelector('#list').contains(document.activeElement)", 'the focus is in the drawer')
    page.wait("document.getAnimations().length === 0", 'it has come to rest')
    visited = 0
    while not page.js(LOST) and visited < 40:
        kept(page, 'in the drawer')
        need(page.js("document.activeElement.matches('#list *, .skip')"), f'Tab leaves the drawer: {page.focused()}')
        visited += 1
        page.press('Tab')
    need(visited >= 4, visited)
    focus(page, '#list input')
    page.press('Escape')
    page.wait("document.activeElement.matches('.drawer-button')", 'the focus comes back')
    page.press('Enter')
    page.wait("document.activeElement.matches('#list *')", 'the focus is in the drawer')
    focus(page, f'#list li a[href="#/c/{made["id"]}"], #list li a')
    page.press('Enter')
    page.wait("!document.querySelector('#frame').dataset.drawer", 'it is closed')
    rest(page)
    kept(page, 'a conversation is chosen')
    r.go(page, made)
    focus(page, '#tree-button')
    page.press('Enter')
    show_tree(page)
    visited = []
    while not page.js(LOST) and len(visited) < 20:
        kept(page, 'in the panel')
        visited.append(page.js("document.activeElement.closest('#frame > *')?.id"))
        page.press('Tab')
    need(visited[0] == 'panel' and 'talk' not in visited, visited)
    page.run("document.querySelector('.tree-row').focus();")
    page.press('Escape')
    page.gone('#panel')
    kept(page, 'the panel is closed')
    need(child, 'there is a branch')


def test_all_keys(r, page):
    """Each letter does what its row says; none of them while somebody types, and none when they are switched off."""
    made, child = rich(r)
    front = r.front()
    r.show(page, made, url=front.url)
    with open(rig.PAGE + '/js/keys.js', encoding='utf-8') as f:
        letters = re.findall(r"'?([^\s'{])'?: '\w+'", f.read().split('const LETTERS = {', 1)[1].split('};', 1)[0])
    active = 'document.activeElement'
    effects = {
        '/': f"{active}.type === 'search'", 'm': f"{active}.id === 'message'", 'n': "location.hash === '#/'", 'j': f"{active}.matches('.turn')",
        'k': f"{active}.matches('.turn')", ']': "/^#.c.\\d+$/.test(location.hash)", '[': "/^#.c.\\d+$/.test(location.hash)",
        't': "!document.querySelector('#panel').hidden",
        '.': "document.querySelector('#stop').hidden",
        'G': "(s => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(document.querySelector('.talk-scroll'))",
        ',': "document.querySelector('dialog .settings')", 'a': "document.querySelector('dialog .aside')"}
    need(set(letters) == set(effects), (letters, set(effects)))
    for key, effect in effects.items():
        r.go(page, made)
        page.run("document.activeElement.blur(); document.querySelector('.talk-scroll').scrollTop = 0;")
        page.frames(2)
        if key == '.':
            front.rate = 5000
            front.reply(sentences(30), max_tokens=20000)
            send(page, 'Go on.')
            grows(page, 5)
            page.run('document.activeElement.blur();')
        if key not in '.]':
            need(not page.js(effect) or key in '[G', f'{key}: it is so already')
        page.press(*(['Shift+G'] if key == 'G' else [key]))
        front.rate = None
        page.wait(effect, f'{key} does something')
        if key == '.':
            settles(page)
        if page.all('dialog'):
            page.press('Escape')
            page.gone('dialog')
    page.press('Control+k')
    page.wait(effects['/'], 'Ctrl K searches')
    page.press('j')
    need(page.js(f'{active}.value') == 'j', 'who types writes')
    page.press('Escape')
    page.run('document.activeElement.blur();')
    page.press('?')
    page.role('dialog')
    rows = page.texts('.keys dd')
    need(len(rows) == len(set(letters)) + 5, rows)
    page.click('dialog input[type="checkbox"]')
    page.press('Escape')
    page.gone('dialog')
    page.run('document.activeElement.blur();')
    page.press('n')
    page.frames(3)
    need(page.js("location.hash !== '#/'"), 'letters are switched off')
    need(child, 'there is a branch')


def test_arrows(r, page):
    """The list, menus and the tree by arrows."""
    made, _ = rich(r)
    for i in range(30):
        r.opened(about={'title': f'Conversation {i}'})
    r.show(page, made)
    page.wait("document.querySelectorAll('#list li').length > 8", 'the list is there')
    row = "Number(document.activeElement.closest('#list li')?.ariaPosInSet)"
    focus(page, '#list input')
    page.press('ArrowDown')
    need(page.js(row) == 1, page.js(row))
    page.press('ArrowDown', 'ArrowDown')
    need(page.js(row) == 3, page.js(row))
    page.press('End')
    need(page.js(row) == 31, page.js(row))
    kept(page, 'the last row')
    page.press('PageUp')
    need(1 < page.js(row) < 31, page.js(row))
    page.press('Home', 'ArrowUp')
    need(page.js("document.activeElement.type") == 'search', page.focused())
    page.press('ArrowDown', 'End', 'Enter')
    page.wait("document.querySelector('.talk-scroll').getAttribute('aria-busy') === 'false' && document.querySelectorAll('.turn').length === 4",
        'it is open')
    # a menu
    page.run("document.querySelector('.talk-head [aria-haspopup]').focus();")
    page.press('Enter')
    first = page.focused()
    page.press('ArrowUp')
    last = page.focused()
    need(last[1] == 'Close' and first[1] == 'Rename…', (first, last))
    page.press('ArrowDown')
    need(page.focused() == first, page.focused())
    page.press('s')
    need(page.focused()[1] == 'Settings…', page.focused())
    page.press('Tab')
    page.gone('.menu')
    # the tree
    show_tree(page)
    page.run("document.querySelector('.tree-row[tabindex=\"0\"]').focus();")
    key = 'document.activeElement.dataset.key'
    page.press('Home')
    top = page.js(key)
    seen = {top}
    for _ in range(12):
        page.press('ArrowDown')
        seen.add(page.js(key))
        need(page.js("document.querySelectorAll('.tree-row[tabindex=\"0\"]').length") == 1, 'Tab stops at one row')
    need(len(seen) >= 5, seen)
    page.press('End')
    aside = set()
    for _ in range(12):
        for arrow in ('ArrowRight', 'ArrowLeft'):
            before = page.js(key)
            page.press(arrow)
            aside |= {arrow} if page.js(key) != before else set()
        page.press('ArrowUp')
    need(len(aside) == 2, f'it moves to the sides: {aside}')
    page.press('Home')
    need(page.js(key) == top, page.js(key))
    page.press('End')
    before = page.url
    page.press('Enter')
    page.wait('location.href !== a || document.querySelector(".turn:focus")', 'it is opened', args=[before])


# ---- screen readers ----

REGION = '''
  window.__told = [];
  new MutationObserver(records => {
    for (const record of records)
      for (const node of record.addedNodes)
        window.__told.push(node.textContent);
  }).observe(document.getElementById('announcements'), {childList: true, subtree: true});
'''


def test_live_region(r, page):
    """A reply is announced in whole sentences, all of them and in their order, and is busy while it grows."""
    text = 'The first sentence is here. Is this the second one? It is! "And a fourth," she said. The fifth costs 3.50 and goes on to its end.' \
        '\n\nA last one'
    made, front = r.opened(), r.front()
    r.show(page, made, url=front.url)
    page.run(REGION)
    front.rate = 4000
    front.reply(text)
    send(page, 'Tell me.')
    grows(page, 5)
    page.wait("document.querySelector('.turn[aria-busy=\"true\"]')", 'it is busy')
    front.rate = None
    settles(page)
    told = page.js('window.__told')
    need(flat(' '.join(told)) == flat(text), told)
    need(all(re.search(r'[.!?]["\')]*$', one.strip()) for one in told[:-1]), told)
    need(3 <= len(told) <= 7, told)
    n = r.conversation(made, turns=1)['turns'][-1]['run']['n_generated']
    need(n > 8 * len(told), (n, told))
    need(page.js("document.querySelector('.turn:last-child').getAttribute('aria-busy')") == 'false', 'it is over')
    need(page.js("['announcements', 'notes'].every(id => document.getElementById(id).ariaLive === 'polite')"), 'the regions are polite')


def test_names_and_landmarks(r, page):
    made, _ = rich(r)
    r.show(page, made)
    for role in ('navigation', 'main', 'contentinfo'):
        need(len(page.roles(role)) == 1, f'{role}: {len(page.roles(role))}')
    need(page.js("document.querySelectorAll('h1').length") == 1, 'one heading of the first level')
    levels = page.js("[...document.querySelectorAll('#talk :is(h1, h2, h3, h4, h5, h6)')].map(one => Number(one.localName[1]))")
    need(all(b <= a + 1 for a, b in zip(levels, levels[1:])), levels)
    unnamed = page.js("[...document.querySelectorAll('button, a[href], input, select, textarea')].filter(one => one.checkVisibility() && "
                      "!(one.ariaLabel || one.textContent.trim() || one.labels?.length || one.title)).map(one => one.outerHTML.slice(0, 100))")
    need(not unnamed, unnamed)
    for article in page.roles('article'):
        need(article.accessible_name in ('You', 'Reply', 'Results'), article.accessible_name)
    shapes = {one.accessible_name for one in page.roles('image')}
    need(shapes and shapes <= {words(page, f'residency.{kind}') for kind in ('resident', 'partial', 'spilled', 'cold')}, shapes)


def test_reduced_motion(r, page):
    made, _ = rich(r)
    front = r.front()
    page.reduced_motion()
    r.show(page, made, url=front.url)
    show_tree(page)
    page.run('''
      window.__moving = new Set();
      const look = () => {
        for (const one of document.getAnimations())
          window.__moving.add(`${one.animationName ?? one.transitionProperty} of ${one.effect.target.className}`);
        requestAnimationFrame(look);
      };
      look();
    ''')
    front.rate = 20000
    front.reply('<think>\n' + sentences(4) + '\n</think>\n\nA reply.', max_tokens=20000)
    send(page, 'Think.')
    settles(page)
    page.role('button', 'Actions for this conversation').click()
    page.press('Escape')
    page.size(320, 640)
    page.role('button', 'Close').click()
    page.role('button', 'Show conversations').click()
    page.wait("getComputedStyle(document.querySelector('#list')).visibility === 'visible'", 'the drawer is open')
    page.press('Escape')
    page.frames(5)
    need(not page.js('[...window.__moving]'), page.js('[...window.__moving]'))
    need(page.js("getComputedStyle(document.querySelector('.talk-scroll')).scrollBehavior") == 'auto', 'nothing scrolls smoothly')


def picture(page, css):
    """A PNG of an element, with a little around it."""
    box = page.js('(b => [b.x, b.y, b.width, b.height])(document.querySelector(a).getBoundingClientRect())', css)
    clip = {'x': box[0] - 2, 'y': box[1] - 2, 'width': box[2] + 4, 'height': box[3] + 4, 'scale': 4}
    return page.cdp('Page.captureScreenshot', format='png', clip=clip)['data']


def test_forced_colors(r, page):
    """Where memory is, is a shape: four of them, that differ without colours."""
    made, _ = rich(r)
    page.media(forced_colors='active')
    for theme in ('light', 'dark'):
        page.theme(theme)
        r.show(page, made)
        disc = '.talk-head .residency'
        page.one(disc)
        page.run("const disc = document.querySelector(a), copy = disc.cloneNode(true); disc.replaceWith(copy); "
                 "copy.id = 'shape'; copy.style.margin = '0';", disc)
        shapes = {}
        for kind in ('resident', 'partial', 'spilled', 'cold', None):
            page.run("const disc = document.getElementById('shape'); disc.style.visibility = a ? 'visible' : 'hidden'; "
                     "disc.dataset.residency = a;", kind)
            page.frames(2)
            shapes[kind] = picture(page, '#shape')
        need(len(set(shapes.values())) == 5, f'shapes that look the same in {theme}')
        page.open('about:blank')


# ---- sizes ----

SIZES = [(320, 640), (375, 812), (640, 400), (720, 800), (1024, 768), (1280, 800), (1600, 900), (2560, 1440), (3840, 2160)]


def frame_is_fine(page, what=''):
    within(page)
    bad = page.run('''
      const bad = [];
      const box = document.querySelector('.composer')?.getBoundingClientRect();
      if (!box || box.height === 0 || !document.querySelector('.composer').checkVisibility({visibilityProperty: true}))
        return bad;
      if (box.bottom > innerHeight + 1 || box.left < -1 || box.right > innerWidth + 1)
        bad.push(`the composer is not in view: ${JSON.stringify(box)}`);
      for (const one of document.querySelectorAll('.composer textarea, .composer button')) {
        const at = one.getBoundingClientRect();
        if (at.width === 0)
          continue;
        for (const share of [0.1, 0.5, 0.9]) {
          const top = document.elementFromPoint(at.x + at.width * share, at.y + at.height / 2);
          if (top !== one && !one.contains(top))
            bad.push(`${one.id || one.textContent} is covered by ${top?.outerHTML.slice(0, 80)}`);
        }
      }
      for (const id of ['list', 'talk', 'strip', 'panel'])
        for (const other of ['list', 'talk', 'strip', 'panel']) {
          if (id >= other)
            continue;
          const [a, b] = [id, other].map(one => document.getElementById(one)).map(one => [one.getBoundingClientRect(), getComputedStyle(one)]);
          if ([a, b].some(([at, style]) => at.width === 0 || style.position === 'fixed' || style.visibility === 'hidden'))
            continue;
          if (a[0].right > b[0].left + 1 && b[0].right > a[0].left + 1 && a[0].bottom > b[0].top + 1 && b[0].bottom > a[0].top + 1)
            bad.push(`${id} and ${other} overlap`);
        }
      return bad;
    ''')
    need(not bad, (what, bad))


def test_sizes(r, page):
    """From 320 to 3840 px: nothing scrolls to the side, nothing lies above the message, and text keeps its measure."""
    made, child = rich(r)
    r.show(page, made)
    page.wait("document.querySelector('.katex')", 'it is drawn')
    show_all_parts(page)
    for panel in (False, True):
        if panel:
            page.size(1280, 800)
            show_tree(page)
        for width, height in SIZES:
            page.size(width, height)
            rest(page)
            frame_is_fine(page, (width, height, panel))
            measure = page.js("document.querySelector('.turn').getBoundingClientRect().width / "
                              "parseFloat(getComputedStyle(document.documentElement).fontSize)")
            need(measure <= 46.5, f'{measure} rem at {width}')
    page.click('.panel-head button')
    r.go(page, child)
    show_compare(page)
    for width, height in SIZES:
        page.size(width, height)
        page.frames(3)
        within(page)
        need(page.js("document.querySelector('.compare-side .turn').getBoundingClientRect().width") <= 46.5 * 16, f'the measure at {width}')
    page.press('Escape')
    # notes
    page.size(1280, 800)
    show_note(page)
    for width, height in ((320, 640), (640, 400), (1280, 800), (3840, 2160)):
        page.size(width, height)
        rest(page)
        need(page.all('.note'), 'the note is there')
        frame_is_fine(page, 'a note')
    # a draft of many lines
    page.run("const m = document.querySelector('#message'); m.value = 'line\\n'.repeat(60); m.dispatchEvent(new Event('input'));")
    for width, height in ((320, 480), (1280, 800)):
        page.size(width, height)
        rest(page)
        frame_is_fine(page, 'many lines')
        need(page.js("document.querySelector('.talk-scroll').clientHeight") > 100, 'there is room for the talk')


def test_zoom(r, page):
    """200 % and 400 %: all of it can be reached without scrolling to the side."""
    page.expect('404')
    for width, height, scale in ((640, 400, 2), (320, 256, 4)):
        page.size(width, height, scale)

        def look(_):
            within(page, 'body')
            wide = page.run("return [...document.querySelectorAll('dialog, .menu, #strip-panel, .note, #panel:not([hidden])')].filter("
                            "one => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > innerWidth + 1 || "
                            "one.getBoundingClientRect().bottom > innerHeight + 1).map(one => one.outerHTML.slice(0, 100));")
            need(not wide, wide)
        each_state(r, page, look, ['conversation', 'settings', 'menu', 'tree', 'strip', 'editing'] if scale == 2 else
                   ['conversation', 'settings', 'menu'])


def test_text_spacing(r, page):
    """WCAG 1.4.12: with wider lines, letters, words and paragraphs nothing is cut off."""
    page.expect('404')

    def look(name):
        page.run('''
          const sheet = new CSSStyleSheet();
          sheet.replaceSync('* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important } '
            + 'p { margin-bottom: 2em !important }');
          document.adoptedStyleSheets = [sheet];
        ''')
        for size in ((1280, 800), (320, 640)):
            page.size(*size)
            page.frames(3)
            within(page)
            cut = page.run('''
              return [...document.querySelectorAll('button, h1, h2, h3, label, p, dt, dd, summary, .note span, .row-when')].filter(one => {
                const style = getComputedStyle(one);
                return one.checkVisibility({visibilityProperty: true}) && !one.closest('.unseen, .strip-bar, .math, .growing, .tree-row')
                    && style.textOverflow !== 'ellipsis' && style.overflowX !== 'auto'
                  && style.display !== 'inline' && (one.scrollWidth > one.clientWidth + 2 || one.scrollHeight > one.clientHeight + 2);
              }).map(one => `${one.outerHTML.slice(0, 90)}: ${one.scrollWidth} of ${one.clientWidth}, ${one.scrollHeight} of ${one.clientHeight}`);
            ''')
            need(not cut, (size, cut[:6]))
        page.size(1280, 800)
        need(name, 'a state')
    each_state(r, page, look, ['conversation', 'tree', 'settings', 'strip', 'editing', 'menu', 'list'])


# ---- languages and directions ----

def test_right_to_left(r, page):
    """Arabic and Hebrew have their direction, and what is code, mathematics or a figure keeps its own."""
    r.clear()
    made = r.opened(about={'title': ARABIC})
    r.tell(made, ARABIC, f'{HEBREW}\n\n- {ARABIC}\n- {HEBREW}\n\n```c\nint x = 1;\n```\n\n$$a = b$$\n\nEnglish, with {HEBREW} in it.')
    r.show(page, made)
    page.wait("document.querySelector('.katex')", 'it is drawn')
    told = page.run('''
      const at = css => document.querySelector(css);
      // which side the words are at, and their direction
      const side = one => {
        const range = document.createRange();
        range.selectNodeContents(document.createTreeWalker(one, NodeFilter.SHOW_TEXT).nextNode());
        const text = range.getBoundingClientRect(), box = one.getBoundingClientRect();
        return [getComputedStyle(one).direction, box.right - text.right < text.left - box.left ? 'right' : 'left'];
      };
      const prose = '.turn[data-role="assistant"] .prose';
      return {message: side(at('.turn[data-role="user"] .plain')), hebrew: side(at(`${prose} > p`)), item: side(at(`${prose} li`)),
        code: [getComputedStyle(at('pre')).direction, getComputedStyle(at('pre')).textAlign], math: getComputedStyle(at('.math-block')).direction,
        english: side([...document.querySelectorAll(`${prose} > p`)].at(-1)),
            figures: getComputedStyle(at('.turn-foot') ?? at('.turn-head')).direction,
        row: getComputedStyle(at('#list .row-title')).direction, title: getComputedStyle(at('.talk-title')).direction};
    ''')
    need(told['message'] == ['rtl', 'right'] and told['hebrew'] == ['rtl', 'right'] and told['item'] == ['rtl', 'right'], told)
    need(told['code'][0] == 'ltr' and told['code'][1] in ('left', 'start') and told['math'] == 'ltr' and told['english'] == ['ltr', 'left'], told)
    need(told['row'] == 'rtl' and told['title'] == 'rtl' and told['figures'] == 'ltr', told)
    page.insert(HEBREW, '#message')
    need(page.js("getComputedStyle(document.querySelector('#message')).direction") == 'rtl', 'what is written, too')
    page.size(320, 640)
    within(page)


def test_mirrored(r, page):
    """The frame of a language that is written from right to left."""
    made, _ = rich(r)
    r.show(page, made)
    page.run("document.documentElement.dir = 'rtl';")
    show_tree(page)
    for width, height in ((1280, 800), (1000, 700), (320, 640)):
        page.size(width, height)
        rest(page)
        frame_is_fine(page, (width, height))
    page.size(1280, 800)
    page.frames(2)
    left = page.js("['list', 'talk', 'panel'].map(id => document.getElementById(id).getBoundingClientRect().left)")
    need(left == sorted(left, reverse=True), left)
    need(page.js("getComputedStyle(document.querySelector('pre')).direction") == 'ltr', 'code is not mirrored')
    page.click('.panel-head button')
    page.size(320, 640)
    page.role('button', 'Show conversations').click()
    page.wait("document.getAnimations().length === 0 && getComputedStyle(document.querySelector('#list')).visibility === 'visible'",
        'the drawer is open')
    box = page.js("(b => [b.left, b.right, innerWidth])(document.querySelector('#list').getBoundingClientRect())")
    need(box[1] == box[2] and box[0] > 0, box)


def test_german(r, page):
    """All of the page is in German: its words, its figures, its language."""
    made, child = rich(r)
    page.expect('404')
    page.language('de-DE')
    r.show(page, made)
    need(page.js('document.documentElement.lang') == 'de', page.js('document.documentElement.lang'))
    english, german = page.run('''
      const [en, de] = await Promise.all(['en', 'de'].map(async tag => (await import(new URL(`page/js/words-${tag}.js`, document.baseURI))).default));
      const flat = words => Object.values(words).flatMap(one => typeof one === 'object' ? flat(one) : [one]);
      return [flat(en), flat(de)];
    ''')
    # words without values, which are not the same in German
    foreign = {one for one in english if '{' not in one and one not in german and re.search(r'[A-Za-z]{2}', one)}
    need(len(foreign) > 150, len(foreign))
    visible = '''
      const found = new Set();
      const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walk.nextNode())
        if (!walk.currentNode.parentElement.closest('.turn-body .prose, noscript'))
          found.add(walk.currentNode.data.trim());
      for (const one of document.querySelectorAll('*'))
        for (const name of ['aria-label', 'title', 'place' + 'holder', 'alt'])
          if (one.hasAttribute(name))
            found.add(one.getAttribute(name).trim());
      return [...found];
    '''

    def check(what):
        page.frames(2)
        there = [one for one in page.run(visible) if one in foreign]
        need(not there, (what, there))
    check('conversation')
    show_tree(page)
    check('tree')
    page.click('.panel-head button')
    r.go(page, child)
    page.run("document.querySelector('.turn:last-child .turn-actions button:last-child').click();")
    check('menu of a turn')
    page.role('menuitem', 'Mit dem anderen Zweig vergleichen').click()
    page.wait("document.querySelectorAll('.compare .compare-side .turn').length >= 2", 'both branches are there')
    check('compare')
    page.press('Escape')
    for key in ('?', ',', 'a'):
        page.run('document.activeElement.blur();')
        page.press(key)
        page.role('dialog')
        check(f'the dialog of {key}')
        page.press('Escape')
        page.gone('dialog')
    page.run("document.querySelector('.talk-head [aria-haspopup]').click();")
    check('menu')
    page.press('Escape')
    page.run("document.querySelectorAll('.talk-head [aria-haspopup]')[1].click();")
    check('menu of the page')
    page.press('Escape')
    show_strip(page)
    check('strip')
    page.press('Escape')
    show_editing(page)
    check('editing')
    page.run("location.hash = '#/c/999999';")
    page.one('.start .error')
    check('error')
    page.run("location.hash = '#/';")
    page.wait("document.querySelector('.start h2')", 'the beginning is shown')
    check('list')
    # 2.048 and not 2,048
    r.go(page, made)
    need(re.search(r'\d\.\d{3}', page.text('.talk-figures')), page.text('.talk-figures'))


def test_text_is_enough(r, page):
    """Errors and states have words, not colours alone."""
    page.expect('ERR_', 'Failed to load')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    front.down()
    page.one('.connection')
    need(len(page.text('.connection')) > 40, page.text('.connection'))
    front.up()
    hears(page, words(page, 'connection.back'), 'it is back')
    need(turns(page) == [], 'nothing else happens')


rig.run(globals(), model=('tiny:llama', '65536'), daemon=('--pool-size', '256M'))
