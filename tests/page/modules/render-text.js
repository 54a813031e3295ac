// SPDX-License-Identifier: MIT
// What texts become: lists, tables, formulas, links, code, and characters that hide or turn text.

async function shown(load, text) {
  const {TextView} = await load('render/text-view.js');
  const libs = await load('render/libs.js');
  await Promise.all([libs.ready, libs.load('hljs'), libs.load('katex')]);
  const host = document.createElement('div');
  document.body.append(host);
  const view = new TextView(host);
  view.set(text);
  for (let i = 0; i < 3; i++) {
    await view.drawn();
    await new Promise(resolve => requestAnimationFrame(resolve));
  }
  host.remove();
  return {host, markdown: Boolean(libs.libs.markdownit && libs.libs.purify), katex: libs.libs.katex};
}

/** The elements of a text as names: p(strong em) ... */
function outline(element) {
  return [...element.children].map(child => child.children.length > 0 ? `${child.localName}(${outline(child)})` : child.localName).join(' ');
}

export async function test_blocks({load, need}) {
  const {host, markdown} = await shown(load, '# a\n\nb **c**\nd\n\n1. e\n   - f\n2. g\n\n> h\n\n***\n\n####### i\n\nj\n===\n\n[k]: https://l.invalid\n');
  if (!markdown)
    return need(host.querySelectorAll('.plain').length >= 8, 'without Markdown words are as they are written');
  need(outline(host) === 'h3 p(strong br) ol(li(p ul(li(p))) li(p)) blockquote(p) hr p p(br) p(a)', outline(host));
  need([...host.querySelectorAll(':scope > :is(p, h3, blockquote), li')].every(element => element.dir === 'auto'), 'direction by the words');
}

export async function test_lists({load, need}) {
  const tight = await shown(load, '- a\n- b\n');
  const loose = await shown(load, '- a\n\n- b\n');
  need(tight.host.innerHTML === loose.host.innerHTML, 'tight and loose lists are alike');
  const start = await shown(load, '7. a\n8. b\n');
  need(start.host.querySelector('ol').start === 7, 'numbers begin where they do');
  const two = await shown(load, '- a\n\n* b\n\n1. c\n1) d\n');
  need(two.host.children.length === 4, 'other marks are other lists');
  const sloppy = await shown(load, '1. a\n  - b\n  - c\n2. d\n');
  need(outline(sloppy.host) === 'ol(li(p ul(li(p) li(p))) li(p))', outline(sloppy.host));
  const deep = await shown(load, '> '.repeat(500) + 'x\n\n' + '- '.repeat(500) + 'y\n');
  need(deep.host.textContent.includes('x') && deep.host.textContent.includes('y'), 'deep ones end somewhere');
}

export async function test_tables({load, need}) {
  const {host} = await shown(load, 'before\n| a | b |\n|:--|--:|\n| 1 | 2 | 3 |\n| `x|y` |\n| p \\| q | r |\nafter\n');
  need(/^p div\(table\(thead\(tr\(th th\)\) tbody\(tr\(td td\) tr\(td(\(code\))? td\) tr\(td td\)\)\)\) p$/.test(outline(host)), outline(host));
  const wrap = host.querySelector('.table-wrap');
  need(wrap.tabIndex === 0 && wrap.getAttribute('role') === 'region' && wrap.getAttribute('aria-label'), 'it scrolls by keyboard');
  const cells = [...host.querySelectorAll('td')].map(cell => cell.textContent.replaceAll('`', ''));
  need(JSON.stringify(cells) === '["1","2","x|y","","p | q","r"]', JSON.stringify(cells));
  need(host.querySelector('td:nth-child(2)').className.includes('align-right'), 'aligned');
  const none = await shown(load, 'a | b\nc | d\n\n| e |\n\n--- | ---\n');
  need(!none.host.querySelector('table'), 'bars alone are none');
}

export async function test_math({load, need}) {
  const {mathAt} = await load('render/blocks.js');
  const yes = ['$x$', '$a+b$', '\\(x\\)', '\\[x\\]', '$$x$$', '$x\\$y$', '$5x$'];
  const no = ['$5 and $6', '$ x$', '$x $', '$x$5', '$HOME/$PATH', '$', '$$', '$$$$', '\\(', '$x\ny$'];
  for (const text of yes)
    need(mathAt(text, 0)?.end === text.length, `${text} is a formula`);
  for (const text of no)
    need(!mathAt(text, 0), `${text} is none`);
  need(!mathAt('US$5$', 2), 'nor is an amount');
  const {host, markdown, katex} = await shown(load, 'It costs $5 and $6, `$x$`, \\$y$ but $e^x$.\n\n$$\n\\frac{1}{2}\n$$\n\n$$\nbroken {\n$$\n\n$$\nno end\n\nnext $\\bad$\n');
  if (!markdown || !katex)
    return need(host.textContent.includes('\\frac{1}{2}'), 'without KaTeX the source is shown');
  need(host.querySelectorAll('.katex').length === 2 && host.querySelectorAll('.katex-display').length === 1, 'two formulas');
  need(host.querySelectorAll('.katex math annotation').length === 2, 'with their MathML');
  need([...host.querySelectorAll('code')].map(code => code.textContent).join('|') === '$x$|$$\nbroken {\n$$|$$\nno end|$\\bad$', 'others as they are written');
}

