#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tree.py: the tree of a conversation's branches: what it draws, what follows changes elsewhere, keys, large families; and two branches side by side."""
import sys

sys.dont_write_bytecode = True
import rig

TREE = '[role="tree"]'
SMALL = ('tiny:llama', '65536')
FAST = ('tiny:mamba', '65536') # it reads 40,000 tokens in a second

# What is drawn: the rows from top to bottom, each with its pieces of lines and the disc of a conversation's end.
ROWS = '''[...document.querySelectorAll('[role="treeitem"]')].map(row => ({
    key: row.dataset.key, kind: row.dataset.kind, level: Number(row.ariaLevel), text: row.innerText, open: row.ariaExpanded,
    current: row.getAttribute('aria-current') === 'true', marked: row.ariaSelected === 'true', strong: 'strong' in row.dataset,
    disc: row.querySelector('.residency')?.dataset.residency ?? null, top: Math.round(row.getBoundingClientRect().top),
    box: row.querySelectorAll('.tree-node').length, x: Math.round(row.querySelector('svg').getBoundingClientRect().right),
    lines: [...row.querySelectorAll('path')].map(line => [line.dataset.residency, line.classList.contains('strong'),
      line.getAttribute('d').includes('Q')]),
    own: [...new Set([...row.querySelectorAll('path')].filter(line => line.getAttribute('d').includes('Q') ||
      line.getAttribute('d').startsWith(`M${parseFloat(row.style.getPropertyValue('--tree-at'))} `)).map(line => line.dataset.residency))]}))'''
READY = f"document.querySelector('{TREE}')?.getAttribute('aria-busy') === 'false'"
FOCUS = "document.activeElement?.closest('[role=\"treeitem\"]')?.dataset.key"


def rows(page):
    return page.js(ROWS)


def by_key(page):
    return {row['key']: row for row in rows(page)}


def has(page, *keys, words='the tree has its rows'):
    """Waits until the tree has all of these rows and tells all of them, by key."""
    page.wait(f"{READY} && a.every(key => document.querySelector(`[data-key=\"${{key}}\"]`))", f'{words}: {keys}', args=[list(keys)])
    return by_key(page)


def show_tree(page):
    page.click('#tree-button')
    page.wait(f"{READY} && document.querySelector('{TREE} > li')", 'the tree is drawn')


def opened(r, page, conversation, **how):
    r.show(page, conversation, **how)
    show_tree(page)


def key_of(conversation, turn):
    return f'{conversation["id"]}:{turn}'


def tip_of(conversation):
    return f'tip:{conversation["id"]}'


def talk(r, title, *said, conversation=None):
    """Messages and replies, as they are given."""
    made = conversation or r.opened(about={'title': title})
    for message, reply in said:
        r.tell(made, message, reply)
    return made


def branch(r, of, at, title, *said):
    return talk(r, title, *said, conversation=r.fork(of, at, about={'title': title}))


def family(r):
    """A conversation of three rounds; a fork behind the first one; a fork of that fork; and one that begins anew."""
    top = talk(r, 'The first', ('One?', 'First.'), ('Two?', 'Second.'), ('Three?', 'Third.'))
    side = branch(r, top, 2, 'The second', ('Another two?', 'Another second.'), ('Another three?', 'Another third.'))
    deep = branch(r, side, 4, 'The third', ('Deeper?', 'Deep.'))
    anew = branch(r, top, 0, 'The fourth', ('Quite another?', 'Quite.'))
    return top, side, deep, anew


# ---- what is drawn ----

