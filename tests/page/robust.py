#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""robust.py: what a page shows is what the daemon has, whatever ends or breaks in between: a reload, connections, the gateway, the daemon. Nothing
is said twice or lost, and each error is a sentence with what to do."""
import contextlib
import json
import re
import sys

sys.dont_write_bytecode = True
import rig
from acts import draft, flat, grows, hears, listen, said, same, send, sentences, settles, turns, words, write
from rig import need

TEXT = sentences(11)
HALF = sentences(2)
MESSAGE = 'What do you remember?'


@contextlib.contextmanager
def replying(r, page, text=TEXT):
    """A page, through a front, in the middle of a reply."""
    made, front = r.opened(), r.front()
    listen(page, text)
    r.show(page, made, url=front.url)
    front.reply(text)
    send(page, MESSAGE)
    grows(page, len(HALF))
    yield made, front
    front.forget()


def whole(r, page, made, text=TEXT):
    told = same(r, page, made, [MESSAGE])
    need(told == [('user', MESSAGE), ('assistant', flat(text))], told)


# ---- reloads and connections ----

def test_reload(r, page):
    """In the middle of a reply, twice: it is there, goes on, and ends as it should."""
    text = sentences(25) # which takes longer than two loads on a busy machine
    with replying(r, page, text) as (made, front):
        for _ in range(2):
            page.reload()
            grows(page, len(HALF))
        need(r.conversation(made)['busy'], 'it is still being written')
        whole(r, page, made, text)
        asked = [path for method, path, _ in front.seen if method == 'POST' and path.endswith('/continue')]
        need(len(asked) == 1, asked)


def test_connection_cut(r, page):
    page.expect('ERR_', 'Failed to load')
    with replying(r, page) as (made, front):
        front.cut()
        hears(page, words(page, 'talk.broken'), 'a reply goes on')
        grows(page, len(HALF))
        front.cut()
        whole(r, page, made)


def test_gateway_away(r, page):
    """Nobody listens for a while: the page says so, keeps what is there, and catches up by itself."""
    page.expect('ERR_', 'Failed to load')
    with replying(r, page) as (made, front):
        front.down()
        hears(page, words(page, 'talk.broken'), 'the reply goes on')
        page.one('.talk-state .broken')
        page.wait("document.querySelector('.connection')?.textContent.includes(a)", 'the connection is said to be lost',
                  args=[words(page, 'connection.offline')])
        need(turns(page)[-1]['text'].startswith(HALF), 'what was there stays')
        write(page, 'The next one.')
        front.up()
        page.gone('.connection')
        page.gone('.talk-state .broken')
        whole(r, page, made)
        need(draft(page) == 'The next one.', draft(page))


def test_catches_up_when_over(r, page):
    """The reply ended while nobody listened."""
    page.expect('ERR_', 'Failed to load')
    with replying(r, page) as (made, front):
        front.down()
        r.idle(made)
        front.up()
        whole(r, page, made)


def test_never_sent(r, page):
    """Nobody listens when a message is sent: it stays in its field, and is said once when it can be."""
    page.expect('ERR_', 'Failed to load')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    front.down()
    send(page, MESSAGE)
    hears(page, words(page, 'talk.broken'), 'the connection is lost')
    front.up()
    page.wait("document.querySelector('.talk-state .error')?.textContent.includes(a)", 'what became of it', args=[words(page, 'error.offline')])
    settles(page)
    need(draft(page) == MESSAGE, draft(page))
    need(not turns(page) and not r.turns(made), 'nothing was said')
    front.reply('Yes.')
    page.press('Enter')
    page.wait("document.querySelector('#message').value === ''", 'it is accepted')
    same(r, page, made, [MESSAGE])


def test_cut_at_the_end(r, page):
    """The reply is whole, but what the daemon stored of it cannot be asked for."""
    page.expect('ERR_', 'Failed to load')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    front.reply('Yes.')
    with front.held('from_turn'):
        send(page, MESSAGE)
        page.wait(lambda: any('from_turn' in path for _, path, _ in front.seen), 'it asks for what is stored')
        front.cut()
        hears(page, words(page, 'error.offline'), 'it is said')
    same(r, page, made, [MESSAGE])
    r.say(made, 'Something behind it.', max_tokens=3)
    same(r, page, made, [MESSAGE])


def test_answer_lost(r, page):
    """The gateway took the message, its answer never came: the page finds out and shows the reply."""
    page.expect('ERR_', 'Failed to load')
    made, front = r.opened(), r.front()
    listen(page, TEXT)
    r.show(page, made, url=front.url)
    front.lose('/continue$')
    front.reply(TEXT)
    send(page, MESSAGE)
    whole(r, page, made)
    need(draft(page) == '', 'the draft has done its work')


def test_somebody_else_meanwhile(r, page):
    """The message never arrived, and somebody else said something: that is shown, and the draft is kept."""
    page.expect('ERR_', 'Failed to load')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    with front.held('/continue$'):
        rule = front.rules[0]
        send(page, MESSAGE)
        page.wait(lambda: any(path.endswith('/continue') for _, path, _ in front.seen), 'it is on its way')
        r.say(made, 'Something else.', max_tokens=3)
        front.cut()
        hears(page, words(page, 'error.conflict'), 'why')
        same(r, page, made, ['Something else.'])
        need(draft(page) == MESSAGE, draft(page))
        need(rule in front.rules, 'the request never arrived')
    # it arrives now, and is refused
    page.frames(3)
    same(r, page, made, ['Something else.'])
    need(len(r.turns(made)) == 2, r.turns(made))


def test_late(r, page):
    """A request that was given up and sent anew arrives after all: its message is not said a second time."""
    page.expect('409', 'ERR_', 'Failed to load')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    with front.held('/continue$'):
        send(page, MESSAGE)
        page.wait(lambda: any(path.endswith('/continue') for _, path, _ in front.seen), 'it is on its way')
        front.cut()
        page.wait("document.querySelector('.talk-state .error')?.textContent.includes(a)", 'what became of it', args=[words(page, 'error.offline')])
        need(draft(page) == MESSAGE, draft(page))
        # the second one is let through
        rule = front.rules.pop()
        try:
            front.reply('Yes.')
            page.press('Enter')
            page.wait("document.querySelector('#message').value === ''", 'it is accepted')
            settles(page)
        finally:
            front.rules.append(rule)
    same(r, page, made, [MESSAGE])
    r.say(made, 'Something behind it.')
    same(r, page, made, [MESSAGE])


def test_new_conversation_not_made(r, page):
    """The first message of a new conversation, which cannot be made: the draft stays."""
    page.expect('503', 'Failed to load')
    r.clear()
    front = r.front()
    listen(page)
    r.show(page, url=front.url)
    front.refuse('POST .*/conversations$', 503, 'no_daemon', times=1)
    send(page, MESSAGE)
    hears(page, words(page, 'error.no_daemon'), 'why')
    need(draft(page) == MESSAGE and not r.all(), 'nothing was made')
    page.reload()
    page.wait("document.querySelector('#message')?.value === a", 'the draft is kept', args=[MESSAGE])
    front.reply('Yes.')
    page.press('Enter') if page.focused() == ('textbox', 'Message') else send(page, MESSAGE) # pylint: disable=expression-not-assigned
    page.wait("location.hash.startsWith('#/c/')", 'it is made')
    made, = r.all()
    page.wait(lambda: len(r.turns(made)) == 2, 'it is said, and answered')
    same(r, page, made, [MESSAGE])


# ---- before it is shown ----

@contextlib.contextmanager
def being_asked_for(page, front, made, refused=False):
    """A page that is loaded anew, with the draft of a message, while the conversation is not there yet: Enter is pressed."""
    asked = f'GET .*/conversations/{made["id"]}[?]'
    listen(page)
    write(page, MESSAGE)
    with front.held(asked):
        if refused:
            front.refuse(asked, 500, 'system', times=1)
        page.reload()
        page.wait("document.documentElement.dataset.connection === 'live'", 'the page is connected')
        page.wait("document.querySelector('#message')?.value === a", 'the draft is there', args=[MESSAGE])
        page.wait(lambda: any(f'/conversations/{made["id"]}?' in path for _, path, _ in front.seen), 'the conversation is asked for')
        page.run("document.querySelector('#message').focus();")
        page.press('Enter', 'Enter')
        page.frames()
        need(draft(page) == MESSAGE and not [path for _, path, _ in front.seen if path.endswith('/continue')], 'nothing was sent yet')
        yield


def test_sent_before_shown(r, page):
    """What was sent while a conversation was asked for is said, once, as soon as it is there."""
    made, front = r.opened(), r.front()
    r.say(made, 'Before')
    r.show(page, made, url=front.url)
    front.forget()
    with being_asked_for(page, front, made):
        pass
    page.wait("document.querySelector('#message').value === ''", 'it is accepted')
    same(r, page, made, ['Before', MESSAGE])
    need(len(r.turns(made)) == 4, r.turns(made))


def test_left_before_shown(r, page):
    """Nor is it said elsewhere by who went on to another conversation meanwhile: its draft is kept."""
    made, other, front = r.opened(), r.opened(), r.front()
    r.show(page, made, url=front.url)
    front.forget()
    with being_asked_for(page, front, made):
        r.go(page, other)
    page.frames(10)
    need(draft(page) == '' and not page.js("document.querySelector('.talk-scroll .turn')"), 'nothing was said')
    r.go(page, made)
    need(draft(page) == MESSAGE and not r.turns(made) and not r.turns(other), 'it is a draft still')
    page.press('Enter') if page.focused() == ('textbox', 'Message') else send(page, MESSAGE) # pylint: disable=expression-not-assigned
    page.wait("document.querySelector('#message').value === ''", 'it is accepted')
    same(r, page, made, [MESSAGE])


def test_never_shown(r, page):
    """Nor is it lost if the conversation cannot be shown."""
    page.expect('500', 'Failed to load')
    made, front = r.opened(), r.front()
    r.show(page, made, url=front.url)
    front.forget()
    with being_asked_for(page, front, made, refused=True):
        pass
    hears(page, words(page, 'error.system'), 'why')
    need(draft(page) == MESSAGE and not r.turns(made), 'it is a draft still')
    send(page, MESSAGE)
    page.wait("document.querySelector('#message').value === ''", 'it is accepted')
    same(r, page, made, [MESSAGE])


def test_left_and_failed(r, page):
    """Nor does what fails then take the other conversation from the screen."""
    page.expect('500', 'Failed to load')
    made, other, front = r.opened(), r.opened(), r.front()
    r.say(other, 'Elsewhere')
    r.show(page, made, url=front.url)
    front.forget()
    with being_asked_for(page, front, made, refused=True):
        r.go(page, other)
    page.frames(10)
    same(r, page, other, ['Elsewhere'])
    need(page.url.endswith(f'#/c/{other["id"]}'), page.url)
    r.go(page, made)
    need(draft(page) == MESSAGE and not r.turns(made), 'it is a draft still')


def test_branch_left(r, page):
    """Nor is what a branch is for done elsewhere by who goes on to another conversation, or to none, before the branch is shown."""
    made, other, front = r.opened(), r.opened(), r.front()
    r.tell(made, 'Hello', 'Hi')
    r.say(other, 'Elsewhere', max_tokens=0) # whatever asks for a reply would get one
    before = r.turns(other)
    r.show(page, made, url=front.url)
    for number, label in ((0, 'Edit'), (1, 'Another reply')):
        for elsewhere in (f'#/c/{other["id"]}', '#/'):
            r.go(page, made)
            turn = page.one(f'#talk .turn[data-turn="{number}"]')
            with front.held(f'GET .*/conversations/(?!({made["id"]}|{other["id"]})[?])[0-9]+[?]'):
                page.role('button', label, below=turn).click()
                if label == 'Edit':
                    page.wait("document.querySelector('#message').value === 'Hello'", 'the message is there to be changed')
                    send(page, MESSAGE)
                page.wait("location.hash !== a", 'there is a branch', args=[f'#/c/{made["id"]}'])
                branch = int(page.url.rpartition('/')[2])
                page.wait(lambda branch=branch: any(f'/conversations/{branch}?' in path for _, path, _ in front.seen), 'the branch is asked for')
                page.run('location.hash = a;', elsewhere)
                if elsewhere == '#/':
                    page.one('.talk-scroll .start')
                else:
                    page.wait("document.querySelector('.talk-scroll .turn')?.innerText.includes('Elsewhere')", 'the other one is shown')
            page.frames(10)
            need(draft(page) == '', draft(page))
            need(r.turns(other) == before and len(r.turns(branch)) == number, (r.turns(other), r.turns(branch)))
            need(not [path for _, path, _ in front.seen if path.endswith('/continue')], 'nothing was sent')
            r.go(page, branch)
            need(draft(page) == (MESSAGE if label == 'Edit' else ''), draft(page))


def test_enter_twice(r, page):
    """The first message of a new conversation, with Enter twice: one is made."""
    r.clear()
    front = r.front()
    r.show(page, url=front.url)
    write(page, MESSAGE)
    with front.held('POST .*/conversations$'):
        page.press('Enter', 'Enter')
        page.frames()
    page.wait("document.querySelector('#message').value === ''", 'it is accepted')
    settles(page)
    made, = r.all()
    same(r, page, made, [MESSAGE])


# ---- several ----

def test_in_step(r, page):
    """Two tabs and the command line: messages, replies while they are written, names, memory, the end of turns, closing."""
    other = r.page()
    made = r.opened(name='in-step')
    for one in (page, other):
        listen(one, TEXT)
        r.show(one, made)
    write(other, 'Not sent yet.')
    r.begin_scripted(made, MESSAGE, TEXT)
    for one in (page, other):
        grows(one, len(HALF))
    need(r.conversation(made)['busy'], 'both see it while it is written')
    for one in (page, other):
        whole(r, one, made)
    need(draft(other) == 'Not sent yet.', 'what somebody else says takes no draft away')
    r.confab('say', '-n', 'in-step', 'Said by the command.', '--max-tokens', '3', '--temperature', '0')
    for one in (page, other):
        one.run('window.__bad.length = 0;')
        same(r, one, made, [MESSAGE, 'Said by the command.'])
    other.role('button', 'Actions for this conversation').click()
    other.role('menuitem', 'Rename…').click()
    other.role('textbox', 'Title')
    other.run("document.querySelector('dialog input').select();")
    other.insert('Named in a tab')
    other.press('Enter')
    for one in (page, other):
        one.wait("['.talk-title', '#list'].every(css => document.querySelector(css).textContent.includes('Named in a tab'))",
            'the name is everywhere')
    r.confab('evict', 'in-step')
    for one in (page, other):
        one.wait("document.querySelector('.talk-head .residency').dataset.residency === 'spilled' && "
                 "document.querySelector(`#list li[data-id=\"${a}\"] .residency`).dataset.residency === 'spilled'",
                 'its memory is on disk', args=[made['id']])
    r.confab('rewind', 'in-step', '--turns', '2')
    for one in (page, other):
        same(r, one, made, [MESSAGE])
        need(len(turns(one)) == 2, turns(one))
    r.confab('close', 'in-step')
    for one in (page, other):
        hears(one, words(one, 'talk.closed'), 'it was closed')
        one.wait("!document.querySelector(`#list li[data-id=\"${a}\"]`) && location.hash === '#/'", 'it is gone', args=[made['id']])


# A headless browser shows all tabs at once.
HIDDEN = "Object.defineProperty(document, 'hidden', {get: () => window.name === 'hidden'});"


def see(page, seen):
    page.run("window.name = a; document.dispatchEvent(new Event('visibilitychange'));", 'seen' if seen else 'hidden')


def test_many_tabs(r, page):
    """More tabs than a browser has connections to one place: those that nobody sees do without, and are true when they are looked at."""
    made = r.opened()
    tabs = [page, *(r.page() for _ in range(8))]
    for one in tabs:
        one.cdp('Page.addScriptToEvaluateOnNewDocument', source=HIDDEN)
        r.show(one, made)
        see(one, False)
    # opened behind the others: it asks for nothing that stays
    behind = r.page()
    behind.cdp('Page.addScriptToEvaluateOnNewDocument', source="window.name ||= 'hidden';" + HIDDEN)
    behind.open(r.url())
    behind.wait("document.documentElement.dataset.ready === 'true'", 'it is there')
    need(behind.js('document.documentElement.dataset.connection') is None, 'it does not watch')
    see(tabs[-1], True)
    r.confab('say', '-n', made['name'], 'Said by the command.', '--max-tokens', '3', '--temperature', '0')
    same(r, tabs[-1], made)
    for one in page, behind:
        see(tabs[-1], False)
        see(one, True)
        one.wait("document.documentElement.dataset.connection === 'live'", 'it is connected')
        r.go(one, made)
        same(r, one, made)
        see(one, False)


def test_stopped_elsewhere(r, page):
    """A reply that one tab asked for is stopped in another: both show what there is of it."""
    other = r.page()
    text = sentences(60) # is not over before the other tab shows it, on a busy machine
    with replying(r, page, text) as (made, front):
        r.show(other, made, url=front.url)
        grows(other, len(HALF))
        other.click('#stop')
        for one in (page, other):
            same(r, one, made, [MESSAGE])
            need(words(one, 'finish.cancelled') in one.text('.turn:last-child .turn-foot'), 'it is said to be stopped')
        shown = turns(page)[-1]['text']
        need(flat(text).startswith(shown) and len(shown) < len(text), shown)


# ---- the daemon and the gateway ----

def away(page):
    page.wait("document.querySelector('.connection')?.textContent.includes(a)", 'the daemon is said to be away',
              args=[words(page, 'connection.waiting')])


def lost(r, page, made):
    """The message is there, its reply is said to be lost, and comes when it is asked for again."""
    page.one('.unanswered')
    need(words(page, 'talk.unanswered') in page.text('.unanswered'), page.text('.unanswered'))
    need(r.turns(made) == [('user', MESSAGE)], r.turns(made))
    same(r, page, made, [MESSAGE])
    page.role('button', 'Answer it').click()
    page.wait("document.querySelectorAll('.turn[data-turn]').length === 2 && document.querySelector('#stop').hidden", 'it is answered')
    same(r, page, made, [MESSAGE])


def test_daemon_killed(r, page):
    page.expect('503', '502', 'ERR_', 'Failed to load')
    with replying(r, page) as (made, front):
        r.stop_daemon(kill=True)
        hears(page, words(page, 'talk.broken'), 'the connection is lost')
        away(page)
        r.start_daemon(*rig.SLOW)
        hears(page, words(page, 'connection.back'), 'it is back')
        page.gone('.connection')
        front.reply(HALF)
        lost(r, page, made)


def test_daemon_stopped(r, page):
    """In good order, in the middle of a reply: what was written may be kept or not, but the page shows what there is."""
    page.expect('503', '502', 'ERR_', 'Failed to load')
    with replying(r, page) as (made, front):
        r.stop_daemon()
        away(page)
        r.start_daemon(*rig.SLOW)
        page.gone('.connection')
        front.reply(HALF)
        kept = r.turns(made)
        if len(kept) == 1:
            lost(r, page, made)
        else:
            same(r, page, made, [MESSAGE])
            need(flat(TEXT).startswith(kept[1][1]), kept)


def test_gateway_restarted(r, page):
    """By TCP: the page finds the new one at the old place, and the reply goes on."""
    page.expect('503', '502', 'ERR_', 'Failed to load')
    made = r.opened()
    listen(page, TEXT)
    r.show(page, made)
    r.begin_scripted(made, MESSAGE, TEXT)
    grows(page, len(HALF))
    r.gateway.kill()
    hears(page, words_of(page, 'talk.broken'), 'the connection is lost')
    page.wait("document.querySelector('.connection')?.textContent.length > 20", 'the gateway is said to be away')
    r.start_gateway()
    page.gone('.connection')
    whole(r, page, made)
    # in good order
    r.begin_scripted(made, 'And now?', 'Yes. ' * 20)
    page.wait("document.querySelectorAll('.turn').length === 4", 'the next one begins')
    r.stop_gateway()
    r.start_gateway()
    page.run('window.__bad.length = 0;')
    same(r, page, made, [MESSAGE, 'And now?'])


def words_of(page, key):
    """words() of a page whose gateway is away: it has read them."""
    with open(rig.PAGE + '/js/words-en.js', encoding='utf-8') as f:
        text = f.read()
    group, name = key.split('.', 1)
    return re.search(rf"^\s+{group}: \{{.*?^\s+'?{re.escape(name)}'?: '(.*?)',$", text, re.M | re.S)[1]


def test_no_daemon_yet(r, page):
    """The page is opened before the daemon is there: it says so, and fills when it comes."""
    page.expect('503', '502', 'Failed to load')
    made = r.opened(about={'title': 'Waited for'})
    r.say(made, MESSAGE, max_tokens=3)
    r.stop_daemon()
    try:
        listen(page)
        page.open(r.url(token=rig.TOKEN))
        page.run('location.hash = a;', f'#/c/{made["id"]}')
        away(page)
    finally:
        r.start_daemon(*rig.SLOW)
    page.wait("document.documentElement.dataset.connection === 'live'", 'it is there')
    page.wait("document.querySelector('#list').textContent.includes('Waited for')", 'the list is filled')
    same(r, page, made, [MESSAGE])
    page.gone('.start .error')


# ---- errors ----

# docs/http.md, "Errors".
CODES = [
    (400, 'invalid'), (400, 'state'), (400, 'unsupported'), (400, 'context_length_exceeded'), (400, 'format'), (403, 'permission'),
    (404, 'not_found'), (409, 'busy'), (409, 'moved'), (409, 'conflict'), (409, 'exists'), (413, 'limit'), (422, 'corrupt'), (429, 'limit'),
    (499, 'cancelled'),
    (500, 'corrupt'), (500, 'system'), (502, 'protocol'), (503, 'no_daemon'), (503, 'disconnected'), (503, 'shutdown'), (503, 'unavailable'),
    (503, 'no_memory')]


def test_codes_documented(_, page):
    """The list here is that of the document, and each code has words and what to do."""
    with open(rig.source + '/docs/http.md', encoding='utf-8') as f:
        text = f.read()
    table = text.split('| status | `code` |')[-1].split('\n\n', 1)[0]
    known = {code for _, code in CODES}
    told = {word for row in table.split('\n') for word in row.split('`')[1::2]} - {'Host', 'Retry-After'}
    need(told == known, (told - known, known - told))


def test_codes_of_actions(r, page):
    """A dialog whose action fails tells it, and stays."""
    page.expect('the server responded with a status')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    page.role('button', 'Actions for this conversation').click()
    page.role('menuitem', 'Rename…').click()
    page.role('textbox', 'Title')
    for status, code in CODES:
        front.forget()
        front.refuse('PATCH ', status, code, message=f'made up for {code}', times=1)
        page.press('Enter')
        page.wait("[a, b, c].every(one => document.querySelector('dialog .error')?.textContent.includes(one))", f'{status} {code} is told',
                  args=[words(page, f'error.{code}'), words(page, f'error.{code}.do'), f'made up for {code}'])
        need(page.roles('alert'), 'it is read out')
    front.forget()
    page.press('Enter')
    page.gone('dialog')


def test_codes_of_messages(r, page):
    """A message that is refused stays in its field, beside words of why and what to do."""
    page.expect('the server responded with a status')
    front = r.front()
    listen(page)
    made = r.opened()
    r.show(page, made, url=front.url)
    for status, code in CODES:
        if code == 'not_found':
            continue
        front.forget()
        front.refuse('/continue$', status, code, message=f'made up for {code}', times=1)
        page.run('window.__said.length = 0;')
        send(page, f'A message for {status} {code}')
        page.wait(lambda: "error" in page.js("document.querySelector('.talk-state').innerHTML"), f'{status} {code} is told')
        settles(page)
        page.wait(lambda: r.conversation(made)['busy'] is False, 'the daemon is idle')
        # what may come behind it does not take it away
        page.frames(3)
        told = page.text('.talk-state .error')
        need(words(page, f'error.{code}') in told and words(page, f'error.{code}.do') in told, (status, code, told))
        need(draft(page) == f'A message for {status} {code}', draft(page))
        need(not turns(page), turns(page))
    need(not r.turns(made), 'nothing was said')
    front.forget()
    front.refuse('/continue$', 404, 'not_found', times=1)
    send(page, 'To nobody')
    hears(page, words(page, 'talk.closed'), 'it is not there')


def unaware(front):
    """Until the end of the block the page is not told what happens elsewhere."""
    held = front.held('/watch')
    return held


def test_conflict(r, page):
    """Somebody else was quicker: what is there now is shown, the message stays in its field."""
    page.expect('409', 'ERR_')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    with unaware(front):
        front.cut()
        page.wait(lambda: any('/watch' in path for _, path, _ in front.seen[-3:]), 'it asks what happens')
        r.say(made, 'Quicker.', max_tokens=3)
        send(page, MESSAGE)
        page.wait("document.querySelector('.talk-state .error')?.textContent.includes(a)", 'it is told', args=[words(page, 'error.conflict')])
        page.wait("document.querySelectorAll('.turn[data-turn]').length === 2", 'what is there is shown')
        page.frames(3)
        need(words(page, 'error.conflict.do') in page.text('.talk-state .error'), 'it is still told')
        need(draft(page) == MESSAGE, draft(page))
        page.press('Enter')
        same(r, page, made, ['Quicker.', MESSAGE])


def test_busy(r, page):
    page.expect('409', 'ERR_')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    front.change('/continue$', expect_revision=None)
    with unaware(front):
        front.cut()
        page.wait(lambda: any('/watch' in path for _, path, _ in front.seen[-3:]), 'it asks what happens')
        r.begin_endless(made, 'Slower.')
        send(page, MESSAGE)
        hears(page, words(page, 'error.busy'), 'it is busy')
        hears(page, words(page, 'error.busy.do'), 'what to do')
        # the reply that is in the way is shown, and can be stopped
        grows(page, 20)
        need(draft(page) == MESSAGE, draft(page))
        page.click('#stop')
        same(r, page, made, ['Slower.'])
    need(draft(page) == MESSAGE, draft(page))


def test_context_full(r, page):
    page.expect('400')
    made = r.opened()
    listen(page)
    r.show(page, made)
    message = 'long ' * 5000
    write(page, message)
    page.wait("document.querySelector('#cost').dataset.over === 'true'", 'it is said before it is sent')
    page.press('Enter')
    page.wait("document.querySelector('.talk-state .error')?.textContent.includes(a)", 'it is told',
              args=[words(page, 'error.context_length_exceeded')])
    need(draft(page) == message and not r.turns(made), 'nothing was said')


def test_not_found(r, page):
    """An address that leads nowhere, and a name that is taken."""
    page.expect('404')
    r.show(page)
    page.run("location.hash = '#/c/999999';")
    page.wait("document.querySelector('.start .error')?.textContent.includes(a)", 'it is told', args=[words(page, 'error.not_found')])
    page.role('button', 'Try again')
    page.wait("document.querySelector('.start').innerText.includes(a)", 'a way on', args=[words(page, 'list.new')])
    # what is written there goes nowhere else
    before = len(r.all())
    need(not page.roles('button', 'Ask aside'), 'there is nothing to ask about')
    send(page, MESSAGE)
    page.wait(lambda: len(r.browser.requests('/999999')) > 1, 'it is looked for again')
    page.frames(3)
    need(draft(page) == MESSAGE and len(r.all()) == before, 'nothing was made')


def test_exists(r, page):
    page.expect('409')
    r.opened(name='taken')
    made = r.opened(name='free')
    listen(page)
    r.show(page, made)
    page.role('button', 'Actions for this conversation').click()
    page.role('menuitem', 'Settings…').click()
    page.role('textbox', 'Name for the command line')
    page.run("const name = [...document.querySelectorAll('dialog input')].find(one => one.value === 'free'); name.focus(); name.select();")
    page.insert('taken')
    page.press('Enter')
    page.wait("document.querySelector('dialog .error')?.textContent.includes(a)", 'it is told', args=[words(page, 'error.exists')])
    need(r.conversation(made)['name'] == 'free', 'nothing was changed')


def test_limit(r, page):
    page.expect('429', '413', '503')
    r.clear()
    r.stop_daemon()
    r.start_daemon('--max-conversations', '1', *rig.SLOW)
    try:
        r.opened()
        listen(page)
        r.show(page)
        send(page, MESSAGE)
        hears(page, words(page, 'error.limit'), 'a limit was reached')
        hears(page, words(page, 'error.limit.do'), 'what to do')
        need(draft(page) == MESSAGE, draft(page))
    finally:
        r.stop_daemon()
        r.start_daemon(*rig.SLOW)


def test_wrong_token(r, page):
    """Another token than the gateway's: the page asks, again if that is wrong, and goes on where it was."""
    page.expect('401')
    made = r.opened()
    r.say(made, MESSAGE, max_tokens=3)
    page.open(r.url(token='a-token-that-nobody-has'))
    page.run('location.hash = a;', f'#/c/{made["id"]}')
    page.role('dialog')
    page.type('another-token-that-is-wrong', page.one('dialog input'))
    page.press('Enter')
    page.wait("document.querySelector('dialog .error')", 'it is refused')
    page.run("document.querySelector('dialog input').select();")
    page.insert(rig.TOKEN)
    page.press('Enter')
    page.gone('dialog')
    page.wait("document.documentElement.dataset.connection === 'live'", 'the page is connected')
    same(r, page, made, [MESSAGE])
    need(rig.TOKEN not in page.js('JSON.stringify([location.href, {...localStorage}])'), 'the token stays in the tab')