export async function test_links({load, need}) {
  const {host, markdown} = await shown(load, [
    '[good.com](https://evil.invalid/)', '[a](https://a.invalid)', '[www.b.invalid](https://b.invalid/x)', '<https://good.com@evil.invalid/>',
    '[https://c.invalid/d.html?e=f.com](https://c.invalid/)', '[x](https://xn--80ak6aa92e.com/)', '[me@g.invalid](mailto:me@h.invalid)', 'https://i.invalid/j.k/',
    '![image](https://l.invalid/i.png)', '[see good.com now](https://m.invalid)', 'plain.invalid and me@n.invalid', '[o\u202ep](https://q.invalid)',
  ].join('\n\n'));
  if (!markdown)
    return;
  const hosts = [...host.children].map(p => p.querySelector('.link-host')?.textContent.trim() ?? '');
  const expected = ['(evil.invalid)', '', '', '(evil.invalid)', '', '(xn--80ak6aa92e.com)', '(h.invalid)', '', '', '(m.invalid)', '', ''];
  need(JSON.stringify(hosts) === JSON.stringify(expected), JSON.stringify(hosts));
  const links = [...host.querySelectorAll('a')];
  need(links.length === 11 && links.every(link => link.title === link.getAttribute('href')), 'their addresses are their titles');
  need(links[8].textContent === 'image' && !host.querySelector('img'), 'an image is a link with its words');
  need(links[10].textContent === 'oU+202Ep', 'what turns the words is seen');
}

export async function test_hidden_characters({load, need}) {
  const text = 'a\u202eb `c\u202ed\u200be` \u001b[31mred\u0007\u0000\u009b\n\n```\nif (x\u2066) {\u200d}\n👩‍💻\n```\n\nnext\r\nline\rend\n';
  const {host, markdown} = await shown(load, text);
  need(!/[\0-\x08\x0b-\x1f\x7f-\x9f]/.test(host.textContent), 'no controls');
  need(host.textContent.includes('\u241b[31mred\u2407\u2400\u2426'), 'they are seen');
  const names = [...host.querySelectorAll('.control')].map(element => element.textContent).join(' ');
  need(names === (markdown ? 'U+202E U+200B ' : '') + 'U+2066 U+200D', names);
  need(host.querySelector('pre').textContent.includes('👩‍💻'), 'emoji are not taken apart');
  need(host.lastElementChild.textContent.split('\n').length === 3, 'lines end in one way');
  document.body.append(host);
  const box = getComputedStyle(host.firstElementChild);
  need(/isolate|plaintext/.test(box.unicodeBidi), `a block keeps its direction to itself: ${box.unicodeBidi}`);
  host.remove();
}

export async function test_code({load, need}) {
  const {host} = await shown(load, '```python title="x"\ndef f():\n    return "<b>"\n\n\nx\n```\n\n```nonsense\ny\n```\n\n```\none\n```\n');
  const [python, nonsense, plain] = host.querySelectorAll('figure.code');
  need(python.querySelector('code').textContent === 'def f():\n    return "<b>"\n\n\nx', 'the code as it is');
  need(python.querySelector('.code-language').textContent === 'python' && /5/.test(python.querySelector('.code-lines').textContent), 'what it is');
  need(plain.querySelector('.code-lines').textContent === '' && nonsense.querySelector('code').textContent === 'y', 'others');
  const pre = python.querySelector('pre');
  need(pre.tabIndex === 0 && pre.getAttribute('role') && pre.getAttribute('aria-label').includes('python'), 'it scrolls by keyboard');
  const {libs} = await load('render/libs.js');
  need(Boolean(python.querySelector('.hljs-keyword')) === Boolean(libs.hljs && libs.purify), 'coloured if it can be');
  const wrap = python.querySelector('[aria-pressed]');
  wrap.click();
  need(pre.classList.contains('wrap') && wrap.getAttribute('aria-pressed') === 'true', 'wrapped');
}

export async function test_copying({load, need}) {
  const {t} = await load('js/i18n.js');
  const {host} = await shown(load, '```js\nlet a = 1;\n\nlet b;\n```\n');
  document.body.append(host);
  const button = host.querySelector('.code button:last-child');
  let got = null;
  const put = value => Object.defineProperty(navigator, 'clipboard', {value, configurable: true});
  put({writeText: async text => {
    got = text;
  }});
  button.click();
  await new Promise(resolve => setTimeout(resolve, 50));
  need(got === 'let a = 1;\n\nlet b;', `copied: ${JSON.stringify(got)}`);
  need(button.textContent === t('render.copied') && button.getAttribute('aria-live') === 'polite', 'and said');
  await new Promise(resolve => setTimeout(resolve, 2100));
  need(button.textContent === t('render.copy'), 'for a while');
  put(undefined);
  button.click();
  await new Promise(resolve => setTimeout(resolve, 50));
  need(getSelection().toString().replace(/\n+/g, '\n').trim() === 'let a = 1;\nlet b;', `else it is selected: ${JSON.stringify(getSelection().toString())}`);
  delete navigator.clipboard;
  getSelection().removeAllRanges();
  host.remove();
}

