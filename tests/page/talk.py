#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""talk.py: a conversation on the page. Replies that grow and are stopped, branches, questions aside, files, settings, what a prompt costs and
what it cost, drafts, reasoning and calls. What is shown is compared with what the daemon has. The model is the bundled one, with a template
that takes tools."""
import json
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
import rig

sys.path.append(os.path.join(rig.source, 'tests/util'))
import model_file

CONTEXT = 16384
GONE = '404' # of what is closed just when the page asks for it
ENDLESS = {'gbnf': 'root ::= [a-z ]{60000}', 'max_tokens': 15000}
CREATIVE, SEED = {'temperature': 4, 'top_p': 1, 'top_k': 0, 'min_p': 0}, '12345678901234567890'
TOOLS = [{'type': 'function', 'function': {'name': 'weather', 'description': 'The weather now.', 'parameters': {
    'type': 'object', 'properties': {'city': {'type': 'string'}}}}}]
THOUGHT = '<think>\nIt may be cold there.\n</think>\n\n'
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
LONG_TEXT = 'The quick brown fox jumps over the lazy dog, and the dog sleeps on in the shade of an old tree. ' * 6

TURNS = '''[...document.querySelectorAll('#talk .turns > .turn')].map(one => ({
  turn: one.dataset.turn === undefined ? null : Number(one.dataset.turn), role: one.dataset.role,
  text: one.querySelector('.turn-body').innerText.trim(), busy: one.getAttribute('aria-busy') === 'true', finish: one.querySelector('.turn-finish')?.innerText ?? '',
  memory: [...one.querySelectorAll('.turn-memory > span:not(.memory-bar)')].map(span => span.innerText),
  siblings: one.querySelector('.siblings .figures')?.innerText ?? ''}))'''


def turns(page):
    return page.js(TURNS)


def texts(page):
    return [(turn['role'], turn['text']) for turn in turns(page)]


def turn(page, n):
    return page.one(f'#talk .turn[data-turn="{n}"]')


def act(page, n, label):
    """A button of a turn."""
    page.role('button', label, below=turn(page, n)).click()


def wait_turns(page, n):
    """Until there are n turns, all of them as the daemon has them and drawn, and nothing is written."""
    page.wait(lambda: len(turns(page)) == n and all(one['turn'] is not None and not one['busy'] for one in turns(page)) and
              page.js("document.getElementById('stop').hidden"), f'{n} turns are there')
    page.wait(rig.DRAWN, 'all is drawn')
    return turns(page)


def send(page, text):
    page.insert(text, '#message')
    page.press('Enter')


def draft(page):
    return page.js("document.getElementById('message').value")


def opened_id(page, other_than=None):
    """Of the conversation that the page shows."""
    def look():
        found = re.search(r'#/c/(\d+)', page.url)
        return int(found[1]) if found and int(found[1]) != other_than else None
    return page.wait(look, 'a conversation is open')


def last_run(r, conversation):
    return r.conversation(conversation, turns=1)['turns'][-1]['run']


def noted(page, text):
    page.wait("document.querySelector('#notes').innerText.includes(a)", f'a note says "{text}"', args=[text])


def chatted(r, *pairs, **fields):
    """A conversation in which just this was said."""
    made = r.opened(**fields)
    for message, reply in pairs:
        r.tell(made, message, reply)
    return r.conversation(made)


def menu_of_talk(page, label):
    page.role('button', 'Actions for this conversation').click()
    page.role('menuitem', label).click()


def fill_in(page, name, text):
    one = page.role('textbox' if name in ('System text', 'Seed', 'Title') else 'spinbutton', name)
    one.clear()
    page.insert(text, one)


# ---- replies ----

def test_stream(r, page):
    """A reply is seen while it is written, and is in the end what the daemon has."""
    made = r.opened()
    front = r.front()
    front.change('/continue$', **ENDLESS)
    r.show(page, made, url=front.url)
    send(page, 'Write.')
    page.one('#stop')
    lengths = []
    growing = "(document.querySelector('.turn[aria-busy=true] .turn-body')?.innerText.length ?? -1)"
    for _ in range(4):
        least = lengths[-1] if lengths else 0
        lengths.append(page.wait(f'{growing} > a && {growing}', 'the text grows', args=[least]))
    rig.need(r.conversation(made)['generating'], 'it is being written still')
    rig.need(page.js("document.getElementById('send').hidden"), 'there is Stop in place of Send')
    # one that ends by itself
    page.role('button', 'Stop').click()
    wait_turns(page, 2)
    front.forget()
    front.reply('One sentence. And one more, **strong**.')
    send(page, 'And?')
    told = wait_turns(page, 4)[-1]
    rig.need(told['text'] == 'One sentence. And one more, strong.' and told['finish'] == '', told)
    rig.need(r.turns(made)[-1] == ('assistant', 'One sentence. And one more, **strong**.'), r.turns(made))
    rig.need(page.role('button', 'Send').is_displayed() and draft(page) == '', 'the next can be said')


def test_stop(r, page):
    made = r.opened()
    front = r.front()
    front.change('/continue$', **ENDLESS)
    r.show(page, made, url=front.url)
    send(page, 'Write.')
    page.wait("(document.querySelector('.turn[aria-busy=true] .turn-body')?.innerText.length ?? 0) > 20", 'it writes')
    page.role('button', 'Stop').click()
    told = wait_turns(page, 2)[-1]
    rig.need(told['finish'] == 'It was stopped.' and told['memory'], told)
    stored = r.conversation(made, turns=1)
    rig.need(stored['turns'][-1]['finish'] == 'cancelled' and not stored['busy'], stored)
    kept = stored['turns'][-1]['text']
    rig.need(0 < len(kept) < 60000 and told['text'].split() == kept.split(), 'what was written is kept')
    rig.need(page.focused() == ('textbox', 'Message'), page.focused())
    # before its first word: while the prompt waits
    page.reload()
    rig.need(wait_turns(page, 2)[-1]['finish'] == 'It was stopped.', turns(page))


def test_typing_while_writing(r, page):
    """The next message can be typed meanwhile; it is not sent, nor lost when the reply ends."""
    made = r.opened()
    front = r.front()
    front.change('/continue$', **ENDLESS)
    r.show(page, made, url=front.url)
    send(page, 'Write.')
    page.wait("document.querySelector('.turn[aria-busy=true]') && document.getElementById('message').value === ''", 'it was accepted')
    page.insert('The next one', '#message')
    page.press('Enter')
    rig.need(draft(page) == 'The next one', draft(page))
    page.role('button', 'Stop').click()
    wait_turns(page, 2)
    rig.need(draft(page) == 'The next one' and len(r.turns(made)) == 2, draft(page))


# ---- branches ----

def test_edit(r, page):
    """Another message in the place of one is a branch; what was there stays, and both are reached from there."""
    made = chatted(r, *[(f'Message {i}', f'Reply {i}, which has\n\na few\n\nlines.') for i in range(12)], about={'title': 'Long'})
    front = r.front()
    r.show(page, made, url=front.url)
    wait_turns(page, 24)
    page.insert('half a thought', '#message')
    act(page, 10, 'Edit')
    page.wait("document.getElementById('message').value === 'Message 5'", 'the message is there to be changed')
    rig.need('it becomes a branch' in page.text('.composer-banner'), page.text('.composer-banner'))
    page.press('Escape')
    page.wait("document.getElementById('message').value === 'half a thought'", 'the draft is back')
    page.gone('.composer-banner')
    act(page, 10, 'Edit')
    page.wait("document.getElementById('message').value === 'Message 5'", 'the message is there to be changed')
    page.run("document.getElementById('message').select();")
    front.reply('A new reply')
    page.insert('Message five')
    page.press('Enter')
    fork = opened_id(page, made['id'])
    wait_turns(page, 12)
    rig.need(r.turns(made)[10] == ('user', 'Message 5') and r.conversation(made)['revision'] == made['revision'], 'the old one is as it was')
    rig.need(r.turns(fork) == r.turns(made)[:10] + [('user', 'Message five'), ('assistant', 'A new reply')], r.turns(fork))
    rig.need([one['siblings'] for one in turns(page)] == [''] * 10 + ['2 of 2', ''], turns(page))
    # to the other one, and back: the turn stays in sight
    for label, of, number, text in (('Branch before', '1 of 2', made['id'], 'Message 5'), ('Next branch', '2 of 2', fork, 'Message five')):
        act(page, 10, label)
        page.wait("location.hash.startsWith(`#/c/${a}`) && document.querySelector('.turn[data-turn=\"10\"] .turn-body')?.innerText === b",
                  f'{text} is shown', args=[number, text])
        page.wait("document.querySelector('.turn[data-turn=\"10\"] .siblings .figures')?.innerText === a", of, args=[of])
        box = page.wait('''(() => {
          const view = document.querySelector('.talk-scroll').getBoundingClientRect();
          const box = document.querySelector('.turn[data-turn="10"]').getBoundingClientRect();
          return box.top >= view.top - 2 && box.bottom <= view.bottom + 2; })()''', 'the turn is in sight')
        rig.need(box, 'in sight')
    ends = [button.get_attribute('disabled') is not None for label in ('Branch before', 'Next branch')
            for button in page.roles('button', label, below=turn(page, 10))]
    rig.need(ends == [False, True], ends)
    # the draft of the old one is there still
    r.go(page, made)
    page.wait("document.getElementById('message').value === 'half a thought'", 'its draft is there')


def test_edit_first(r, page):
    """The first message as well: what comes before it is nothing, or the system's text."""
    front = r.front()
    r.show(page, url=front.url)
    for fields, n in (({}, 0), ({'system': 'You are brief.'}, 1)):
        made = chatted(r, ('Hello', 'Hi'), **fields)
        r.go(page, made)
        wait_turns(page, n + 2)
        act(page, n, 'Edit')
        page.run("document.getElementById('message').select();")
        front.reply('Good day')
        page.insert('Hello again')
        page.press('Enter')
        fork = opened_id(page, made['id'])
        told = wait_turns(page, n + 2)
        rig.need(r.turns(fork)[n:] == [('user', 'Hello again'), ('assistant', 'Good day')], r.turns(fork))
        rig.need(told[n]['siblings'] == '2 of 2', told)
        rig.need(r.turns(made)[n:] == [('user', 'Hello'), ('assistant', 'Hi')], r.turns(made))


