// SPDX-License-Identifier: MIT
// What a model or a file may write to make the page do something: nothing is loaded, nothing runs, nothing is there that is not in the list.

const ALLOWED = new Set(('p br hr h1 h2 h3 h4 h5 h6 em strong del s code pre blockquote ul ol li table thead tbody tr th td a sup sub kbd '
  + 'span div figure button').split(' '));
const ATTRIBUTES = new Set('href rel target referrerpolicy title class dir start align role aria-label aria-live aria-pressed tabindex type scope'.split(' '));

const MARKDOWN = [
  '<script>window.hit = 1</script>', '<img src=x onerror="window.hit = 1">', '![x](https://load.invalid/a.png)', '![x](data:image/png;base64,AA==)',
  '[x](javascript:window.hit=1)', '[x](JaVaScRiPt:window.hit=1)', '[x](java\nscript:alert(1))', '[x](&#106;avascript:alert(1))', '[x](data:text/html,x)',
  '[x](vbscript:x)', '[x](file:///etc/passwd)', '[x](//evil.invalid/)', '<javascript:alert(1)>', '<https://a.invalid/"onmouseover="window.hit=1>',
  '<svg onload="window.hit=1"><a xlink:href="javascript:1">x</a></svg>', '<style>*{color:red}</style>', '<iframe srcdoc="<script>1</script>"></iframe>',
  '<base href="https://evil.invalid/">', '<form action="https://evil.invalid/"><input name=a autofocus onfocus="window.hit=1"></form>',
  '<details open ontoggle="window.hit=1">x</details>', '<p style="background:url(https://load.invalid/b)">x</p>',
  '<meta http-equiv="refresh" content="0;url=https://evil.invalid/">', '<template><script>window.hit=1</script></template>',
  '<math><mtext><mglyph><style><img src=x onerror="window.hit=1"></style></mglyph></mtext></math>', '<link rel=stylesheet href=https://load.invalid/c.css>',
  '[![a](https://load.invalid/i.png)](https://b.invalid)', '[a [b](https://c.invalid) ![d](https://load.invalid/e)](https://f.invalid "t\\" onclick=\\"x")',
  '`<img src=x onerror=window.hit=1>`', '```"><img src=x onerror=window.hit=1>\nx\n```', '```html\n<script>window.hit=1</script>\n```\n',
  '```constructor\nx\n```', '```__proto__\nx\n```', '```../../x\ny\n```', '```js onload=alert(1)\nlet a = "</code><img src=x onerror=window.hit=1>";\n```',
  '| <img src=x onerror=window.hit=1> | b |\n|---|---|\n| [x](javascript:1) | `<b>` |', '# <b id=main>x</b>', '[a]: javascript:alert(1)\n\n[a]',
  '<a href="javascript:1">x</a>', 'https://a.invalid/<script>window.hit=1</script>', '[x](https://a.invalid/?"><script>window.hit=1</script>)',
];

const FORMULAS = [
  String.raw`\href{javascript:window.hit=1}{x}`, String.raw`\url{javascript:window.hit=1}`, String.raw`\htmlId{main}{x}`, String.raw`\htmlClass{x}{y}`,
  String.raw`\htmlStyle{background:url(https://load.invalid/s)}{x}`, String.raw`\htmlData{a=b}{x}`, String.raw`\includegraphics{https://load.invalid/g.png}`,
  String.raw`\def\a{\a\a}\a`, String.raw`\rule{9999em}{9999em}`, String.raw`\text{</span><img src=x onerror=window.hit=1>}`, String.raw`\color{red;x:url(//load.invalid)}x`,
  String.raw`\pmb{x}\vec{v}\overrightarrow{AB}\sqrt[3]{x}\fbox{x}\colorbox{#ff0000}{y}\fcolorbox{red}{blue}{z}\cancel{x}\overbrace{abc}^{n}`,
  String.raw`\begin{pmatrix}1&2\\3&4\end{pmatrix}\begin{array}{c|c}1&2\\\hline3&4\end{array}\xrightarrow{abc}\widehat{abc}\oiint`, '{'.repeat(500) + '}'.repeat(500),
];

const RAW = [
  '<script>window.hit=1</script>x', '<img src="https://load.invalid/r.png">', '<a href="javascript:window.hit=1">x</a>', '<a href=" \u0001javascript:window.hit=1">x</a>',
  '<svg><style><img src=x></style></svg>', '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1&gt;">',
  '<form><math><mtext></form><form><mglyph><style></math><img src>', '<noscript><p title="</noscript><img src=x>"></noscript>', '<base href=//evil.invalid>x',
  '<svg></p><style><a id="</style><img src=1>">', '<template><img src=x></template>', '<p id=a name=b data-c=d aria-hidden=true class=e title=f>x</p>',
  '<input value=x><select><option>y</select><textarea>z</textarea><button>w</button>', '<iframe src="https://load.invalid/f"></iframe>', '<video src=x></video>',
  '<a href="mailto:a@b.invalid" target=_self rel=opener ping="https://load.invalid/p">m</a>', '<code class="language-x evil">y</code>', '<li style="color:red">x</li>',
  `${'<b>'.repeat(600)}deep${'</b>'.repeat(600)}`, '<p xmlns="http://www.w3.org/2000/svg">x</p>', '<span class="hljs-x">y</span>', '<x-y is="z">c</x-y>',
];

