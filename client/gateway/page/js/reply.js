// SPDX-License-Identifier: MIT
// A reply from its request to its end, whatever happens to connections meanwhile.
//
//     asked ──accepted──▶ reading (the prompt is computed) ──delta──▶ writing ──done──▶ over
//       │                    └──────────────┬───────────────┘
//       │ refused                           │ the stream breaks
//       ▼                                   ▼
//     failed ◀──not there any more── broken ──attach behind the last event──▶ reading or writing
//
// 1. Replies are detached: they go on when the page goes. `leave()` ends reading, `stop()` ends the reply.
// 2. A request says which revision it expects. So where no answer came it is known whether it was taken: not if the revision is the same, or somebody
//    else's message is there.
// 3. Attaching goes on behind the last event: nothing is missed or told twice.
import {ApiError, conversationPath, get, post, stream} from './api.js';
import {store} from './store.js';

const FIRST_WAIT = 250;
const LONGEST_WAIT = 4000;
const RECENT = 8; // turns among which a message is that may have been taken

export class Reply {
	#ends = new AbortController();
	#lastId = null;
	#over = false;

	/**
	 * `tell(kind, data)` is told: accepted, progress, delta, done (as the events are), `broken` (data: the error) and `resumed`,
	 * `failed` (data: the error; nothing more comes; `accepted` of this says whether the message was taken).
	 */
	constructor(id, tell) {
		this.id = id;
		this.tell = tell;
		this.accepted = false;
	}

	/** Asks for it. `body` as in docs/http.md, `revision` the one that the conversation has. */
	async start(body, revision) {
		this.expected = revision;
		this.message = body.message;
		const options = {body: {want_parts: true, detach: true, expect_revision: revision, ...body}, signal: this.#ends.signal};
		await this.#follow(() => stream('POST', conversationPath(this.id, 'continue'), options));
	}

	/** Follows the one that is being written, from its beginning. */
	async attach() {
		this.accepted = true;
		await this.#follow(() => this.#attached());
	}

	#attached() {
		return stream('GET', conversationPath(this.id, 'attach'),
			{query: {want_parts: true}, lastEventId: this.#lastId, signal: this.#ends.signal});
	}

	async #follow(open) {
		let wait = FIRST_WAIT;
		for (let broke; ;) {
			try {
				if (await this.#read(open()))
					wait = FIRST_WAIT;
				if (this.#over)
					return;
				broke = new ApiError('offline', '', {retry: true});
			} catch (error) {
				if (this.#ends.signal.aborted)
					return;
				if (!(error instanceof ApiError)) {
					this.tell('failed', new ApiError('unknown', error.message));
					throw error;
				}
				if (!isBreak(error)) {
					this.tell('failed', error);
					return;
				}
				broke = error;
			}
			this.tell('broken', broke);
			open = await this.#resume(wait, broke);
			if (!open)
				return;
			wait = Math.min(2 * wait, LONGEST_WAIT);
		}
	}

	/** Whether anything came. */
	async #read(events) {
		let some = false;
		for await (const {id, event, data} of events) {
			if (some === false && this.#lastId !== null)
				this.tell('resumed', null);
			some = true;
			this.#lastId = id ?? this.#lastId;
			this.accepted = true;
			if (event === 'done')
				this.#over = true;
			this.tell(event, data);
		}
		return some;
	}

	/** Waits until the daemon can say whether there is something to attach to. How to go on; null: not at all. */
	async #resume(wait, broke) {
		for (;;) {
			await this.#pause(wait);
			if (this.#ends.signal.aborted)
				return null;
			let conversation;
			try {
				conversation = await get(this.id, {turns: !this.accepted, max_turns: RECENT}, this.#ends.signal);
			} catch (error) {
				if (this.#ends.signal.aborted)
					return null;
				if (error instanceof ApiError && isBreak(error)) {
					wait = Math.min(2 * wait, LONGEST_WAIT);
					continue;
				}
				this.tell('failed', error);
				return null;
			}
			if (!this.accepted && conversation.revision === this.expected) {
				if (conversation.busy) // it may be on its way: what could be attached to now is the reply before
					continue;
				this.tell('failed', broke);
				return null;
			}
			if (!this.accepted && this.message !== undefined && !conversation.turns.some(({role, text}) => role === 'user' && text === this.message)) {
				this.tell('failed', new ApiError('conflict', ''));
				return null;
			}
			this.accepted = true;
			return () => this.#attached();
		}
	}

	#pause(ms) {
		return new Promise(resolve => {
			const stop = store.on('connection', state => state === 'live' && end());
			const timer = setTimeout(end, ms);
			this.#ends.signal.addEventListener('abort', end, {once: true});
			function end() {
				clearTimeout(timer);
				stop();
				resolve();
			}
		});
	}

	/** Ends the reply; what there is of it stays. */
	async stop() {
		await post(this.id, 'cancel');
	}

	/** Reads no more of it. It goes on. */
	leave() {
		this.#ends.abort();
	}
}

/** The connection or the daemon went; the reply may be there still. */
function isBreak(error) {
	return ['offline', 'disconnected', 'no_daemon', 'unavailable', 'shutdown', 'protocol'].includes(error.code);
}