def test_again(r, page):
    """Another reply is a sibling of the first, and a third one of both."""
    made = chatted(r, ('Hello', 'First reply'))
    front = r.front()
    r.show(page, made, url=front.url)
    wait_turns(page, 2)
    ids = [made['id']]
    for number, text in ((2, 'Second reply'), (3, 'Third reply')):
        front.reply(text)
        act(page, 1, 'Another reply')
        ids.append(opened_id(page, ids[-1]))
        page.wait(lambda text=text: texts(page) == [('user', 'Hello'), ('assistant', text)], f'{text} is shown')
        told = wait_turns(page, 2)
        rig.need(told[1]['siblings'] == f'{number} of {number}' and told[0]['siblings'] == '', told)
        rig.need(r.turns(ids[-1]) == [('user', 'Hello'), ('assistant', text)], r.turns(ids[-1]))
    rig.need(r.turns(made) == [('user', 'Hello'), ('assistant', 'First reply')] and len({*ids}) == 3, ids)
    for text, of in (('Second reply', '2 of 3'), ('First reply', '1 of 3')):
        act(page, 1, 'Branch before')
        page.wait(lambda text=text, of=of: (turns(page)[1:] or [{}])[0].get('text') == text and turns(page)[1]['siblings'] == of, f'{text}, {of}')
    # one that is closed elsewhere is counted no more
    page.expect(GONE)
    r.delete(ids[2])
    page.wait(lambda: turns(page)[1]['siblings'] == '1 of 2', 'one less')
    r.delete(ids[1])
    page.wait(lambda: turns(page)[1]['siblings'] == '', 'it is alone')


