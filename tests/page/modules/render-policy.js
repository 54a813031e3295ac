// SPDX-License-Identifier: MIT
// Trusted Types: one policy is made, which is DOMPurify's.

export async function test_one_policy({load, need}) {
  if (!window.trustedTypes)
    return;
  const made = [];
  const create = window.trustedTypes.createPolicy.bind(window.trustedTypes);
  Object.defineProperty(window.trustedTypes, 'createPolicy', {configurable: true, value: (name, rules) => {
    made.push(name);
    return create(name, rules);
  }});
  const libs = await load('render/libs.js');
  const {TextView} = await load('render/text-view.js');
  const host = document.createElement('div');
  const view = new TextView(host);
  view.set('**a** $x$\n\n```js\nf(1)\n```\n');
  await Promise.all(['markdownit', 'purify', 'hljs', 'katex'].map(libs.load));
  await view.drawn();
  delete window.trustedTypes.createPolicy;
  need(made.length === (libs.libs.purify ? 1 : 0) && made.every(name => name === 'dompurify'), `policies: ${made}`);
  need(!libs.libs.purify || host.querySelector('strong'), 'and it works');
}
