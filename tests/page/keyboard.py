#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""keyboard.py: the page without a pointer: the order of Tab, a focus that is seen and never lost, all keys, lists and trees by arrows."""
import re
import sys

sys.dont_write_bytecode = True
import rig
from acts import grows, rest, send, sentences, settles
from rig import need
from states import rich, show_compare, show_tree

LOST = "document.activeElement === document.body || document.activeElement === null"


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
    page.wait("[...document.querySelectorAll('.turn-body')].at(-1)?.innerText.trim() === 'Otherwise.'", 'the other reply is there')
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
        page.frames(1) # the focus that a dialog had goes to the message with the next one
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


rig.run(globals(), model=('tiny:llama', '65536'), daemon=('--pool-size', '256M'))
