// SPDX-License-Identifier: MIT
// Requests to /confab/v1, beside the document wherever it lies. Every failure is an ApiError with a code of the protocol; what never
// reached the gateway has the code `offline`. The token of TCP comes by the fragment, and stays in this tab alone.
import {SseParser} from './sse.js';

const TOKEN = 'confab.token';
let model = null;

export class ApiError extends Error {
	/** `retry`: the same request may succeed later. `param`: the field that is wrong, or null. */
	constructor(code, message, {status = 0, retry = false, param = null} = {}) {
		super(message);
		this.name = 'ApiError';
		Object.assign(this, {code, status, retry, param});
	}
}

/**
 * Takes the token out of the address, which is then as if it had never been there. In its place there may be a code, for which the gateway gives
 * the token once (--open). Throws ApiError where the code is of no use any more.
 */
export async function takeToken() {
	const [, kind, value] = /^#(token|once)=([^&]*)$/.exec(location.hash) ?? [];
	if (!kind)
		return;
	history.replaceState(null, '', location.pathname + location.search + '#/');
	const given = decodeURIComponent(value);
	setToken(kind === 'token' ? given : (await call('POST', 'session', {body: {code: given}})).token);
}

export function setToken(token) {
	if (token)
		sessionStorage.setItem(TOKEN, token);
	else
		sessionStorage.removeItem(TOKEN);
}

/** The daemon that requests go to: the name of its model; null: the first one. */
export function setModel(name) {
	model = name;
}

export function getModel() {
	return model;
}

export function conversationPath(id, verb = '') {
	return `conversations/${encodeURIComponent(id)}${verb ? `/${verb}` : ''}`;
}

/** A conversation as it is, with what `query` asks for. */
export function get(id, query, signal) {
	return call('GET', conversationPath(id), {query, signal});
}

/** A verb that changes a conversation, or begins something in it. */
export function post(id, verb, body = {}) {
	return call('POST', conversationPath(id, verb), {body});
}

export function patch(id, body) {
	return call('PATCH', conversationPath(id), {body});
}

function address(path, query) {
	const url = new URL(`confab/v1/${path}`, document.baseURI);
	for (const [name, value] of Object.entries(query))
		if (value !== undefined && value !== null)
			url.searchParams.set(name, value);
	return url;
}

async function send(method, path, {query, body, signal, lastEventId, keepalive} = {}) {
	const token = sessionStorage.getItem(TOKEN);
	const headers = {
		...(body === undefined ? {} : {'Content-Type': 'application/json'}),
		...(lastEventId ? {'Last-Event-ID': lastEventId} : {}),
		...(token ? {Authorization: `Bearer ${token}`} : {}),
	};
	let response;
	try {
		response = await fetch(address(path, {...query, model}), {
			method, headers, signal, keepalive, cache: 'no-store', credentials: 'omit', redirect: 'error', referrerPolicy: 'no-referrer',
			body: body === undefined ? undefined : JSON.stringify(body),
		});
	} catch (error) {
		throw broken(error);
	}
	if (!response.ok)
		throw await refusal(response);
	return response;
}

/** What never reached the gateway, or did not come back from it; what somebody ended is that. */
function broken(error) {
	return error.name === 'AbortError' ? error : new ApiError('offline', String(error.message), {retry: true});
}

async function refusal(response) {
	let told = {};
	try {
		told = (await response.json()).error ?? {};
	} catch {
		// A proxy in between answers in words of its own.
	}
	const code = told.code ?? (response.status === 401 ? 'permission' : response.status >= 500 ? 'unavailable' : 'invalid');
	const error = new ApiError(code, told.message ?? `${response.status} ${response.statusText}`,
		{status: response.status, retry: told.retry ?? response.status >= 500, param: told.param ?? null});
	if (response.status === 401)
		globalThis.dispatchEvent(new CustomEvent('confab-token-needed'));
	return error;
}

/** One request, its answer as it is parsed. AbortError if `signal` ended it. */
export async function call(method, path, options) {
	const response = await send(method, path, options);
	try {
		return response.status === 204 ? null : await response.json();
	} catch (error) {
		throw broken(error);
	}
}

/**
 * The events of a stream: {id, event, data}, the data parsed. It ends when the stream does, whether that was its proper end or not; an event
 * `error` is thrown as an ApiError, and a connection that breaks as one with the code `offline`.
 */
export async function* stream(method, path, options) {
	const response = await send(method, path, options);
	if (response.status === 204)
		return;
	const reader = response.body.getReader();
	const decoder = new TextDecoder();
	const parser = new SseParser();
	try {
		for (;;) {
			const {done, value} = await read(reader);
			if (done)
				return;
			for (const event of parser.push(decoder.decode(value, {stream: true}))) {
				if (event.comment !== undefined)
					continue;
				const data = parsed(event.data);
				if (event.event === 'error')
					throw new ApiError(data.code, data.message, {retry: data.retry});
				yield {id: event.id, event: event.event, data};
			}
		}
	} finally {
		reader.cancel().catch(() => {});
	}
}

function parsed(text) {
	try {
		return JSON.parse(text);
	} catch (error) {
		throw new ApiError('protocol', error.message);
	}
}

async function read(reader) {
	try {
		return await reader.read();
	} catch (error) {
		throw broken(error);
	}
}
