# SPDX-License-Identifier: MIT
"""States that the page can be in, each with something of everything: what everyone.py and keyboard.py look at."""

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
    page.wait("document.querySelector('.start .new-fields')", 'the beginning is shown')


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
