// SPDX-License-Identifier: MIT
// Text files in a message, as the model reads them: a line with the name, the text, a line that ends it. The page folds them. Pure.

const OPEN = /^<file name="([^"\n]*)">$/;
const CLOSE = '</file>';

/** A message with files behind it. A line of a file that looks like its end is indented by a blank, so it ends nothing. */
export function joinFiles(text, files) {
	const parts = text.trim() ? [text.trim()] : [];
	for (const file of files) {
		const body = file.text.replace(/\n$/, '').replace(/^<\/file>$/gm, ` ${CLOSE}`);
		parts.push(`<file name="${file.name.replace(/["\n\r]/g, '_')}">\n${body}\n${CLOSE}`);
	}
	return parts.join('\n\n');
}

/** The opposite: [{text}] and [{name, text}] in their order. A file that does not end is text. */
export function splitFiles(message) {
	const pieces = [], lines = message.split('\n');
	let text = [], i = 0;
	const flush = () => {
		const joined = text.join('\n').replace(/^\n+|\n+$/g, '');
		if (joined)
			pieces.push({text: joined});
		text = [];
	};
	while (i < lines.length) {
		const name = OPEN.exec(lines[i])?.[1];
		const end = name === undefined ? -1 : lines.indexOf(CLOSE, i + 1);
		if (end < 0) {
			text.push(lines[i++]);
			continue;
		}
		flush();
		pieces.push({name, text: lines.slice(i + 1, end).join('\n')});
		i = end + 1;
	}
	flush();
	return pieces;
}
