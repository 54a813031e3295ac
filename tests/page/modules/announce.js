// SPDX-License-Identifier: MIT
// What is said to those who do not see: whole sentences, and each of them once.

function region() {
  const element = document.createElement('div');
  element.id = 'announcements';
  document.body.replaceChildren(element);
  return element;
}

const said = element => [...element.children].map(one => one.textContent);

export async function test_by_sentence({load, need}) {
  const {Sentences} = await load('js/announce.js');
  const element = region();
  const sentences = new Sentences();
  for (const piece of ['Hel', 'lo', ' you. How', ' are', ' you?'])
    sentences.add(piece);
  need(said(element).join('|') === 'Hello you.', said(element));
  sentences.add(' Fine');
  need(said(element).join('|') === 'Hello you.|How are you?', said(element));
  sentences.end();
  need(said(element).join('|') === 'Hello you.|How are you?|Fine', said(element));
  sentences.end();
  need(said(element).length === 3, 'the end is said once');
}

export async function test_numbers_are_no_ends({load, need}) {
  const {Sentences} = await load('js/announce.js');
  const element = region();
  const sentences = new Sentences();
  for (const c of 'It is 3.14, at example.org; really')
    sentences.add(c);
  need(said(element).length === 0, said(element));
  sentences.add('.\n\nNext paragraph\n\n');
  need(said(element).join(' ').includes('3.14, at example.org; really.'), said(element));
}

export async function test_other_scripts({load, need}) {
  const {Sentences} = await load('js/announce.js');
  const element = region();
  const sentences = new Sentences();
  sentences.add('كيف حالك؟ بخير. ');
  need(said(element).join(' ').includes('كيف حالك؟'), said(element));
}

export async function test_bounded({load, need}) {
  const {announce, Sentences} = await load('js/announce.js');
  const element = region();
  announce('   ');
  need(element.children.length === 0, 'nothing is not said');
  for (let i = 0; i < 500; i++)
    announce(`Sentence ${i}.`);
  need(element.children.length < 50 && said(element).at(-1) === 'Sentence 499.', `${element.children.length}`);
  announce('x'.repeat(1e6));
  need(said(element).at(-1).length < 10000, 'a long one is cut');
  announce('<b>not HTML</b>');
  need(said(element).at(-1) === '<b>not HTML</b>' && element.querySelector('b') === null, 'text');
  const begin = performance.now();
  const sentences = new Sentences();
  for (let i = 0; i < 20000; i++)
    sentences.add('word ');
  console.log(`announce: 100 KB without an end in ${(performance.now() - begin).toFixed(0)} ms`);
  need(performance.now() - begin < 5000, 'time for a text without sentences');
}