def test_token_ends(r, page):
    """A token that is good no longer, in the middle of everything: the page says so, and the message stays."""
    page.expect('401', 'ERR_')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    front.refuse('/confab/v1/', 401, 'permission')
    front.cut()
    page.role('dialog')
    page.press('Escape')
    page.gone('dialog')
    page.wait("document.querySelector('.connection')?.textContent.includes(a)", 'it is said', args=[words(page, 'connection.token')])
    send(page, MESSAGE)
    page.wait("document.querySelector('.talk-state .error')", 'the message is refused')
    need(draft(page) == MESSAGE, draft(page))
    page.role('button', 'Enter the token').click()
    front.forget() # from now on the page may find its way back by itself, and the button goes
    page.type(rig.TOKEN, page.one('dialog input'))
    page.press('Enter')
    page.gone('dialog')
    page.gone('.connection')


def test_proxy_words(r, page):
    """A proxy that answers in words of its own."""
    page.expect('502', '504', 'the server responded')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    front.answer('/continue$', 502, '<html><h1>Bad Gateway</h1><script>window.hit = 1</script></html>', kind='text/html', times=1)
    send(page, MESSAGE)
    page.wait("document.querySelector('.talk-state .error')?.textContent.includes(a)", 'it is told', args=[words(page, 'error.unavailable')])
    need(draft(page) == MESSAGE and page.js('window.hit') is None, 'nothing of it is taken')