def test_drawn(r, page):
    top, side, deep, anew = family(r)
    opened(r, page, top)
    wanted = {'root', *(key_of(top, i) for i in range(6)), *(key_of(side, i) for i in range(2, 6)), *(key_of(deep, i) for i in (4, 5)),
              *(key_of(anew, i) for i in (0, 1)), *map(tip_of, (top, side, deep, anew))}
    found = has(page, *wanted)
    rig.need(set(found) == wanted, set(found) ^ wanted)
    # the present path: marked, thick, in the first lane; nothing else is
    path = {'root', *(key_of(top, i) for i in range(6)), tip_of(top)}
    rig.need({key for key, row in found.items() if row['strong']} == path, 'the path')
    rig.need({key for key, row in found.items() if any(strong for _, strong, _ in row['lines'])} >= path - {'root'}, 'the path is thick')
    rig.need([key for key, row in found.items() if row['current']] == [tip_of(top)], 'the conversation that is open')
    # branches leave with a line of their own, and stand further in
    forks = {key for key, row in found.items() if any(fork for _, _, fork in row['lines'])}
    rig.need(forks == {key_of(side, 2), key_of(deep, 4), key_of(anew, 0)}, forks)
    levels = {tip: found[tip_of(one)]['level'] for tip, one in zip('abcd', (top, side, deep, anew))}
    rig.need(levels == {'a': 1, 'b': 2, 'c': 3, 'd': 2}, levels)
    edges = [found[tip_of(one)]['x'] for one in (top, side, deep)]
    rig.need(edges == sorted(set(edges)), f'lanes go to the right: {edges}')
    # time goes down: each turn is below the one before it, a branch below the turn that it leaves
    tops = {key: row['top'] for key, row in found.items()}
    for one, before, behind in ((top, 'root', key_of(top, 0)), (side, key_of(top, 1), key_of(side, 2)), (deep, key_of(side, 3), key_of(deep, 4))):
        rig.need(tops[before] < tops[behind] < tops[tip_of(one)], (before, behind))
    rig.need(len({row['top'] for row in found.values()}) == len(found), 'no row lies on another')
    rig.need('Another two?' in found[key_of(side, 2)]['text'] and 'The third' in found[tip_of(deep)]['text'], 'words')
    said = page.roles('treeitem', f'{page.js("document.documentElement.lang") and "You"}: Deeper?')
    rig.need(len(said) == 1, 'rows are read as they are seen')
    # another branch is opened: the path is that one's
    r.go(page, deep)
    page.wait(f"document.querySelector('[data-key=\"{tip_of(deep)}\"]').getAttribute('aria-current') === 'true'", 'the path goes elsewhere')
    path = {'root', key_of(top, 0), key_of(top, 1), key_of(side, 2), key_of(side, 3), key_of(deep, 4), key_of(deep, 5), tip_of(deep)}
    rig.need({row['key'] for row in rows(page) if row['strong']} == path, 'the other path')


def test_one_alone(r, page):
    made = talk(r, 'Alone', ('One?', 'First.'))
    opened(r, page, made)
    found = has(page, key_of(made, 0), key_of(made, 1), tip_of(made))
    rig.need(len(found) <= 4 and all(row['level'] == 1 for row in found.values()), found)
    rig.need(not page.roles('button', 'Compare'), 'there is nothing to compare with')
    # closed and opened again, by key
    page.press('t')
    page.gone(TREE)
    rig.need(page.js("document.querySelector('#tree-button').ariaExpanded") == 'false', 'the button tells it')
    page.press('t')
    has(page, tip_of(made))


def test_long_runs_are_folded(r, page):
    top = talk(r, 'Long', *[(f'Question {i}?', f'Reply {i}.') for i in range(10)])
    opened(r, page, top)
    found = has(page, tip_of(top), key_of(top, 0), key_of(top, 19))
    folds = [row for row in found.values() if row['kind'] == 'fold']
    rig.need(len(folds) == 1 and '18' in folds[0]['text'] and folds[0]['open'] == 'false', folds)
    page.run("document.querySelector('[data-kind=\"fold\"]').click();")
    page.wait(f"document.querySelector('[data-key=\"{key_of(top, 7)}\"]')", 'the turns of the fold')
    rig.need(next(row for row in rows(page) if row['kind'] == 'fold')['open'] == 'true', 'it is open')
    page.run("document.querySelector('[data-kind=\"fold\"]').click();")
    page.gone(f'[data-key="{key_of(top, 7)}"]')