def test_branch(r, page):
    """From any turn, of whoever."""
    made = chatted(r, ('One', 'Two'), ('Three', 'Four'))
    r.show(page)
    for n in range(4):
        r.go(page, made)
        wait_turns(page, 4)
        act(page, n, 'Branch here')
        child = opened_id(page, made['id'])
        wait_turns(page, n + 1)
        noted(page, 'This is a branch now')
        rig.need(r.turns(child) == r.turns(made)[:n + 1] and r.conversation(child)['parent'] == made['id'], (n, r.turns(child)))
        rig.need(page.focused() == ('textbox', 'Message'), page.focused())
    rig.need(r.conversation(made)['revision'] == made['revision'], 'the first one is as it was')


def test_aside(r, page):
    """A question aside leaves nothing."""
    r.clear()
    made = chatted(r, ('My name is Ann.', 'Hello Ann.'), about={'title': 'Of names'})
    before = r.turns(made)
    front = r.front()
    r.show(page, made, url=front.url)
    wait_turns(page, 2)
    front.reply('Ann, I think.', 'Surely.')
    page.insert('What is my name?', '#message')
    page.role('button', 'Ask aside').click()
    shown = "[...document.querySelectorAll('dialog .turn')].map(one => one.querySelector('.turn-body').innerText.trim())"
    page.wait(f"{shown}.join() === 'What is my name?,Ann, I think.'", 'it is answered')
    page.wait("document.querySelector('dialog .turn-memory')", 'with its memory line')
    rig.need(len(r.all()) == 2, 'it is a fork')
    page.wait(lambda: not page.roles('button', 'Ask')[0].get_attribute('disabled'), 'more can be asked')
    page.insert('Surely?', page.role('textbox', 'Question'))
    page.press('Enter')
    page.wait(f"{shown}.length === 4 && {shown}[3] === 'Surely.'", 'that is answered as well')
    rig.need(page.texts('#list .row-title') == ['Of names'], 'it is in no list')
    page.role('button', 'Close').click()
    page.gone('dialog')
    page.wait(lambda: len(r.all()) == 1, 'nothing is left at the daemon')
    rig.need(r.turns(made) == before and r.conversation(made)['revision'] == made['revision'], r.turns(made))
    rig.need(texts(page) == [('user', 'My name is Ann.'), ('assistant', 'Hello Ann.')], texts(page))


def test_aside_ended(r, page):
    """Closed while its reply is written, or before there is a fork: nothing is left either."""
    page.expect(GONE)
    r.clear()
    made = chatted(r, ('Hello', 'Hi'))
    front = r.front()
    front.change('/continue$', **ENDLESS)
    r.show(page, made, url=front.url)
    wait_turns(page, 2)
    page.insert('Write.', '#message')
    page.role('button', 'Ask aside').click()
    page.wait("(document.querySelector('dialog .turn[aria-busy=true] .turn-body')?.innerText.length ?? 0) > 20", 'it writes')
    page.press('Escape')
    page.gone('dialog')
    page.wait(lambda: [one['id'] for one in r.all()] == [made['id']], 'nothing is left')
    with front.held('/fork$'):
        page.role('button', 'Ask aside').click()
        page.one('dialog .turn')
        page.press('Escape')
        page.gone('dialog')
    page.wait(lambda: len([one for one in front.seen if one[0] == 'DELETE']) == 2, 'the fork is closed')
    page.wait(lambda: [one['id'] for one in r.all()] == [made['id']], 'nothing is left')
    rig.need(len(r.turns(made)) == 2, r.turns(made))


# ---- files ----

def tokens(r, text):
    return len(r.ok(r.post('/confab/v1/tokenize', {'text': text}))['tokens'])


def files(page):
    return page.js("[...document.querySelectorAll('.files li')].map(one => [...one.querySelectorAll('span')].map(span => span.innerText))")


