// SPDX-License-Identifier: MIT
// What is set for a conversation: its name, tags, sampling, the end of the context, the text of the
// system. The first ones are the conversation's; another text of the system makes another conversation, since everything behind it is read anew.
import {call, conversationPath, get, patch, post} from './api.js';
import {dialog, note} from './dialogs.js';
import {h} from './dom.js';
import {t} from './i18n.js';
import {store} from './store.js';

const SAMPLING = [
	['temperature', {min: 0, max: 10, step: 0.05}], ['top_p', {min: 0, max: 1, step: 0.01}], ['top_k', {min: 0, step: 1}],
	['min_p', {min: 0, max: 1, step: 0.01}], ['repetition_penalty', {min: 0, max: 10, step: 0.05}], ['seed', {pattern: '[0-9]*'}],
];
const PAGE = 200;

export function field(label, input, hint) {
	const id = `f-${Math.random().toString(36).slice(2)}`;
	input.id = id;
	if (hint)
		input.setAttribute('aria-describedby', `${id}-h`);
	return h('p.field', h('label', {for: id}, label), input, hint && h('span.hint', {id: `${id}-h`}, hint));
}

/** Fields for sampling; `read()` gives what is to hold, with what has no field here. */
export function samplingFields(sampling = {}) {
	const inputs = SAMPLING.map(([name, limits]) => [name, h('input', {
		type: name === 'seed' ? 'text' : 'number', inputmode: name === 'seed' ? 'numeric' : null, value: sampling[name] ?? '',
		placeholder: t('settings.default'), ...limits,
	})]);
	const element = h('fieldset.sampling', h('legend', t('settings.sampling')),
		inputs.map(([name, input]) => field(t(`settings.${name}`), input)));
	const valueOf = (name, {value}) => value === '' ? undefined : name === 'seed' ? value : Number(value);
	const read = () => ({...sampling, ...Object.fromEntries(inputs.map(([name, input]) => [name, valueOf(name, input)]))});
	return {element, read};
}

function tagsOf(text) {
	return [...new Set(text.split(',').map(tag => tag.trim().replace(/^#/, '')).filter(Boolean))];
}

async function allTurns(id) {
	const turns = [];
	for (;;) {
		const told = await get(id, {turns: true, parts: true, from_turn: turns.length, max_turns: PAGE});
		turns.push(...told.turns ?? []);
		if (turns.length >= told.n_turns || !told.turns?.length)
			return turns;
	}
}

function messageOf(turn) {
	if (turn.role === 'tool')
		return {role: 'tool', results: turn.results ?? []};
	if (turn.role !== 'assistant')
		return {role: turn.role === 'raw' ? 'user' : turn.role, text: turn.text};
	const of = kind => (turn.parts ?? []).filter(part => part.kind === kind);
	const textOf = kind => of(kind).map(part => part.text).join('');
	const calls = of('call').filter(part => !part.broken).map(part => ({id: part.call_id, name: part.name, arguments: part.text}));
	return {
		role: 'assistant', text: textOf('text'), reasoning: textOf('reasoning') || undefined, calls: calls.length > 0 ? calls : undefined,
	};
}

/** The same conversation with another text of the system: a new one. */
async function withSystem(conversation, system) {
	const {sampling, overflow, tools} = conversation;
	const turns = (await allTurns(conversation.id)).filter((turn, i) => !(i === 0 && turn.role === 'system'));
	const made = await call('POST', 'conversations', {body: {
		system: system || undefined, sampling, overflow, tools,
		about: {title: store.titleOf(conversation), tags: conversation.about?.tags, metadata: conversation.about?.metadata},
	}});
	try {
		if (turns.length > 0)
			await post(made.id, 'continue', {messages: turns.map(messageOf), max_tokens: 0, stream: false, detach: true});
	} catch (error) {
		await call('DELETE', conversationPath(made.id));
		throw error;
	}
	return made.id;
}

/** The dialog; `onOpen(id)` shows a conversation that it made. */
export async function showSettings(id, onOpen) {
	const conversation = await get(id, {turns: true, max_turns: 1, from_turn: 0});
	const first = conversation.turns?.[0];
	const before = first?.role === 'system' ? first.text : '';
	const title = h('input', {type: 'text', value: conversation.about?.title ?? '', maxlength: 200, dir: 'auto'});
	const name = h('input', {type: 'text', value: conversation.name, maxlength: 200, required: true, dir: 'auto'});
	const tags = h('input', {type: 'text', value: (conversation.about?.tags ?? []).join(', '), dir: 'auto'});
	const system = h('textarea', {rows: 4, value: before, dir: 'auto'});
	const shift = h('input', {type: 'checkbox', checked: conversation.overflow === 'shift'});
	const sampling = samplingFields(conversation.sampling);

	async function save() {
		const changed = await patch(id, {
			name: name.value !== conversation.name ? name.value : undefined,
			sampling: sampling.read(), reset_sampling: true, overflow: shift.checked ? 'shift' : 'error', about: {title: title.value, tags: tagsOf(tags.value)},
		});
		store.put(changed);
		if (system.value !== before) {
			const made = await withSystem({...conversation, ...changed}, system.value);
			note(t('settings.systemMade'));
			onOpen(made);
		}
	}
	await dialog(t('settings.title'), h('div.settings',
		field(t('settings.name'), title), field(t('settings.tags'), tags, t('settings.tags.hint')),
		field(t('settings.id'), name, t('settings.id.hint')), sampling.element,
		h('p.field.check', h('label', shift, ' ', t('settings.shift'))),
		field(t('settings.system'), system, t('settings.system.hint'))),
	[{label: t('save'), run: save, primary: true}]);
}

/** What a new conversation may be given: {element, read()} → fields of Open. */
export function newFields() {
	const system = h('textarea', {rows: 3, dir: 'auto'});
	const sampling = samplingFields();
	const element = h('details.new-fields', h('summary', t('new.settings')), field(t('settings.system'), system, t('new.system.hint')), sampling.element);
	const read = () => ({system: system.value.trim() || undefined, sampling: sampling.read()});
	return {element, read};
}