export async function test_set_again({load, need}) {
  const {TextView} = await load('render/text-view.js');
  const host = document.createElement('div');
  document.body.append(host);
  const view = new TextView(host);
  for (const text of ['a\n\n- b\n- c\n', '# d\n', '', '```js\nx\n```', '```py\ny\n```\n\ne']) {
    view.set(text);
    await view.drawn();
    const fresh = await shown(load, text);
    need(host.innerHTML.replace(/<[/]?span[^>]*>/g, '') === fresh.host.innerHTML.replace(/<[/]?span[^>]*>/g, ''), `set again: ${host.innerHTML}`);
  }
  view.append(' and more');
  await view.drawn();
  need(host.lastElementChild.textContent === 'e and more' && view.text.endsWith('e and more'), 'it may go on');
  host.remove();
}

export async function test_parts({load, need}) {
  const {PartsView, resultsView, prettyJson} = await load('render/part-view.js');
  const {idle} = await load('render/libs.js');
  const {t} = await load('js/i18n.js');
  const host = document.createElement('div');
  document.body.append(host);
  const answered = [];
  const view = new PartsView(host, {streaming: true, onAnswerCalls: calls => answered.push(...calls)});
  view.add([{index: 0, kind: 'reasoning', text: 'Hm'}]);
  const reasoning = host.querySelector('details');
  need(!reasoning.open && reasoning.querySelector('summary').textContent === t('render.thinking'), 'it thinks');
  reasoning.open = true;
  await new Promise(resolve => setTimeout(resolve, 60));
  view.add([{index: 0, kind: 'reasoning', text: ', **so**.'}]);
  await new Promise(resolve => setTimeout(resolve, 60));
  await idle();
  need(reasoning.textContent.includes('so') && reasoning.open, 'open as it was chosen');
  view.add([{index: 0, kind: 'reasoning', text: '', ends: true}, {index: 1, kind: 'text', text: 'The '}, {index: 1, kind: 'text', text: 'text', ends: true}]);
  need(/\d/.test(reasoning.querySelector('summary').textContent) && reasoning.open, reasoning.querySelector('summary').textContent);
  view.add([{index: 2, kind: 'call', name: 'f', call_id: 'id1', text: '{"a":'}, {index: 2, kind: 'call', text: '12345678901234567890}', ends: true}]);
  view.add([{index: 3, kind: 'call', name: 'g', call_id: 'id2', text: '{"b', ends: true, broken: 'It ends.'}]);
  need(!host.querySelector('.call-answer'), 'answered when the reply is complete');
  view.end({decode_usec: 5e6});
  await idle();
  need(host.querySelector('.call code').textContent === '{\n  "a": 12345678901234567890\n}', host.querySelector('.call code').textContent);
  need(host.querySelector('.call-broken').textContent.includes('It ends.'), 'why it is broken');
  const buttons = host.querySelectorAll('.call-answer button');
  need(buttons.length === 1, 'one can be answered');
  buttons[0].click();
  need(answered.length === 1 && answered[0].call_id === 'id1' && answered[0].name === 'f', JSON.stringify(answered));
  host.replaceChildren(resultsView([{call_id: 'id1', name: 'f', content: '[1,{"b":[]}]'}, {call_id: 'id2', content: 'text <b>'}]));
  for (const details of host.querySelectorAll('details'))
    details.open = true;
  await new Promise(resolve => setTimeout(resolve, 60));
  need(host.querySelector('code').textContent === '[\n  1,\n  {\n    "b": []\n  }\n]', host.querySelector('code').textContent);
  need(host.lastElementChild.textContent.includes('text <b>') && host.lastElementChild.textContent.includes('id2'), 'text');
  need(prettyJson('{"a":"\\"}, {"}') === '{\n  "a": "\\"}, {"\n}' && prettyJson('12') === null && prettyJson('{"a"') === null, 'JSON');
  host.remove();
}

export async function test_stored_parts({load, need}) {
  const {PartsView} = await load('render/part-view.js');
  const host = document.createElement('div');
  const view = new PartsView(host, {});
  view.set([{index: 0, kind: 'reasoning', text: 'x'.repeat(300)}, {index: 1, kind: 'text', text: 'y'.repeat(100)}], {decode_usec: 8e6});
  need(/6/.test(host.querySelector('summary').textContent), `about its share: ${host.querySelector('summary').textContent}`);
  view.set([{index: 0, kind: 'reasoning', text: 'x'}]);
  need(host.children.length === 1 && !/\d/.test(host.querySelector('summary').textContent), 'no time that nobody knows');
}
