// SPDX-License-Identifier: MIT
// Elements are made without HTML, whatever they are made of.

const HOSTILE = '<img src=x onerror="document.title = 1"><script>document.title = 1</script>&amp;';

export async function test_text_is_text({load, need}) {
  const {h, fill, svg} = await load('js/dom.js');
  const element = h('p', {title: HOSTILE, 'aria-label': HOSTILE}, HOSTILE, [h('b', {}, HOSTILE), null, false, undefined, [0, '']]);
  need(element.textContent === HOSTILE + HOSTILE + '0' && element.children.length === 1, element.outerHTML);
  need(element.title === HOSTILE && element.getAttribute('aria-label') === HOSTILE, 'attributes');
  fill(element, HOSTILE);
  need(element.textContent === HOSTILE && element.children.length === 0, 'filled anew');
  const drawn = svg('g', {}, svg('title', {}, HOSTILE));
  need(drawn.namespaceURI.endsWith('/svg') && drawn.firstChild.textContent === HOSTILE && drawn.firstChild.children.length === 0, 'SVG');
}

export async function test_properties({load, need}) {
  const {h} = await load('js/dom.js');
  const input = h('input', {type: 'text', value: 'a', disabled: true, hidden: false, class: 'x y', dataset: {id: 5}, maxlength: 3, required: true, title: null,
    alt: undefined, spellcheck: 'false', autofocus: false});
  need(input.value === 'a' && input.disabled && !input.hidden && input.className === 'x y' && input.dataset.id === '5', input.outerHTML);
  need(input.getAttribute('maxlength') === '3' && input.getAttribute('required') === '' && input.getAttribute('spellcheck') === 'false', input.outerHTML);
  need(!input.hasAttribute('title') && !input.hasAttribute('alt') && !input.hasAttribute('autofocus'), input.outerHTML);
  let clicked = 0;
  h('button', {on: {click: () => clicked++}}).click();
  need(clicked === 1, 'a listener');
}

export async function test_once_per_frame({load, need}) {
  const {perFrame, settled} = await load('js/dom.js');
  let n = 0;
  const draw = perFrame(() => n++);
  for (let i = 0; i < 10; i++)
    draw();
  need(n === 0, 'not at once');
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  need(n === 1, `${n} times`);
  draw();
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  need(n === 2, 'and again');
  const last = await new Promise(resolve => {
    const say = settled(resolve, 10);
    for (let i = 0; i < 5; i++)
      say(i);
  });
  need(last === 4, 'the last one counts');
}