function watch() {
  const reported = [];
  const listen = event => reported.push(`${event.violatedDirective} ${event.blockedURI}`);
  document.addEventListener('securitypolicyviolation', listen);
  performance.clearResourceTimings();
  window.hit = 0;
  return async need => {
    await new Promise(resolve => setTimeout(resolve, 300));
    document.removeEventListener('securitypolicyviolation', listen);
    const loaded = performance.getEntriesByType('resource').map(entry => entry.name).filter(name => /\.invalid|\/x$/.test(name));
    need(loaded.length === 0, `nothing is loaded: ${loaded}`);
    need(window.hit === 0, 'nothing runs');
    return reported;
  };
}

/** Everything in a place is in the list, but what KaTeX drew. */
function check(host, need, what) {
  for (const element of host.querySelectorAll('*')) {
    if (element.closest('.katex'))
      continue;
    need(ALLOWED.has(element.localName), `${element.localName} of ${what}`);
    for (const {name, value} of element.attributes)
      need(ATTRIBUTES.has(name) || name === 'data-drawn', `${name} on ${element.localName} of ${what}: ${value}`);
    if (element.localName === 'a') {
      need(/^(?:https?:\/\/|mailto:)/.test(element.getAttribute('href')), `address of ${what}: ${element.href}`);
      need(element.rel === 'noopener noreferrer nofollow ugc' && element.target === '_blank' && element.referrerPolicy === 'no-referrer', `a link of ${what}`);
    }
  }
}

async function place(load) {
  const {TextView} = await load('render/text-view.js');
  const host = document.createElement('div');
  document.body.append(host);
  return {host, view: new TextView(host)};
}

export async function test_hostile_markdown({load, need}) {
  const done = watch();
  for (const text of [...MARKDOWN, MARKDOWN.join('\n\n')]) {
    const {host, view} = await place(load);
    view.set(text);
    await view.drawn();
    check(host, need, text);
    need(!host.querySelector('img, script, iframe, style, svg, form, input'), text);
    host.remove();
  }
  const reported = await done(need);
  need(reported.length === 0, `no violation: ${reported}`);
}

export async function test_hostile_markdown_growing({load, need}) {
  const done = watch();
  const {host, view} = await place(load);
  const text = MARKDOWN.join('\n\n');
  for (let at = 0; at < text.length; at += 9) {
    view.append(text.slice(at, at + 9));
    await view.drawn();
    check(host, need, `the first ${at + 9} characters`);
  }
  view.end();
  await view.drawn();
  host.remove();
  const reported = await done(need);
  need(reported.length === 0, `no violation: ${reported}`);
}

export async function test_hostile_formulas({load, need}) {
  const done = watch();
  const libs = await load('render/libs.js');
  const katex = await libs.load('katex');
  for (const tex of FORMULAS) {
    const {host, view} = await place(load);
    view.set(`A $${tex}$ and\n\n$$\n${tex}\n$$\n`);
    await view.drawn();
    check(host, need, tex);
    need(!host.querySelector('img, script, a, [id], [href], [onclick]'), `a formula: ${tex}`);
    need(host.textContent.length > 0, tex);
    if (katex)
      need(host.getBoundingClientRect().height < 5000, `a formula keeps its place: ${tex.slice(0, 40)}`);
    host.remove();
  }
  const reported = await done(need);
  need(reported.length === 0, `no violation: ${reported}`);
}

/** HTML that Markdown never gives: as text, or with no more than may be there. */
export async function test_hostile_html({load, need}) {
  const {toFragment} = await load('render/safe.js');
  const {ready} = await load('render/libs.js');
  await ready;
  if (!toFragment('x'))
    return;
  const done = watch();
  for (const html of RAW) {
    const host = document.createElement('div');
    document.body.append(host);
    host.append(toFragment(html));
    check(host, need, html);
    need(!host.querySelector('img, script, iframe, style, svg, math, form, input, select, button, span:not(.link-host), [id], [name]'), html);
    host.replaceChildren(toFragment(html, {code: true}));
    need([...host.querySelectorAll('*')].every(element => element.localName === 'span' && /^(hljs-[\w-]+|)$/.test(element.className)), html);
    host.remove();
  }
  const shown = html => {
    const host = document.createElement('div');
    host.append(toFragment(html));
    return host;
  };
  need(shown('<a href="javascript:x">a</a><a href="/b">b</a>').innerHTML === 'ab', 'links to nowhere are words');
  need(shown('<img src=x>').textContent === '<img src=x>', 'what is not in the list is text');
  need(shown('<code class="evil">c</code>').innerHTML === '<code>c</code>', 'classes are those of languages');
  const reported = await done(need);
  need(reported.length === 0, `no violation: ${reported}`);
}

export async function test_names_are_text({load, need}) {
  const {PartsView, resultsView} = await load('render/part-view.js');
  const host = document.createElement('div');
  document.body.append(host);
  const parts = new PartsView(host);
  const bad = '<img src=x onerror=window.hit=1>\u202e\u001b[31m';
  parts.set([{index: 0, kind: 'call', name: bad, call_id: bad, text: `{"a": "${bad.replace('\u001b', '\\u001b')}"}`}, {index: 1, kind: 'call', name: bad, text: bad, broken: bad},
    {index: 2, kind: 'reasoning', text: bad}, {index: 3, kind: 'strange', text: bad}]);
  host.append(resultsView([{call_id: bad, name: bad, content: bad}]));
  for (const details of host.querySelectorAll('details'))
    details.open = true;
  await new Promise(resolve => setTimeout(resolve, 200));
  need(!host.querySelector('img'), 'no image');
  need(host.querySelectorAll('.call-name .control').length === 3, 'what turns text is shown by its name');
  need(!host.textContent.includes('\u001b'), 'no escapes');
  host.remove();
}
