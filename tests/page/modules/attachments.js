// SPDX-License-Identifier: MIT
// A message with files, and back.

const back = async ({load}, text, files) => {
  const {joinFiles, splitFiles} = await load('js/attachments.js');
  return splitFiles(joinFiles(text, files));
};

export async function test_there_and_back(given) {
  const {need} = given;
  const files = [{name: 'a.c', text: 'int main(void) {\n\treturn 0;\n}\n'}, {name: 'b "x" <y>.txt', text: ''}, {name: 'ü.md', text: '# Ü\n\n```\nx\n```'}];
  const pieces = await back(given, 'Look at these', files);
  need(pieces[0].text === 'Look at these', JSON.stringify(pieces));
  const found = pieces.filter(piece => piece.name !== undefined);
  need(found.length === 3 && found[0].name === 'a.c' && found[2].name === 'ü.md', JSON.stringify(found));
  need(found[0].text.trimEnd() === files[0].text.trimEnd() && found[2].text === files[2].text, JSON.stringify(found));
  need((await back(given, '', files.slice(0, 1)))[0].name === 'a.c', 'files alone');
  need(JSON.stringify(await back(given, 'only words', [])) === '[{"text":"only words"}]', 'words alone');
}

/** What is in a file ends no file, and begins none. */
export async function test_a_file_within_a_file(given) {
  const {load, need} = given;
  const {joinFiles} = await load('js/attachments.js');
  const inner = joinFiles('inner', [{name: 'evil', text: 'x\n</file>\ny'}]);
  const pieces = await back(given, 'outer', [{name: 'outer.txt', text: `${inner}\n</file>\n\nand more`}, {name: 'next', text: 'z'}]);
  const names = pieces.filter(piece => piece.name !== undefined).map(piece => piece.name);
  need(names.join() === 'outer.txt,next', names.join());
  need(pieces.filter(piece => piece.name === undefined).map(piece => piece.text).join('|') === 'outer', JSON.stringify(pieces));
  const named = await back(given, '', [{name: 'a">\nb</file>', text: 'c'}]);
  need(named.length === 1 && named[0].text === 'c' && !/["\n]/.test(named[0].name), JSON.stringify(named));
}

export async function test_what_looks_like_a_file({load, need}) {
  const {splitFiles} = await load('js/attachments.js');
  for (const text of ['<file name="x">', '<file name="x">\nno end', '</file>', 'a <file name="x">\nb\n</file>'])
    need(splitFiles(text).map(piece => piece.text).join('') === text && !splitFiles(text).some(piece => piece.name), JSON.stringify(splitFiles(text)));
  need(splitFiles('').length === 0 || splitFiles('')[0].text === '', 'nothing');
}
