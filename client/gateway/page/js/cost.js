// SPDX-License-Identifier: MIT
// What the next prompt will cost: its new tokens, and where the memory of those before it lies. New tokens are those of the text, as
// the daemon counts them, and what the template writes around it, which is learned from the last message of the conversation.
import {call, get} from './api.js';

const TYPICAL_AROUND = 8;
const LONGEST_COUNTED = 400000; // characters; longer ones are estimated
const PER_TOKEN = 4;
const around = new Map(); // id -> tokens of the template

/** Tokens of a text. AbortError if `signal` ended it. */
export async function countTokens(text, signal) {
	if (text === '')
		return 0;
	if (text.length > LONGEST_COUNTED)
		return Math.ceil(text.length / PER_TOKEN);
	const {tokens} = await call('POST', 'tokenize', {body: {text}, signal});
	return tokens.length;
}

async function templateOf(conversation, signal) {
	const known = around.get(conversation.id);
	if (known !== undefined)
		return known;
	const {turns = []} = await get(conversation.id, {turns: true, max_turns: 2}, signal);
	const turn = turns.findLast(one => one.role === 'user');
	let n = TYPICAL_AROUND;
	if (turn)
		n = Math.max(0, turn.end - turn.start - await countTokens(turn.text ?? '', signal));
	around.set(conversation.id, n);
	return n;
}

/**
 * {added, remembered, where, context, over}: tokens that are new; those that are remembered, and where ('resident', ... as residency says, or 'none');
 * of the context; whether it is exceeded. `conversation` null: a new one.
 */
export async function costOf(text, conversation, model, signal) {
	const added = await countTokens(text, signal) + (conversation?.n_turns > 0 ? await templateOf(conversation, signal) : TYPICAL_AROUND);
	const dropped = conversation ? (conversation.dropped_to ?? 0) - (conversation.dropped_from ?? 0) : 0;
	const remembered = conversation ? conversation.n_tokens - dropped : 0;
	const context = model?.context ?? 0;
	return {added, remembered, where: remembered > 0 ? conversation.residency : 'none', context, over: context > 0 && added + remembered >= context};
}