def test_files(r, page):
    """Chosen, dropped and pasted; with their tokens; folded in what was sent, and whole at the daemon."""
    made = r.opened()
    front = r.front()
    front.reply('I have read it.')
    r.show(page, made, url=front.url)
    path = f'{r.folder}/Größe & <b>.txt'
    chosen = 'First line\nSecond line: größer\n' * 20
    with open(path, 'w', encoding='utf-8') as f:
        f.write(chosen)
    program = 'int main(void)\n{\n\treturn 0;\n}\n</file>\n'
    page.put_files('.composer input[type=file]', path)
    page.drop('form.composer', [['main.c', 'text/x-csrc', program]])
    page.drop('#message', [['notes.md', 'text/markdown', '# Notes\n']], 'paste')
    wanted = sorted([name, f'{tokens(r, text)} tokens'] for name, text in (
        ('Größe & <b>.txt', chosen), ('main.c', program), ('notes.md', '# Notes\n')))
    page.wait(lambda: sorted(files(page)) == wanted, f'the files are there: {wanted}')
    # one is taken back
    page.role('button', 'Remove notes.md').click()
    page.wait(lambda: len(files(page)) == 2, 'one is taken back')
    order = [name for name, _ in files(page)]
    send(page, 'Read these.')
    told = wait_turns(page, 2)[0]
    page.gone('.files')
    rig.need('Read these.' in told['text'] and 'First line' not in told['text'] and 'return 0' not in told['text'], told)
    rig.need(page.texts('.turn details.file summary span:first-child') == order, page.texts('.turn details.file summary'))
    inside = {'Größe & <b>.txt': chosen.rstrip('\n'), 'main.c': program.rstrip('\n').replace('\n</file>', '\n </file>')}
    stored = r.turns(made)[0][1]
    rig.need(stored == 'Read these.\n\n' + '\n\n'.join(f'<file name="{name}">\n{inside[name]}\n</file>' for name in order), stored)
    page.one('.turn details.file summary').click()
    rig.need(page.text('.turn details.file[open] .plain').split() == inside[order[0]].split(), 'its text is shown')
    # folded again by a reload
    page.reload()
    rig.need('First line' not in wait_turns(page, 2)[0]['text'] and len(page.all('.turn details.file')) == 2, turns(page))


