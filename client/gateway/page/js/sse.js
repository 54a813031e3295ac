// SPDX-License-Identifier: MIT
// Server-sent events from bytes, as the HTML standard has them, but for what confab never sends (retry:).

/** Takes text as it comes and hands out whole events: {id, event, data}. A comment is an event of its own, {comment}. */
export class SseParser {
	#rest = '';
	#id = null;
	#event = 'message';
	#data = [];

	/** The events that are complete with `text`. */
	*push(text) {
		this.#rest += text;
		let begin = 0;
		for (;;) {
			const end = this.#rest.indexOf('\n', begin);
			if (end < 0)
				break;
			const line = this.#rest.slice(begin, this.#rest[end - 1] === '\r' && end > begin ? end - 1 : end);
			begin = end + 1;
			yield* this.#line(line);
		}
		this.#rest = this.#rest.slice(begin);
	}

	*#line(line) {
		if (line === '') {
			if (this.#data.length > 0)
				yield {id: this.#id, event: this.#event, data: this.#data.join('\n')};
			this.#event = 'message';
			this.#data = [];
			return;
		}
		const colon = line.indexOf(':');
		if (colon === 0) {
			yield {comment: line.slice(1).trim()};
			return;
		}
		const name = colon < 0 ? line : line.slice(0, colon);
		const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
		if (name === 'data')
			this.#data.push(value);
		else if (name === 'event')
			this.#event = value;
		else if (name === 'id')
			this.#id = value;
	}
}