def test_within_a_reply(r, page):
    top = r.opened(about={'title': 'Whole'})
    r.say(top, 'Count.', gbnf=rig.forward.grammar('One, two, three, four, five, six, seven, eight.'), max_tokens=200)
    turn = r.conversation(top, turns=1)['turns'][1]
    cut = r.fork(top, at_position=(turn['start'] + turn['end']) // 2, about={'title': 'Cut'})
    r.tell(cut, 'Further?', 'Yes.')
    rig.need([role for role, _ in r.turns(cut)] == ['user', 'assistant', 'user', 'assistant'], r.turns(cut))
    opened(r, page, cut)
    found = has(page, key_of(top, 0), key_of(top, 1), key_of(cut, 1), key_of(cut, 3), tip_of(top), tip_of(cut))
    rig.need(key_of(cut, 0) not in found, 'the message is that of both')
    shorter, whole = (found[key_of(one, 1)]['text'] for one in (cut, top))
    rig.need('One' in shorter and 'eight' not in shorter and 'eight' in whole, (shorter, whole))
    rig.need(found[key_of(cut, 1)]['strong'] and not found[key_of(top, 1)]['strong'], 'the path is that of the fork')


def test_closed_parent(r, page):
    top, side, _, anew = family(r)
    other = branch(r, top, 4, 'The fifth', ('Otherwise?', 'Other.'))
    opened(r, page, other)
    has(page, tip_of(top), tip_of(side))
    r.delete(top)
    page.gone(f'[data-key="{tip_of(top)}"]')
    # what both still have begins together; the rest of the closed one is gone
    found = has(page, tip_of(other), tip_of(side), tip_of(anew), words='those that were forked from it')
    said = [row['text'] for row in found.values() if row['kind'] == 'turn']
    for words in 'One?', 'First.', 'Two?', 'Otherwise?', 'Another two?', 'Quite another?':
        rig.need(sum(text.startswith(words) for text in said) == 1, (words, said))
    rig.need(not any(text.startswith('Three?') for text in said), said)


def between(r, page, one, closed, *wanted):
    """The rows that are wanted stay in the tree of `one`, at once and after a reload, when another conversation is closed."""
    opened(r, page, one)
    has(page, tip_of(closed), *wanted)
    r.delete(closed)
    page.gone(f'[data-key="{tip_of(closed)}"]')
    has(page, *wanted, words='the others are one tree')
    page.reload()
    r.go(page, one)
    show_tree(page)
    has(page, *wanted, words='and so they are later')


def test_closed_between(r, page):
    top, side, deep, _ = family(r)
    between(r, page, deep, side, tip_of(top), key_of(top, 3), tip_of(deep), key_of(deep, 4))


def test_closed_sibling(r, page):
    """The third one was made from the second one."""
    of = [talk(r, 'Siblings', ('Which?', 'Reply 1.'))]
    for i in 2, 3:
        of.append(branch(r, of[-1], 1, f'Sibling {i}'))
        r.say(of[-1], None, given={'text': f'Reply {i}.'}, max_tokens=0)
    between(r, page, of[2], of[1], tip_of(of[0]), tip_of(of[2]))
    page.wait("document.querySelector('.siblings')?.innerText.includes('2 of 2')", 'two siblings are left')


# ---- what changes ----

def disc(page, conversation, residency):
    page.wait(f"document.querySelector('[data-key=\"{tip_of(conversation)}\"] .residency').dataset.residency === a",
              f'the disc of {conversation["id"]} is {residency}', args=[residency])


def test_residency(r, page):
    top = talk(r, 'Stays', ('One?', 'First. ' * 20))
    side = branch(r, top, 2, 'Goes', ('Two?', 'Second. ' * 20))
    opened(r, page, top)
    found = has(page, key_of(side, 2), tip_of(side))
    for key in key_of(side, 2), key_of(side, 3), key_of(top, 0):
        rig.need(found[key]['own'] == ['resident'], (key, found[key]))
    rig.need(found[tip_of(side)]['disc'] == 'resident', found)
    colours = "getComputedStyle(document.querySelector('[data-key=\"%s\"] path')).stroke"
    in_ram = page.js(colours % key_of(side, 3))
    told = r.verb(side, 'evict')
    disc(page, side, told['residency'])
    rig.need(told['residency'] != 'resident', told)
    found = by_key(page)
    rig.need(found[key_of(side, 3)]['own'] == [told['residency']], found[key_of(side, 3)])
    rig.need(found[key_of(top, 1)]['own'] == ['resident'], 'what the other one has stays')
    rig.need(page.one(f'[data-key="{tip_of(side)}"] .residency').get_attribute('aria-label'), 'it has a word')
    r.verb(top, 'evict')
    disc(page, top, 'spilled')
    disc(page, side, 'spilled')
    rig.need(all(shade == 'spilled' for row in rows(page) for shade, _, _ in row['lines']), 'all of it is on disk')
    on_disk = page.js(colours % key_of(side, 3))
    r.verb(side, 'warm')
    disc(page, side, 'resident')
    rig.need(page.js(colours % key_of(side, 3)) == in_ram != on_disk, (in_ram, on_disk))
    # what they share is shaded as the best kept of both
    found = by_key(page)
    rig.need(found[key_of(top, 0)]['own'] == ['resident'], found[key_of(top, 0)])
    r.verb(top, 'warm')
    disc(page, top, 'resident')


def test_cold(r, page):
    """Memory that was on disk cannot be used any more when the daemon comes back."""
    page.expect('503', '502', 'ERR_')
    top = talk(r, 'Kept', ('One?', 'First.'))
    anew = branch(r, top, 0, 'Lost', ('Quite another?', 'Quite. ' * 10))
    for one in top, anew:
        r.verb(one, 'evict')
    opened(r, page, top)
    disc(page, anew, 'spilled')
    r.stop_daemon()
    page.wait("document.documentElement.dataset.connection !== 'live'", 'the daemon is away')
    rig.need(tip_of(anew) in by_key(page), 'the tree stays')
    r.start_daemon('--kv-type', 'f32', model=f'{r.folder}/model.gguf')
    page.run("document.querySelector('.connection button')?.click();") # it tries by itself, too
    page.wait("document.documentElement.dataset.connection === 'live'", 'it is back')
    disc(page, anew, 'cold')
    found = by_key(page)
    rig.need(found[key_of(anew, 1)]['own'] == ['cold'], found[key_of(anew, 1)])
    dashes = page.js(f"getComputedStyle(document.querySelector('[data-key=\"{key_of(anew, 1)}\"] path')).strokeDasharray")
    rig.need(dashes != 'none', 'by its shape, too')
    disc(page, top, 'cold')
    page.role('button', 'Actions for this conversation').click()
    page.role('menuitem', 'Warm up').click()
    disc(page, top, 'resident')
    disc(page, anew, 'cold')


def test_branches_of_the_page(r, page):
    """Another reply and an edit, made in the page: siblings in the conversation, branches in the tree."""
    front = r.front()
    top = talk(r, 'From here', ('One?', 'First.'), ('Two?', 'Second.'))
    opened(r, page, top, url=front.url)
    front.reply('Otherwise.')
    page.run("document.querySelector('.turn[data-turn=\"3\"]').scrollIntoView(); document.querySelector('.turn[data-turn=\"3\"]').focus();")
    page.role('button', 'Another reply', page.one('.turn[data-turn="3"]')).click()
    page.wait("document.querySelector('.turn[data-turn=\"3\"] .siblings')?.innerText.includes('2 of 2')", 'the reply has a sibling')
    again = max(r.all(), key=lambda one: one['id'])
    found = has(page, key_of(top, 3), key_of(again, 3), tip_of(again), tip_of(top))
    rig.need('Otherwise.' in found[key_of(again, 3)]['text'] and key_of(again, 2) not in found, found)
    rig.need(found[tip_of(again)]['current'], 'it is the one that is open')
    front.reply('Third.')
    page.role('button', 'Edit', page.one('.turn[data-turn="2"]')).click()
    page.wait("document.querySelector('#message').value === 'Two?'", 'the message is there')
    page.run("document.querySelector('#message').select();")
    page.insert('Three?', '#message')
    page.press('Enter')
    page.wait("document.querySelector('.turn[data-turn=\"2\"] .siblings')?.innerText.includes('2 of 2') && "
              "document.querySelector('.turn[data-turn=\"3\"]')?.innerText.includes('Third.')", 'the edited message has a sibling')
    edited = max(r.all(), key=lambda one: one['id'])
    found = has(page, key_of(edited, 2), key_of(edited, 3), tip_of(edited), tip_of(again), tip_of(top))
    rig.need('Three?' in found[key_of(edited, 2)]['text'] and found[tip_of(edited)]['current'], found)
    rig.need(edited['parent'] == again['id'] and again['parent'] == top['id'], (edited, again))
    # what was there stays, and is one step away
    page.role('button', 'Branch before', page.one('.turn[data-turn="2"]')).click()
    page.wait("document.querySelector('.turn[data-turn=\"2\"]')?.innerText.includes('Two?')", 'the message of before')
    rig.need([text for _, text in r.turns(top)][0] == 'One?' and r.conversation(top)['n_turns'] == 4, 'nothing was rewound')


def test_branches_of_the_command(r, page):
    top = talk(r, 'Seen from both', ('One?', 'First.'))
    opened(r, page, top)
    has(page, tip_of(top))
    r.confab('fork', f'#{top["id"]}', 'by-command')
    side = r.conversation('by-command')
    has(page, tip_of(side), words='the branch of the command line')
    r.confab('say', 'by-command', '--max-tokens', '4', 'And two?')
    found = has(page, key_of(side, 2), key_of(side, 3), words='what was said there')
    rig.need('And two?' in found[key_of(side, 2)]['text'], found)
    page.wait(f"document.querySelector('[data-key=\"{tip_of(side)}\"] .residency')", 'its disc')
    r.confab('say', f'#{top["id"]}', '--max-tokens', '4', 'Three?')
    has(page, key_of(top, 3), words='what was said in the one that is open')
    r.confab('rewind', 'by-command', '--turns', '1')
    page.gone(f'[data-key="{key_of(side, 3)}"]')
    r.confab('close', 'by-command')
    page.gone(f'[data-key="{tip_of(side)}"]')


def test_writing(r, page):
    """A branch in which a reply is being written tells so, and no longer when it is over."""
    top = talk(r, 'Calm', ('One?', 'First.'))
    side = branch(r, top, 2, 'Busy')
    opened(r, page, top)
    has(page, tip_of(side))
    r.begin_endless(side, tokens=30000)
    page.wait(f"'writing' in document.querySelector('[data-key=\"{tip_of(side)}\"]').dataset", 'it is written in')
    rig.need('writing' not in page.js(f"({{...document.querySelector('[data-key=\"{tip_of(top)}\"]').dataset}})"), 'not in the other one')
    r.verb(side, 'cancel')
    page.wait(f"!('writing' in document.querySelector('[data-key=\"{tip_of(side)}\"]').dataset)", 'it is over')


# ---- going there ----

def shown(page, conversation, turn=None):
    """The conversation is open; and the turn has the focus."""
    address = f'#/c/{conversation["id"]}' + ('' if turn is None else f'/{turn}')
    page.wait(f"location.hash === a && document.querySelector('.talk-scroll').getAttribute('aria-busy') === 'false'", f'{address} is shown', args=[address])
    if turn is not None:
        page.wait("document.activeElement?.closest('.turn')?.dataset.turn === a", f'turn {turn} has the focus', args=[str(turn)])


def test_click(r, page):
    top, side, deep, _ = family(r)
    opened(r, page, top)
    has(page, key_of(deep, 5), key_of(side, 2))
    page.click(f'[data-key="{key_of(deep, 5)}"]')
    shown(page, deep, 5)
    rig.need('Deep.' in page.text('.turn[data-turn="5"]'), 'the turn')
    box = page.js("document.activeElement.getBoundingClientRect().toJSON()")
    rig.need(box['top'] >= 0 and box['bottom'] <= 800, f'it is in view: {box}')
    # a turn that several have is shown in the one that is open
    page.click(f'[data-key="{key_of(top, 0)}"]')
    shown(page, deep, 0)
    page.click(f'[data-key="{tip_of(side)}"]')
    page.wait(f"location.hash.startsWith('#/c/{side['id']}')", 'the branch')
    page.wait("document.querySelector('.talk-scroll')?.innerText.includes('Another third.')", 'its end')
    page.back()
    shown(page, deep, 0)


def test_keys(r, page):
    top, side, deep, anew = family(r)
    opened(r, page, top)
    has(page, tip_of(top), tip_of(deep), tip_of(anew))
    stops = page.js(f"[...document.querySelectorAll('{TREE} [tabindex=\"0\"]')].map(one => one.dataset.key)")
    rig.need(stops == [tip_of(top)], f'Tab stops once, where the path ends: {stops}')
    page.run(f"document.querySelector('{TREE} [tabindex=\"0\"]').focus();")

    def step(key, wanted):
        page.press(key)
        at = page.js(FOCUS)
        rig.need(at == wanted, f'{key} leads to {at}, not to {wanted}')

    step('ArrowUp', key_of(top, 5))
    step('Home', 'root')
    step('ArrowRight', key_of(anew, 0))
    step('ArrowDown', key_of(anew, 1))
    step('ArrowDown', tip_of(anew))
    step('ArrowDown', tip_of(anew))
    step('Home', 'root')
    step('ArrowDown', key_of(top, 0))
    step('ArrowDown', key_of(top, 1))
    step('ArrowRight', key_of(side, 2))
    step('ArrowDown', key_of(side, 3))
    step('ArrowRight', key_of(deep, 4))
    step('ArrowLeft', key_of(side, 3))
    step('End', tip_of(top))
    rig.need(page.js(f"document.querySelectorAll('{TREE} [tabindex=\"0\"]').length") == 1, 'one stop')
    page.press('Home', 'ArrowDown', 'ArrowDown', 'ArrowRight')
    page.press('Enter')
    shown(page, side, 2)


def test_keys_compare(r, page):
    top, side, deep, anew = family(r)
    opened(r, page, top)
    has(page, tip_of(deep), tip_of(anew))
    page.run("document.querySelector('[role=\"treeitem\"][tabindex=\"0\"]').focus();")
    page.press('Home', 'ArrowRight', 'ArrowDown', 'ArrowDown', 'c')
    page.wait(f"document.querySelector('[data-key=\"{tip_of(anew)}\"]').ariaSelected === 'true'", 'it is marked')
    rig.need('The fourth' in page.text('.tree-said'), 'that is told')
    page.press('c')
    page.wait("document.querySelectorAll('[aria-selected=\"true\"]').length === 0", 'the mark is taken back')
    page.press('c', 'Home', 'ArrowDown', 'ArrowDown', 'ArrowRight', 'c')
    compared(page, 'The fourth', 'The second')
    page.press('Escape')
    page.gone('.compare')
    rig.need(page.focused() is not None, 'the focus is somewhere')
    rig.need(r.conversation(top)['n_turns'] == 6 and len(r.all()) >= 4, 'nothing was changed')


def test_keys_fork(r, page):
    top, side, _, _ = family(r)
    opened(r, page, top)
    has(page, key_of(side, 2), tip_of(side))
    before = {one['id'] for one in r.all()}
    page.run("document.querySelector('[role=\"treeitem\"][tabindex=\"0\"]').focus();")
    page.press('Home', 'ArrowDown', 'ArrowDown', 'ArrowRight', 'f')
    page.wait("location.hash !== a && document.querySelector('.talk-scroll').getAttribute('aria-busy') === 'false'", 'another one is open',
              args=[f'#/c/{top["id"]}'])
    made = [one for one in r.all() if one['id'] not in before]
    rig.need(len(made) == 1 and made[0]['parent'] == side['id'] and made[0]['n_turns'] == 3, made)
    found = has(page, tip_of(made[0]))
    rig.need(found[tip_of(made[0])]['current'] and found[key_of(side, 2)]['strong'], 'it is the path')


# ---- much ----

def test_hundred_branches(r, page):
    top = talk(r, 'Broad', *[(f'Question {i}?', f'Reply {i}.') for i in range(4)])
    made = [r.fork(top, i % 4 * 2, about={'title': f'Branch {i}'}) for i in range(100)]
    for one in made[:12]:
        r.tell(one, 'Otherwise?', 'Other.')
    r.show(page, top)
    r.browser.requests()
    page.forget()
    seen = len(r.browser.requests('/confab/v1/conversations/'))
    show_tree(page)
    has(page, tip_of(top))
    page.wait(f"document.querySelector('{TREE}').getAttribute('aria-busy') === 'false'", 'all are there')
    asked = len(r.browser.requests('/confab/v1/conversations/')) - seen
    took = page.longest_task()
    print(f'a tree of 100 branches: {asked} requests, longest task {took:.0f} ms', flush=True)
    rig.need(asked <= 2 * len(made) + 10, asked)
    there = page.js(f"document.querySelectorAll('{TREE} > li').length")
    rig.need(there < 120, f'only those in view are elements: {there}')
    # all of them can be reached, by keys as by scrolling
    page.run(f"document.querySelector('{TREE} [tabindex=\"0\"]').focus();")
    page.press('Home')
    rig.need(page.js(FOCUS) == 'root', page.js(FOCUS))
    page.press('ArrowRight')
    seen = []
    for _ in range(25):
        seen.append(page.js(FOCUS))
        page.press('ArrowRight')
    wanted = [f'{one["id"]}:0' if one in made[:12] else tip_of(one) for one in made[::4]]
    rig.need(seen == wanted, (seen, wanted))
    page.run("document.querySelector('.tree-scroll').scrollTop = 0;")
    page.wait("document.querySelector('[data-key=\"root\"]')", 'the beginning')
    page.run("const one = document.querySelector('.tree-scroll'); one.scrollTop = one.scrollHeight;")
    page.wait(f"document.querySelector('[data-key=\"{tip_of(top)}\"]').getBoundingClientRect().bottom <= innerHeight", 'the end')


def test_two_thousand_turns(r, page):
    top = r.long(2000, about={'title': 'Long'})
    side = r.fork(top, 1000, about={'title': 'In the middle'})
    r.tell(side, 'Elsewhere?', 'There.')
    late = r.fork(top, 1998, about={'title': 'Near the end'})
    r.tell(late, 'Later?', 'Late.')
    r.show(page, top)
    seen = len(r.browser.requests('/confab/v1/conversations/'))
    page.forget()
    took = page.run(f'''
      const from = performance.now();
      document.querySelector('#tree-button').click();
      while (!(document.querySelector('[data-key="{tip_of(late)}"]') && document.querySelector('{TREE}').getAttribute('aria-busy') === 'false'))
        await new Promise(requestAnimationFrame);
      return performance.now() - from;''')
    asked = len(r.browser.requests('/confab/v1/conversations/')) - seen
    print(f'a tree of 2,000 turns: {took:.0f} ms, {asked} requests, longest task {page.longest_task():.0f} ms', flush=True)
    rig.need(asked <= 20, asked)
    found = by_key(page)
    rig.need(len(found) < 60, len(found))
    folds = [row for row in found.values() if row['kind'] == 'fold']
    rig.need(len(folds) == 2, folds)
    page.run(f"document.querySelector('{TREE} [tabindex=\"0\"]').focus();")
    page.press('Home', 'ArrowDown')
    rig.need(page.js(FOCUS) == folds[0]['key'], page.js(FOCUS))
    page.press('Enter')
    page.wait("document.querySelector('[data-kind=\"fold\"]').ariaExpanded === 'true'", 'the fold opens')
    there = page.js(f"document.querySelectorAll('{TREE} > li').length")
    rig.need(there < 120, f'only those in view are elements: {there}')
    page.press('ArrowDown', 'ArrowDown', 'ArrowDown')
    rig.need(page.js(FOCUS) == key_of(top, 3), page.js(FOCUS))
    # from the middle of the tree to the middle of the conversation
    page.press('Enter')
    shown(page, top, 3)
    page.run("document.querySelector('[role=\"treeitem\"][tabindex=\"0\"]').focus();")
    page.press('End')
    rig.need(page.js(FOCUS) == tip_of(top), page.js(FOCUS))


# ---- two branches side by side ----

def compared(page, left, right):
    page.wait("document.querySelector('.compare')?.getAttribute('aria-busy') === 'false'", 'both branches are there')
    names = page.js("[...document.querySelectorAll('.compare-name h3')].map(one => one.textContent)")
    rig.need(names == [left, right], names)


def compare(r, page, a, b):
    opened(r, page, a)
    has(page, tip_of(b))
    page.run(f"document.querySelector('[data-key=\"{tip_of(b)}\"] .tree-compare').click();")
    page.wait("document.querySelector('.compare')?.getAttribute('aria-busy') === 'false'", 'both branches are there')


def marked(page):
    return page.js("[...document.querySelectorAll('.compare-side')].map(one => [...one.querySelectorAll('mark')].map(mark => mark.textContent))")


def test_compare(r, page):
    page.size(1600, 900)
    top = talk(r, 'Red', ('One?', 'First.'), ('Which colour has the door?', 'The door of the house is red.'))
    side = branch(r, top, 3, 'Blue')
    r.say(side, None, given={'text': 'The door of the garden is blue.'}, max_tokens=0)
    r.tell(side, 'And then?', 'Then it rains.')
    compare(r, page, top, side)
    compared(page, 'Red', 'Blue')
    rig.need(marked(page) == [['house', 'red'], ['garden', 'blue']], marked(page))
    sides = page.js("[...document.querySelectorAll('.compare-side')].map(one => one.textContent)")
    rig.need('Then it rains.' in sides[1] and 'One?' not in sides[0] and 'One?' not in sides[1], sides)
    boxes = page.js("[...document.querySelectorAll('.compare-side')].map(one => one.getBoundingClientRect().toJSON())")
    rig.need(boxes[0]['right'] <= boxes[1]['left'] + 1 and boxes[0]['top'] == boxes[1]['top'], boxes)
    # what both have is one line, until it is asked for
    common = page.one('.compare-common')
    rig.need('3' in common.text and 'First.' not in common.text, common.text)
    page.click('.compare-common summary')
    page.wait("document.querySelector('.compare-common').innerText.includes('Which colour has the door?')", 'what is in common')
    rig.need('One?' in common.text and 'red' not in common.text, common.text)
    page.press('Escape')
    page.gone('.compare')
    rig.need(page.one('.talk-scroll').is_displayed() and page.url.endswith(f'/c/{top["id"]}'), 'the conversation is back')


def test_compare_the_same_again(r, page):
    """Both were asked the same, each by itself: what is marked is the reply."""
    page.size(1600, 900)
    top = talk(r, 'Now', ('One?', 'First.'), ('Which colour has the door?', 'The door is red.'))
    side = branch(r, top, 2, 'Then', ('Which colour has the door?', 'The door was red.'), ('And then?', 'It rained.'))
    compare(r, page, top, side)
    rig.need(marked(page) == [['is'], ['was']], marked(page))
    said = page.js("[...document.querySelectorAll('.compare-side')].map(one => [...one.querySelectorAll('.turn-body')].map(body => body.textContent.trim()))")
    rig.need(said == [['Which colour has the door?', 'The door is red.'],
                      ['Which colour has the door?', 'The door was red.', 'And then?', 'It rained.']], said)


def test_compare_open(r, page):
    page.size(1600, 900)
    top, side, _, _ = family(r)
    compare(r, page, top, side)
    compared(page, 'The first', 'The second')
    page.role('button', 'Open: The second').click()
    page.wait(f"location.hash === '#/c/{side['id']}' && document.querySelector('.talk-scroll').innerText.includes('Another third.')", 'the other one is open')
    page.gone('.compare')
    rig.need(by_key(page)[tip_of(side)]['current'], 'in the tree, too')


def test_compare_from_a_turn(r, page):
    top, side, _, _ = family(r)
    r.show(page, top)
    page.wait("document.querySelector('.turn[data-turn=\"2\"] .siblings')", 'the branches of the second message')
    page.run("document.querySelector('.turn[data-turn=\"2\"]').focus();")
    page.role('button', 'More', page.one('.turn[data-turn="2"]')).click()
    page.role('menuitem', 'Compare with the other branch').click()
    compared(page, 'The first', 'The second')
    rig.need(marked(page)[1] and 'Another' in ' '.join(marked(page)[1]), marked(page))
    page.role('button', 'Close', page.one('.compare-head')).click()
    page.gone('.compare')
    page.role('button', 'More', page.one('.turn[data-turn="5"]')).click()
    rig.need(page.role('menuitem', 'Compare with the other branch').get_attribute('aria-disabled') == 'true', 'there is no other one')
    rig.need(side['id'] in {one['id'] for one in r.all()}, 'it is still there')


def test_compare_scrolls(r, page):
    page.size(1600, 900)
    many = [(f'Question {i}?', 'A reply of several lines.\n\n' * 8) for i in range(8)]
    top = talk(r, 'Left', ('One?', 'First.'), *many)
    side = branch(r, top, 2, 'Right', *[('Other ' + message, reply) for message, reply in many])
    compare(r, page, top, side)
    scrolled = '[...document.querySelectorAll(".compare-scroll")].map(one => one.scrollTop / Math.max(1, one.scrollHeight - one.clientHeight))'
    page.run("const one = document.querySelector('.compare-scroll'); one.dispatchEvent(new Event('pointerenter')); one.scrollTop = one.scrollHeight / 2;")
    page.wait(f'Math.min(...{scrolled}) > 0.3', 'both scroll')
    left, right = page.js(scrolled)
    rig.need(abs(left - right) < 0.05, (left, right))
    page.click('.compare-together input')
    right = page.js('document.querySelectorAll(".compare-scroll")[1].scrollTop')
    page.run("const one = document.querySelector('.compare-scroll'); one.dispatchEvent(new Event('pointerenter')); one.scrollTop = 0;")
    page.frames(4)
    rig.need(page.js('[...document.querySelectorAll(".compare-scroll")].map(one => one.scrollTop)') == [0, right], 'each by itself')


def test_compare_narrow(r, page):
    page.size(390, 800, touch=True)
    top, side, _, _ = family(r)
    compare(r, page, top, side)
    seen = '[...document.querySelectorAll(".compare-side")].map(one => one.getBoundingClientRect().width > 0)'
    page.wait(f'{seen}.length === 2', 'both are there')
    # on a narrow screen the panel lies above the talk: it makes room for what it opened
    rig.need(page.js("document.elementFromPoint(195, 300)?.closest('.compare') !== null"), 'it is seen')
    rig.need(page.js(seen) == [True, False], page.js(seen))
    page.role('button', 'The second', page.one('.compare-which')).click()
    page.wait(f'{seen}.join() === "false,true"', 'the other one')
    rig.need(page.js('document.documentElement.scrollWidth <= innerWidth'), 'nothing scrolls sideways')
    page.press('Escape')
    page.gone('.compare')


ALL = {name: test for name, test in globals().items() if name.startswith('test_')}
chosen = sys.argv[6:]
for large, model in (False, SMALL), (True, FAST):
    tests = {name: test for name, test in ALL.items() if ('thousand' in name) == large and name in (chosen or ALL)}
    if tests:
        rig.run(tests, model=model)
