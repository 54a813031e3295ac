// SPDX-License-Identifier: MIT
// The Watch stream: it keeps the store true, tells who has the conversation open, and knows whether gateway and daemon are there.
//
//     connecting ──first notice──▶ live ──the stream ends──▶ offline (no gateway) or waiting (no daemon) ──▶ connecting ...
//
// Where a stream breaks, the next goes on behind the last notice. If notices are lost (`list_again`), the list is read anew.
// A browser has six connections to a host for all its tabs: one that nobody sees gives its own up, until it is looked at, as soon as another tab watches.
import {ApiError, stream} from './api.js';
import {store} from './store.js';

const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;
const STATS_EVERY = 2000;
const AT_ONCE = 4; // conversations that are asked for at the same time

let cursor = null;
let fingerprint = null;
let ends = null;

const asked = new Set();
let running = 0;

/** The conversation is asked for anew, once for all who want it meanwhile. */
export function wantRefresh(id) {
	asked.add(id);
	while (running < AT_ONCE && asked.size > 0) {
		const next = asked.values().next().value;
		asked.delete(next);
		running++;
		store.refresh(next).catch(() => {}).finally(() => {
			running--;
			if (asked.size > 0)
				wantRefresh(asked.values().next().value);
		});
	}
}

function take(notice) {
	if (notice.kind === 'model') {
		if (fingerprint !== null && fingerprint !== notice.fingerprint)
			store.refreshModels(notice.model).catch(() => {});
		({fingerprint} = notice);
	} else if (notice.kind === 'list_again') {
		store.load().catch(() => {});
	} else if (notice.kind === 'closed') {
		store.remove(notice.conversation);
	} else if (notice.conversation) {
		wantRefresh(notice.conversation);
	}
	store.tell('notice', notice);
}

const tabs = new BroadcastChannel('confab-watch');
tabs.onmessage = () => document.hidden && ends?.abort();

async function follow(signal) {
	tabs.postMessage('');
	for await (const {id, event, data} of stream('GET', 'watch', {signal, lastEventId: cursor})) {
		if (event !== 'notice')
			continue;
		cursor = id ?? cursor;
		if (store.connection !== 'live') {
			store.setConnection('live');
			pollStats();
		}
		take(data);
	}
	throw new ApiError('offline', '', {retry: true});
}

function afterFailure(error) {
	if (error.status === 401)
		return 'token';
	return error.code === 'offline' ? 'offline' : 'waiting';
}

/** Follows what happens until the page ends. */
export async function watch() {
	let wait = FIRST_WAIT;
	for (;;) {
		while (document.hidden || left)
			await new Promise(resolve => wake = resolve);
		ends = new AbortController();
		try {
			await follow(ends.signal);
		} catch (error) {
			if (error.name === 'AbortError')
				continue;
			if (store.connection === 'live')
				wait = FIRST_WAIT;
			store.setConnection(afterFailure(error));
			if (error.code === 'invalid') // a cursor that nobody knows
				cursor = null;
		}
		await pause(wait);
		wait = Math.min(wait * 2, LONGEST_WAIT);
	}
}

let wake = () => {};

function pause(ms) {
	return new Promise(resolve => {
		const timer = setTimeout(resolve, ms);
		wake = () => {
			clearTimeout(timer);
			resolve();
		};
	});
}

export function retryNow() {
	wake();
}

/** Another daemon is asked from now on. */
export function watchAnew() {
	cursor = null;
	fingerprint = null;
	ends?.abort();
	wake();
}

let statsTimer = 0;

/** Figures come while somebody looks. */
function pollStats() {
	clearTimeout(statsTimer);
	if (document.hidden || store.connection !== 'live')
		return;
	store.refreshStats().catch(() => {}).finally(() => {
		clearTimeout(statsTimer);
		statsTimer = setTimeout(pollStats, STATS_EVERY);
	});
}

let left = false;

document.addEventListener('visibilitychange', () => {
	if (document.hidden)
		return;
	retryNow();
	pollStats();
});
addEventListener('online', retryNow);
// A page that is kept for the way back keeps no connection: browsers have six for all pages of a place.
addEventListener('pagehide', () => {
	left = true;
	ends?.abort();
});
addEventListener('pageshow', () => {
	left = false;
	retryNow();
});