# ---- in the background ----

def test_background(r, page):
    """A tab that nobody sees catches up: with what was said, and with a reply that was written meanwhile."""
    made = r.opened()
    listen(page, TEXT)
    r.show(page, made)
    window = page.cdp('Browser.getWindowForTarget')['windowId']
    page.cdp('Browser.setWindowBounds', windowId=window, bounds={'windowState': 'minimized'})
    page.wait('document.hidden', 'nobody sees it')
    r.begin_scripted(made, MESSAGE, TEXT)
    r.idle(made)
    r.patch(made, about={'title': 'While it was away'})
    page.cdp('Browser.setWindowBounds', windowId=window, bounds={'windowState': 'normal'})
    page.wait('!document.hidden', 'it is seen')
    whole(r, page, made)
    page.wait("document.title.startsWith('While it was away')", 'its title')


def test_offline(r, page):
    """The machine has no network for a while."""
    page.expect('ERR_', 'Failed to load')
    made = r.opened()
    listen(page)
    r.show(page, made)
    page.offline()
    send(page, MESSAGE)
    hears(page, words_of(page, 'talk.broken'), 'the connection is lost')
    need(draft(page) == MESSAGE, draft(page))
    page.offline(False)
    settles(page)
    need(draft(page) == MESSAGE and not r.turns(made), 'it was not said')
    page.press('Enter')
    page.wait("document.querySelector('#message').value === ''", 'it is accepted')
    settles(page)
    need([role for role, _ in r.turns(made)] == ['user', 'assistant'], r.turns(made))


rig.run(globals(), daemon=rig.SLOW)
