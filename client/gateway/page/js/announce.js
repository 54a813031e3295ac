// SPDX-License-Identifier: MIT
// The live region. A reply that grows is read out sentence by sentence: a screen reader that is told every token says nothing that can be
// understood. The region has what was said last; each sentence is an element of its own, so that it is read once.
import {h} from './dom.js';

const KEEP = 6;
const LONGEST = 400;
// The end of a sentence: its sign, what closes behind it, and white space; or the end of a paragraph.
const END = /[.!?…。！？؟](?:["'”’»)\]]*)(?=\s)|\n{2,}/gu;

/** Says a text at the next pause of the reader. */
export function announce(text) {
	const region = document.getElementById('announcements');
	if (!region || !text.trim())
		return;
	region.append(h('p', text.trim().slice(0, LONGEST)));
	while (region.children.length > KEEP)
		region.firstElementChild.remove();
}

/** Collects a growing text and announces its sentences when they are complete. */
export class Sentences {
	#rest = '';

	add(text) {
		this.#rest += text;
		let last = 0;
		for (const match of this.#rest.matchAll(END))
			last = match.index + match[0].length;
		if (last === 0) {
			// More of it would not be said; its end is still looked for.
			if (this.#rest.length > 2 * LONGEST)
				this.#rest = this.#rest.slice(0, LONGEST) + this.#rest.slice(-8);
			return;
		}
		announce(this.#rest.slice(0, last));
		this.#rest = this.#rest.slice(last);
	}

	addParts(parts) {
		for (const {kind, text} of parts)
			if (kind === 'text')
				this.add(text ?? '');
	}

	end() {
		announce(this.#rest);
		this.#rest = '';
	}
}