def test_files_refused(r, page):
    made = r.opened()
    r.show(page, made)
    path = f'{r.folder}/picture.txt'
    with open(path, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n\xff\xfe')
    page.put_files('.composer input[type=file]', path)
    noted(page, 'picture.txt is no text in UTF-8. Only text files can be attached.')
    page.drop('form.composer', [['zero.txt', 'text/plain', 'a\0b']])
    noted(page, 'zero.txt is no text in UTF-8.')
    page.drop('form.composer', [['large.log', 'text/plain', 'x' * ((1 << 20) + 1)]])
    noted(page, 'large.log is larger than 1 MiB. Attach a part of it.')
    rig.need(files(page) == [], files(page))
    # text that is dropped is no file, and a file alone can be sent
    page.drop('form.composer', [['a.txt', 'text/plain', 'just this']])
    page.wait(lambda: len(files(page)) == 1, 'it is there')
    page.click('#message')
    page.press('Enter')
    wait_turns(page, 2)
    rig.need(r.turns(made)[0] == ('user', '<file name="a.txt">\njust this\n</file>'), r.turns(made))
    # which then gives a new conversation its title
    page.role('button', 'New conversation').click()
    page.wait("location.hash === '#/'", 'a new one')
    page.drop('form.composer', [['b.txt', 'text/plain', 'just that']])
    page.wait(lambda: len(files(page)) == 1, 'it is there')
    page.click('#message')
    page.press('Enter')
    rig.need(r.conversation(opened_id(page, made['id']))['about']['title'] == 'b.txt', r.all())
    wait_turns(page, 2)


# ---- settings ----

def test_sampling(r, page):
    """What is set for a conversation is what its replies are made with."""
    bias = [{'token': 5, 'bias': 0.5}] # this has no field in the dialog
    made, other = r.opened(sampling={'logit_bias': bias}), r.opened(sampling={'logit_bias': bias})
    wanted = r.say(other, 'Tell me a story.', sampling={**CREATIVE, 'seed': SEED}, max_tokens=24)['text']
    greedy = r.say(r.opened(), 'Tell me a story.', max_tokens=24)['text']
    rig.need(wanted != greedy, 'there is nothing to see otherwise')
    front = r.front()
    front.change('/continue$', max_tokens=24)
    r.show(page, made, url=front.url)
    menu_of_talk(page, 'Settings…')
    for name, value in (('Temperature', '4'), ('Top p', '1'), ('Top k', '0'), ('Min p', '0'), ('Seed', SEED)):
        fill_in(page, name, value)
    page.role('button', 'Save').click()
    page.gone('dialog')
    rig.need(r.conversation(made)['sampling'] == {**CREATIVE, 'seed': SEED, 'logit_bias': bias}, r.conversation(made))
    send(page, 'Tell me a story.')
    wait_turns(page, 2)
    rig.need(r.turns(made)[1][1] == wanted, (r.turns(made), wanted, greedy))
    # what is emptied is the daemon's default again
    menu_of_talk(page, 'Settings…')
    rig.need(page.role('spinbutton', 'Temperature').get_attribute('value') == '4', 'it is shown')
    page.role('spinbutton', 'Temperature').clear()
    page.role('textbox', 'Seed').clear()
    fill_in(page, 'Top p', '0.5')
    page.role('button', 'Save').click()
    page.gone('dialog')
    told = r.conversation(made)['sampling']
    wanted = {**CREATIVE, 'top_p': 0.5, 'logit_bias': bias}
    del wanted['temperature']
    rig.need(told == wanted, told)


def test_new_settings(r, page):
    """A new conversation may be given a text of the system, and sampling."""
    front = r.front()
    front.reply('Aye.')
    r.show(page, url=front.url)
    page.click('.new-fields summary')
    fill_in(page, 'System text', '  You are a pirate.\n')
    fill_in(page, 'Temperature', '0.25')
    send(page, 'Who are you?')
    made = opened_id(page)
    wait_turns(page, 3)
    rig.need(r.turns(made) == [('system', 'You are a pirate.'), ('user', 'Who are you?'), ('assistant', 'Aye.')], r.turns(made))
    rig.need(r.conversation(made)['sampling'] == {'temperature': 0.25}, r.conversation(made))


def test_other_system(r, page):
    """Another text of the system makes another conversation that says the same, and is set as the first is."""
    calls = [{'name': 'weather', 'id': 'c1', 'arguments': {'city': 'Oslo'}}]
    made = r.opened(system='You are brief.', sampling={'temperature': 0.5}, overflow='shift', tools=TOOLS,
                    about={'title': 'Both', 'tags': ['kept'], 'metadata': {'of': 'somebody'}})
    r.say(made, 'Is it cold?', max_tokens=0)
    r.say(made, None, given={'text': 'I look.', 'reasoning': 'Hm.', 'calls': calls}, max_tokens=0)
    r.say(made, None, results=[{'call_id': 'c1', 'name': 'weather', 'content': '3 degrees'}], max_tokens=0)
    r.say(made, None, given={'text': 'It is.'}, max_tokens=0)
    before = r.conversation(made, turns=1)
    r.show(page, made)
    wait_turns(page, 5)
    menu_of_talk(page, 'Settings…')
    rig.need(page.role('textbox', 'System text').get_attribute('value') == 'You are brief.', 'it is shown')
    fill_in(page, 'System text', 'You are a poet.')
    page.role('button', 'Save').click()
    page.gone('dialog')
    other = opened_id(page, made['id'])
    wait_turns(page, 5)
    noted(page, 'A conversation with the other system text was made.')
    told = r.conversation(other, turns=1)
    rig.need(r.turns(other) == [('system', 'You are a poet.')] + r.turns(made)[1:], r.turns(other))
    rig.need(r.conversation(made, turns=1)['revision'] == before['revision'] and r.turns(made)[0][1] == 'You are brief.', 'the first is as it was')
    for name in ('sampling', 'overflow', 'tools', 'about'):
        rig.need(told.get(name) == before[name], (name, told.get(name), before[name]))
    # what cannot be said there is not left by halves
    n = len(r.all())
    menu_of_talk(page, 'Settings…')
    fill_in(page, 'System text', 'word ' * CONTEXT)
    page.expect('400')
    page.role('button', 'Save').click()
    page.wait("document.querySelector('dialog [role=alert]')?.innerText.includes('The context is full.')", 'it is told')
    rig.need(len(r.all()) == n, r.all())


# ---- costs ----

COST = re.compile(r'^([\d,]+) new tokens? · (?:([\d,]+) (remembered in RAM|remembered, partly on disk|remembered on disk|to be computed again)'
                  '|nothing to remember)$')


def cost(page, where=None):
    """(new tokens, remembered ones, where) as soon as it is told."""
    def look():
        found = COST.match(page.js("document.getElementById('cost').innerText"))
        return found if found and found[3] == where else None
    found = page.wait(look, f'the cost is told, {where}')
    return int(found[1].replace(',', '')), int((found[2] or '0').replace(',', ''))


def near(a, b, words):
    rig.need(abs(a - b) <= 8, (words, a, b))


def check_cost(r, page, conversation, where, **figures):
    """What is told before it is sent, against what the daemon says of its run. figures: which of them is what is remembered."""
    page.insert(LONG_TEXT, '#message')
    added, remembered = cost(page, where)
    before = r.conversation(conversation)
    rig.need(before['residency'] == {'remembered in RAM': 'resident', 'remembered on disk': 'spilled', 'to be computed again': 'cold'}[where], before)
    n = before['n_turns']
    page.press('Enter')
    wait_turns(page, n + 2)
    run = last_run(r, conversation)
    near(remembered, run[figures['was']] if where != 'to be computed again' else run['n_computed'] - added, run)
    near(added, run['n_computed'] - (remembered if where == 'to be computed again' else 0), run)
    rig.need(added + remembered > 100, (added, remembered))
    page.wait("document.getElementById('cost').innerText === ''", 'nothing is to be sent')


def test_cost(r, page):
    """What the next prompt will cost, wherever its memory is, is what the daemon then computes."""
    front = r.front()
    front.change('/continue$', max_tokens=12)
    r.show(page, url=front.url)
    page.insert(LONG_TEXT, '#message')
    added, remembered = cost(page)
    rig.need(remembered == 0, remembered)
    page.press('Enter')
    made = opened_id(page)
    wait_turns(page, 2)
    near(added, last_run(r, made)['n_computed'], 'a new one')
    check_cost(r, page, made, 'remembered in RAM', was='n_ram')
    r.verb(made, 'evict')
    check_cost(r, page, made, 'remembered on disk', was='n_disk')
    # it changes as it is typed, and with what others do
    page.insert('One two three', '#message')
    few = cost(page, 'remembered in RAM')[0]
    page.insert(LONG_TEXT)
    page.wait(lambda: cost(page, 'remembered in RAM')[0] > few + 50, 'it costs more')
    r.verb(made, 'evict')
    cost(page, 'remembered on disk')
    # an edit costs what is behind its place
    r.go(page, made)
    act(page, 2, 'Edit')
    start = r.conversation(made, turns=1)['turns'][2]['start']
    page.wait(lambda: cost(page, 'remembered on disk')[1] == start, 'what is before it is remembered')


def test_cost_cold(r, page):
    """Memory of other kinds of numbers is of no use: all is computed again, which is told before."""
    made = chatted(r, (LONG_TEXT, LONG_TEXT))
    r.stop_daemon()
    r.start_daemon('--kv-type', 'f32', model=r.model)
    page.expect('503')
    try:
        front = r.front()
        front.change('/continue$', max_tokens=12)
        r.show(page, made, url=front.url)
        wait_turns(page, 2)
        check_cost(r, page, made, 'to be computed again', was='n_ram')
        page.close()
    finally:
        r.stop_daemon()
        r.start_daemon(model=r.model)


def test_overflow(r, page):
    """What does not fit is told before and refused after; what was typed stays."""
    made = chatted(r, ('Hello', 'Hi'))
    r.show(page, made)
    wait_turns(page, 2)
    text = 'word ' * CONTEXT
    page.insert(text, '#message')
    page.wait("document.getElementById('cost').innerText.includes('more than the context of 16,384')", 'it is told before')
    page.expect('400')
    page.press('Enter')
    page.wait("document.querySelector('#talk [role=alert]')?.innerText.includes(a)", 'it is refused',
              args=['The context is full. Branch from an earlier turn, or let old turns leave the memory (Settings).'])
    rig.need(draft(page) == text and len(texts(page)) == 2 and r.conversation(made)['n_turns'] == 2, 'nothing was said')
    rig.need(page.role('button', 'Send').is_displayed(), 'it can be said again')
    page.reload()
    wait_turns(page, 2)
    page.wait("document.getElementById('message').value.length === a", 'what was typed is there still', args=[len(text)])
    # something shorter is taken
    page.run("document.getElementById('message').select();")
    page.insert('Short.')
    page.press('Enter')
    wait_turns(page, 4)
    rig.need(not page.all('#talk [role=alert]'), 'the error is gone')


def memory(run):
    """The line below a reply, of the daemon's figures."""
    told = [f'{run[name]:,} {words}' for name, words in (('n_ram', 'from RAM'), ('n_disk', 'from disk'), ('n_shared', 'from a relative'),
                                                         ('n_computed', 'computed')) if run[name]]
    n = run['n_generated']
    return told, f'{n} token{"" if n == 1 else "s"}, '


def check_memory(r, page, conversation, n, wanted):
    """The line below the last of n replies says what the daemon does, and has what is wanted."""
    told = wait_turns(page, n)[-1]['memory']
    run = last_run(r, conversation)
    sources, generated = memory(run)
    rig.need(told[:-2] == sources and re.match(r'first token after [\d.,]+ (µs|ms|s)$', told[-2]), (told, run))
    rig.need(told[-1].startswith(generated) and told[-1].endswith(' tokens/s'), (told, run))
    rig.need([words for words in ('RAM', 'disk', 'relative', 'computed') if any(words in one for one in told)] == wanted, (told, wanted))


def test_memory_line(r, page):
    front = r.front()
    front.change('/continue$', max_tokens=12)
    text = 'Of memory. ' + LONG_TEXT
    r.show(page, url=front.url)
    send(page, text)
    made = opened_id(page)
    check_memory(r, page, made, 2, ['computed'])
    send(page, 'And then?')
    check_memory(r, page, made, 4, ['RAM', 'computed'])
    r.verb(made, 'evict')
    send(page, 'And after it?')
    check_memory(r, page, made, 6, ['disk', 'computed'])
    # another one that begins in the same way
    page.role('button', 'New conversation').click()
    page.wait("location.hash === '#/'", 'a new one')
    send(page, text + ' Is it so?')
    other = opened_id(page, made)
    check_memory(r, page, other, 2, ['relative', 'computed'])
    # the same after a reload: the lines are the daemon's
    before = [one['memory'] for one in turns(page)]
    page.reload()
    after = [one['memory'] for one in wait_turns(page, 2)]
    rig.need([one[:-1] for one in after] == [one[:-1] for one in before] and before[1], (before, after))


# ---- the composer ----

def test_drafts(r, page):
    """What was typed is there after another conversation was looked at, and after a reload; each has its own."""
    made, other = r.opened(), r.opened()
    r.show(page, made)
    page.insert('Of the first,\nunsent', '#message')
    r.go(page, other)
    rig.need(draft(page) == '', draft(page))
    page.insert('Of the second', '#message')
    page.role('button', 'New conversation').click()
    page.wait("location.hash === '#/' && document.getElementById('message').value === ''", 'a new one')
    page.insert('Of none yet', '#message')
    r.go(page, made)
    rig.need(draft(page) == 'Of the first,\nunsent', draft(page))
    page.reload()
    page.wait("document.getElementById('message')?.value === 'Of the first,\\nunsent'", 'the first is there')
    r.go(page, other)
    rig.need(draft(page) == 'Of the second', draft(page))
    page.role('button', 'New conversation').click()
    page.wait("document.getElementById('message').value === 'Of none yet'", 'that of the new one is there')
    page.reload()
    page.wait("document.getElementById('message')?.value === 'Of none yet'", 'that of the new one is there still')
    # what was sent is a draft no more
    send(page, '!')
    new = opened_id(page)
    wait_turns(page, 2)
    rig.need(r.turns(new)[0] == ('user', 'Of none yet!') and draft(page) == '', r.turns(new))
    page.reload()
    wait_turns(page, 2)
    rig.need(draft(page) == '', draft(page))
    page.role('button', 'New conversation').click()
    page.wait("location.hash === '#/'", 'a new one')
    rig.need(draft(page) == '', draft(page))


def test_enter(r, page):
    """Enter sends, with Shift it is a new line; nothing is not sent."""
    made = r.opened()
    front = r.front()
    front.reply('Fine.')
    r.show(page, made, url=front.url)
    page.click('#message')
    page.press('Enter')
    page.type('  ')
    page.press('Enter')
    page.run("document.getElementById('message').select();")
    page.type('One')
    low = page.js("document.getElementById('message').getBoundingClientRect().height")
    page.press('Shift+Enter', 'Shift+Enter')
    page.type('two')
    rig.need(draft(page) == 'One\n\ntwo', repr(draft(page)))
    rig.need(page.js("document.getElementById('message').getBoundingClientRect().height") > low + 20, 'it is as high as its text')
    rig.need(r.conversation(made)['n_turns'] == 0 and not [one for one in front.seen if 'continue' in one[1]], 'nothing was sent yet')
    page.press('Enter')
    wait_turns(page, 2)
    rig.need(r.turns(made) == [('user', 'One\n\ntwo'), ('assistant', 'Fine.')], r.turns(made))
    # while an input method composes, Enter is its own
    page.run('''const text = document.getElementById('message'); text.value = 'ni'; text.focus();
                text.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true, cancelable: true}));''')
    page.frames()
    rig.need(r.conversation(made)['n_turns'] == 2 and len(texts(page)) == 2, 'nothing was sent')


def test_title(r, page):
    """Made of the first message: its words on one line, cut between words, and never within a character."""
    front = r.front()
    r.show(page, url=front.url)
    words = 'A message that is much longer than a title may be, with many words that follow each other'
    for text, title in (('Short\n  one', 'Short one'), (words, 'A message that is much longer than a title may be, with…'),
                        ('x' + '😀' * 70, 'x' + '😀' * 59 + '…'), ('y' * 59 + '😀' + 'z' * 20, 'y' * 59 + '😀…'),
                        ('A\x1b[31m red\x07 one', 'A [31m red one')):
        front.reply('Yes.')
        page.role('button', 'New conversation').click()
        page.wait("location.hash === '#/'", 'a new one')
        send(page, text)
        made = opened_id(page)
        wait_turns(page, 2)
        told = r.conversation(made)['about']['title']
        rig.need(told == title, told)
        page.wait("document.querySelector('h1').innerText === a && document.title === `${a} – confab`", 'the title', args=[told])


# ---- reasoning, calls ----

def test_given_call(r, page):
    """Reasoning is folded, a call has its arguments; answered on the page, the conversation goes on, and the result is folded."""
    made = r.opened(tools=TOOLS)
    r.say(made, 'Do I need a coat?', max_tokens=0)
    r.say(made, None, given={'text': 'I look.', 'reasoning': 'It may be **cold** there.',
                             'calls': [{'name': 'weather', 'id': 'c1', 'arguments': {'city': 'Oslo', 'days': [1, 2]}}]}, max_tokens=0)
    front = r.front()
    r.show(page, made, url=front.url)
    told = wait_turns(page, 2)[1]
    rig.need('I look.' in told['text'] and 'cold' not in told['text'], told)
    rig.need(page.text('.reasoning summary') == 'Reasoning' and not page.one('.reasoning').get_attribute('open'), page.text('.reasoning summary'))
    page.click('.reasoning summary')
    page.wait("document.querySelector('.reasoning-text').innerText.trim() === 'It may be cold there.'", 'it is shown')
    call = page.role('group', 'Call of weather')
    rig.need(''.join(call.text.split()).startswith('Callofweather') and '"city":"Oslo","days":[1,2]' in ''.join(call.text.split()), call.text)
    front.reply('A coat, yes.')
    page.role('button', 'Answer…').click()
    page.insert('{"degrees": 3}', page.role('textbox', 'Answer of weather'))
    page.role('button', 'Send', below=page.one('dialog')).click()
    page.gone('dialog')
    told = wait_turns(page, 4)
    rig.need([one['role'] for one in told] == ['user', 'assistant', 'tool', 'assistant'] and told[3]['text'] == 'A coat, yes.', told)
    stored = r.conversation(made, turns=1)['turns']
    rig.need(stored[2]['results'] == [{'call_id': 'c1', 'name': 'weather', 'content': '{"degrees": 3}'}], stored[2])
    rig.need(stored[3]['text'] == 'A coat, yes.', stored[3])
    rig.need('degrees' not in told[2]['text'] and 'Result of weather' in told[2]['text'], told[2])
    page.click('.result summary')
    page.wait("document.querySelector('.result').innerText.replace(/\\s/g, '').includes('{\"degrees\":3}')", 'the result is shown')
    # one answer is enough, also after a reload
    rig.need(not page.roles('button', 'Answer…'), 'it is answered')
    page.reload()
    rig.need([one['role'] for one in wait_turns(page, 4)] == ['user', 'assistant', 'tool', 'assistant'], turns(page))
    rig.need(not page.roles('button', 'Answer…'), 'it is answered still')


def test_two_calls(r, page):
    """A reply with several calls is answered as a whole: with the first result alone the model would go on."""
    made = r.opened(tools=TOOLS)
    r.say(made, 'Do I need a coat?', max_tokens=0)
    calls = [{'name': 'weather', 'id': f'c{i}', 'arguments': {'city': city}} for i, city in enumerate(('Oslo', 'Rome'))]
    r.say(made, None, given={'calls': calls}, max_tokens=0)
    front = r.front()
    front.reply('In Oslo.')
    r.show(page, made, url=front.url)
    wait_turns(page, 2)
    page.role('button', 'Answer…').click()
    for field, text in zip(page.roles('textbox', 'Answer of weather'), ('3 degrees', '30 degrees')):
        page.insert(text, field)
    page.role('button', 'Send', below=page.one('dialog')).click()
    page.gone('dialog')
    rig.need(wait_turns(page, 4)[3]['text'] == 'In Oslo.', turns(page))
    told = r.conversation(made, turns=1)['turns'][2]['results']
    rig.need([(one['call_id'], one['content']) for one in told] == [('c0', '3 degrees'), ('c1', '30 degrees')], told)


def test_streamed_call(r, page):
    """What the model writes itself: the reasoning with its time, and the call, which may be answered at once."""
    made = r.opened(tools=TOOLS)
    front = r.front()
    front.reply(THOUGHT + CALL, 'A coat, yes.')
    r.show(page, made, url=front.url)
    send(page, 'Do I need a coat?')
    told = wait_turns(page, 2)[1]
    rig.need('cold' not in told['text'] and 'tool_call' not in told['text'] and 'think' not in told['text'], told)
    rig.need(re.fullmatch(r'Thought for (about )?[\d.,]+ (µs|ms|s)', page.text('.reasoning summary')), page.text('.reasoning summary'))
    page.click('.reasoning summary')
    page.wait("document.querySelector('.reasoning-text').innerText.trim() === 'It may be cold there.'", 'it is shown')
    page.role('button', 'Answer…').click()
    page.insert('3 degrees', page.role('textbox', 'Answer of weather'))
    page.role('button', 'Send', below=page.one('dialog')).click()
    page.gone('dialog')
    rig.need(wait_turns(page, 4)[3]['text'] == 'A coat, yes.', turns(page))
    rig.need([role for role, _ in r.turns(made)] == ['user', 'assistant', 'tool', 'assistant'], r.turns(made))
    page.reload()
    wait_turns(page, 4)
    rig.need(re.fullmatch(r'Thought for about [\d.,]+ (µs|ms|s)', page.text('.reasoning summary')), page.text('.reasoning summary'))


def test_call_left(r, page):
    """A call that was passed over by another message is not to be answered any more, as little as one of an earlier reply."""
    made = r.opened(tools=TOOLS)
    r.say(made, 'Do I need a coat?', max_tokens=0)
    r.say(made, None, given={'calls': [{'name': 'weather', 'id': 'c1', 'arguments': {'city': 'Oslo'}}]}, max_tokens=0)
    front = r.front()
    front.reply('As you like.')
    r.show(page, made, url=front.url)
    wait_turns(page, 2)
    page.role('button', 'Answer…')
    send(page, 'Never mind.')
    wait_turns(page, 4)
    rig.need(not page.roles('button', 'Answer…'), 'nothing waits for it')


def test_copy(r, page):
    """What is copied is what was written, marks and all."""
    reply = '# Title\n\nSome *words* & `code <b>`:\n\n```c\nint a;\n```'
    made = chatted(r, ('Hello\n\n  there', reply))
    r.show(page, made)
    wait_turns(page, 2)
    page.grant('clipboardReadWrite', 'clipboardSanitizedWrite')
    for n, text in ((1, reply), (0, 'Hello\n\n  there')):
        act(page, n, 'More')
        page.role('menuitem', 'Copy the text').click()
        page.wait('await navigator.clipboard.readText() === a', 'it is copied', args=[text])
    noted(page, 'Copied.')


# ---- another language ----

def test_german(r, page):
    made = chatted(r, ('Hallo', 'Guten Tag'))
    r.verb(made, 'evict')
    page.language('de-DE')
    front = r.front()
    front.reply('Gut.')
    r.show(page, made, url=front.url)
    wait_turns(page, 2)
    rig.need(page.js('document.documentElement.lang') == 'de', 'the language of the document')
    page.insert('Wie geht es?', '#message')
    page.wait("/^\\d+ neue Token · \\d+ auf der Platte gemerkt$/.test(document.getElementById('cost').innerText)", 'what it will cost')
    page.role('button', 'Senden').click()
    told = wait_turns(page, 4)[-1]
    run = last_run(r, made)
    rig.need(told['memory'][0] == f'{run["n_disk"]} von der Platte', told)
    rig.need('16.384' in page.text('.talk-figures'), page.text('.talk-figures'))
    page.role('button', 'Neues Gespräch')


def main():
    with tempfile.TemporaryDirectory(prefix='confab-page-') as folder:
        path = os.path.join(folder, 'model.gguf')
        with open(os.path.join(rig.source, 'models/confab-small.q8_0.gguf'), 'rb') as f:
            model = model_file.with_template(f.read(), model_file.TOOLS_TEMPLATE)
        with open(path, 'wb') as f:
            f.write(model_file.with_context(model, CONTEXT))
        rig.Rig.model = path
        rig.run_tests(globals(), (), (), path, True)


rig.begin(main)
