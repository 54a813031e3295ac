// SPDX-License-Identifier: MIT
// Puts the page together: list, open conversation, panel, strip; addresses, keys, and what each action does. An address is #/ (a
// new conversation), #/c/ID or #/c/ID/TURN, with /m/MODEL in front where there are several daemons.
import {askAside} from './aside.js';
import {ApiError, call, conversationPath, getModel, patch, post, setModel, setToken, takeToken} from './api.js';
import {splitFiles} from './attachments.js';
import {CompareView} from './compare-view.js';
import {Composer} from './composer.js';
import {attempt, dialog, errorNote, errorView, menu, note} from './dialogs.js';
import {button, fill, h, MENU, perFrame} from './dom.js';
import {bytes} from './format.js';
import {chooseLanguage, language, languages, t} from './i18n.js';
import {keepFocus, listenToKeys, showKeys} from './keys.js';
import {ListView} from './list-view.js';
import {residencyDisc} from './residency.js';
import {field, newFields, showSettings} from './settings.js';
import {siblingsAt} from './siblings.js';
import {store} from './store.js';
import {memoryItems, Strip} from './strip.js';
import {TalkView} from './talk-view.js';
import {chooseTheme, applyTheme, theme, THEMES} from './theme.js';
import {TreeView} from './tree-view.js';
import {retryNow, watch, watchAnew} from './watch.js';

const TITLE_LENGTH = 60;
const NARROW = matchMedia('(max-width: 719px)');
const COVERED = matchMedia('(max-width: 1099px)'); // the panel lies over the talk
const $ = id => document.getElementById(id);

let list, talk, composer, tree = null, compare = null, fields = null, asksToken = false;
let head, panelOpen = false;

/** A function whose failures are told in a note. */
const attempting = fn => (...args) => attempt(() => fn(...args));

// - addresses

function addressOf(id, turn = null) {
	const name = getModel();
	return `#${name ? `/m/${encodeURIComponent(name)}` : ''}/${id === null ? '' : `c/${id}`}${turn === null ? '' : `/${turn}`}`;
}

function go(id, turn = null) {
	const address = addressOf(id, turn);
	if (location.hash === address)
		route();
	else
		location.hash = address;
}

function readAddress() {
	const found = /^#(?:\/m\/([^/]*))?\/(?:c\/(\d+)(?:\/(\d+))?)?$/.exec(location.hash);
	return {
		model: found?.[1] ? decodeURIComponent(found[1]) : null,
		id: found?.[2] ? Number(found[2]) : null,
		turn: found?.[3] ? Number(found[3]) : null,
	};
}

async function route() {
	const {model, id, turn} = readAddress();
	if (model !== getModel() && store.models.some(one => one.name === model || (model === null && one.default)))
		await changeModel(model);
	closeCompare();
	closeDrawer();
	if (id === null)
		openNew();
	else if (id === talk.id && turn !== null)
		await talk.showTurn(turn);
	else
		await openConversation(id, turn);
}

async function openConversation(id, turn) {
	composer.open(id);
	try {
		await show(id, turn);
	} catch (error) {
		if (talk.id !== id)
			return;
		composer.aside.hidden = true;
		talk.openNothing(h('div.start', errorView(error,
			button(t('retry'), route),
			button(t('list.new'), () => go(null)))));
		tree?.show(id);
	}
}

function openNew() {
	fields = newFields();
	composer.open(null);
	list.setCurrent(null);
	talk.openNothing(h('div.start', h('p', t('new.hint')), fields.element));
	tree?.show(null);
	if (!NARROW.matches)
		composer.focus();
}

async function changeModel(name) {
	setModel(name);
	store.conversations.clear();
	await store.refreshModels(name);
	watchAnew();
	await store.load();
}

// - what is said

/** Of the first words, or of the file that is in their place; whole characters, none of which controls anything. */
function titleFrom(text) {
	const [first] = splitFiles(text);
	const line = [...(first?.name ?? first?.text ?? '').replace(/[\s\p{Cc}]+/gu, ' ').trim()];
	if (line.length <= TITLE_LENGTH)
		return line.join('');
	const cut = line.slice(0, TITLE_LENGTH).join(''), space = cut.lastIndexOf(' ');
	return `${space > TITLE_LENGTH / 2 ? cut.slice(0, space) : cut}…`;
}

async function send(text, {edited}) {
	if (edited) {
		await forkAt(edited.turn, {message: text}, {text});
		return;
	}
	// Nothing goes elsewhere if its conversation could not be shown.
	if (talk.id === null && readAddress().id !== null) {
		await route();
		if (talk.id === null)
			return;
	}
	let {id} = talk;
	if (id === null) {
		const made = await call('POST', 'conversations', {body: {...fields.read(), about: {title: titleFrom(text)}}});
		store.put(made);
		id = made.id;
		composer.moveDraft(id);
		history.replaceState(null, '', addressOf(id));
		await show(id);
	}
	await talk.send(id, {message: text}, {text});
}

async function show(id, turn = null) {
	list.setCurrent(id);
	await talk.open(id, turn);
	tree?.show(talk.id);
}

async function fork(id, fields) {
	const child = await post(id, 'fork', fields);
	store.put(child);
	return child;
}

async function forkAt(turn, body, shown = null) {
	const {id} = await fork(talk.id, {at_turn: turn, expect_revision: talk.conversation.revision});
	history.pushState(null, '', addressOf(id));
	composer.endEdit();
	composer.open(id);
	if (shown)
		composer.put(shown.text);
	await show(id);
	return body && talk.send(id, body, shown);
}

async function branch(turn) {
	await forkAt(turn.turn + 1);
	note(t('turn.branched'));
	composer.focus();
}

/** All calls of a reply at once: with the first result the model goes on. */
async function answerCalls(calls) {
	const {id} = talk;
	const texts = calls.map(() => h('textarea', {rows: 4, required: true, dir: 'auto'}));
	await dialog(t('call.result'), h('div', calls.map(({name}, i) => field(t('call.answer', {name}), texts[i]))), [{
		label: t('composer.send'), primary: true,
		run: () => {
			const results = calls.map(({call_id, name}, i) => ({call_id, name, content: texts[i].value}));
			attempt(() => talk.send(id, {results}, {role: 'tool', results}));
		},
	}]);
}

// - what is done with conversations

/** Closes a conversation; for a while that can be undone, until then nothing is lost. */
function closeConversation(id) {
	const title = store.titleOf(store.get(id));
	store.hide(id, true);
	if (talk.id === id)
		go(null);
	const finish = keepalive => {
		closing.delete(id);
		return attempt(async () => {
			try {
				await call('DELETE', conversationPath(id), {keepalive});
				store.remove(id);
			} catch (error) {
				store.hide(id, false);
				throw error;
			}
		});
	};
	closing.set(id, finish);
	note(t('list.closed', {title}), {
		undo: () => {
			closing.delete(id);
			store.hide(id, false);
			go(id);
		},
		onGone: () => closing.get(id)?.(false),
	});
}
const closing = new Map();

function rename(id) {
	const conversation = store.get(id);
	const input = h('input', {type: 'text', value: store.titleOf(conversation), maxlength: 200, dir: 'auto', 'aria-label': t('settings.name')});
	return dialog(t('list.rename'), h('p.field', input), [{
		label: t('save'), primary: true,
		run: async () => store.put(await patch(id, {about: {title: input.value}})),
	}]);
}

const PINS = {pin: true, unpin: false};

async function act(verb, id) {
	const told = verb in PINS ? await patch(id, {pinned: PINS[verb]})
		: verb === 'unpublish' ? await post(id, 'publish', {off: true}) : await post(id, verb);
	store.put(told);
	note(told.n_not_kept ? t('act.notKept', {n: told.n_not_kept, why: told.why_not_kept}) : t(`act.${verb}.done`, {title: store.titleOf(told)}));
}

function conversationItems(id) {
	const conversation = store.get(id);
	if (!conversation)
		return [];
	const items = [
		{label: t('list.rename'), run: () => rename(id)},
		{label: t('settings.open'), run: attempting(() => showSettings(id, go))},
		{label: t('list.fork'), run: attempting(async () => go((await fork(id)).id))},
		null, ...memoryItems(id, attempting(act)),
	];
	if (conversation.other_vocabulary)
		items.push({label: t('act.carry'), hint: t('act.carry.hint'), run: attempting(() => act('carry', id))});
	items.push(null, {label: t('list.close'), run: () => closeConversation(id)});
	return items;
}

function turnItems(turn, view) {
	const text = turn.parts?.filter(({kind}) => kind === 'text').map(part => part.text).join('') ?? turn.text;
	const others = siblingsOf(turn)?.ids.filter(id => id !== talk.id) ?? [];
	return [
		{label: t('turn.copy'), run: () => attempt(async () => {
			await navigator.clipboard.writeText(view.parts?.text ?? text);
			note(t('turn.copied'));
		})},
		{label: t('turn.tree'), run: () => showPanel(true)},
		{label: t('turn.compare'), disabled: others.length === 0, run: () => showCompare(talk.id, others.at(-1))},
	];
}

function siblingsOf(turn) {
	const conversation = store.get(talk.id);
	if (!conversation || turn.start === undefined)
		return null;
	const members = store.families.membersOf(talk.id).filter(id => !store.hidden.has(id)).flatMap(id => store.get(id) ?? []);
	return members.length > 1 ? siblingsAt(conversation, turn.start, members) : null;
}

// - panel, compare

function showPanel(open) {
	panelOpen = open;
	$('panel').hidden = !open;
	$('frame').dataset.panel = open;
	head.tree.setAttribute('aria-expanded', String(open));
	if (!open) {
		const had = $('panel').contains(document.activeElement);
		tree?.destroy();
		tree = null;
		fill($('panel'));
		if (had)
			head.tree.focus();
		return;
	}
	if (tree)
		return;
	const host = h('div.panel-body');
	fill($('panel'), h('header.panel-head', h('h2', t('tree.title')),
		button('×', () => showPanel(false), {class: 'quiet', 'aria-label': t('close')})), host);
	tree = new TreeView(host, {
		onOpen: (id, turn) => go(id, turn ?? null),
		onCompare: showCompare,
		onFork: (id, turn) => attempt(async () => go((await fork(id, {at_turn: turn + 1})).id)),
	});
	tree.show(talk.id);
	$('panel').querySelector('button').focus();
}

function showCompare(a, b) {
	closeCompare();
	if (COVERED.matches)
		showPanel(false);
	const host = h('div', {id: 'compare'});
	$('talk').append(host);
	$('talk').dataset.compare = 'true';
	compare = new CompareView(host, {onClose: closeCompare, onOpen: id => go(id)});
	attempt(() => compare.show(a, b));
}

function closeCompare() {
	if (!compare)
		return;
	compare.destroy();
	compare = null;
	$('compare')?.remove();
	delete $('talk').dataset.compare;
	head.title.focus?.();
}

function openDrawer() {
	if (!NARROW.matches)
		return;
	$('frame').dataset.drawer = 'open';
	$('talk').inert = $('strip').inert = true;
	$('list').querySelector('input, a, button')?.focus();
}

function closeDrawer() {
	const had = $('frame').dataset.drawer && $('list').contains(document.activeElement);
	delete $('frame').dataset.drawer;
	$('talk').inert = $('strip').inert = false;
	if (had)
		head.drawer.focus();
}

// - the head of the talk

function makeHead() {
	const title = h('h1.talk-title', {dir: 'auto', tabIndex: -1});
	const figures = h('span.talk-figures.figures');
	const treeButton = button(t('tree.button'), () => showPanel(!panelOpen), {id: 'tree-button', 'aria-expanded': 'false', 'aria-controls': 'panel'});
	const more = button('⋯', () => menu(more, conversationItems(talk.id)), {class: 'quiet', ...MENU, 'aria-label': t('talk.more')});
	const drawer = button('☰', openDrawer, {class: 'drawer-button quiet', 'aria-label': t('list.show')});
	const page = button(t('page.short'), () => menu(page, pageItems()), {class: 'quiet', ...MENU, 'aria-label': t('page.menu')});
	const element = h('header.talk-head', drawer, title, figures, treeButton, more, page);
	return {element, title, figures, tree: treeButton, more, drawer};
}

function drawHead() {
	const conversation = store.get(talk.id) ?? null;
	const title = conversation ? store.titleOf(conversation) : t('new.title');
	if (head.title.textContent !== title)
		head.title.textContent = title;
	document.title = conversation ? `${title} – confab` : 'confab';
	head.more.hidden = !conversation;
	head.tree.hidden = !conversation;
	fill(head.figures, conversation && [residencyDisc(conversation.residency),
		h('span', {title: t('talk.size', {ram: bytes(conversation.ram_bytes), disk: bytes(conversation.disk_bytes)})},
			store.model?.context ? t('talk.tokensOf', {n: conversation.n_tokens, of: store.model.context}) : t('tokens', {n: conversation.n_tokens}))]);
	composer.setBusy(talk.busy);
}

function pageItems() {
	const choice = (text, chosen, run) => ({label: `${chosen ? '●' : '○'} ${text}`, run});
	return [
		...THEMES.map(name => choice(t(`theme.${name}`), theme() === name, () => chooseTheme(name))), null,
		...languages.map(name => choice(t(`language.${name}`), language === name, () => chooseLanguage(name))), null,
		{label: t('keys.title'), run: showKeys},
		{label: t('token.title'), run: askToken},
	];
}

function modelChoice() {
	if (store.models.length < 2)
		return null;
	return h('select.model', {'aria-label': t('model.choose'), on: {change: event => {
		changeModel(event.target.value).then(() => go(null)).catch(errorNote);
	}}}, store.models.map(one => h('option', {value: one.name ?? '', selected: one === store.model, disabled: !one.reachable}, one.name ?? t('model.unknown'))));
}

// - token, connection

async function askToken() {
	if (asksToken)
		return;
	asksToken = true;
	const input = h('input', {type: 'password', required: true, autocomplete: 'off', minlength: 16, 'aria-label': t('token.label')});
	await dialog(t('token.title'), h('div', h('p', t('token.hint')), input), [{
		label: t('token.use'), primary: true,
		run: async () => {
			setToken(input.value.trim());
			await begin();
			retryNow();
			await route();
		},
	}]);
	asksToken = false;
}

let connectionNote = null;

function showConnection(state) {
	document.documentElement.dataset.connection = state;
	connectionNote?.remove();
	connectionNote = null;
	if (state === 'live' || state === 'connecting')
		return;
	connectionNote = h('p.connection', {role: 'status'}, t(`connection.${state}`), ' ',
		state === 'token' ? button(t('token.enter'), attempting(askToken)) : button(t('retry'), retryNow));
	head.element.after(connectionNote);
}

let wasAway = false;

function connectionChanged(state) {
	showConnection(state);
	if (state === 'offline' || state === 'waiting')
		wasAway = true;
	if (state !== 'live' || !wasAway)
		return;
	wasAway = false;
	note(t('connection.back'));
	attempt(async () => {
		await store.refreshModels(getModel());
		if (talk.id === null && readAddress().id !== null)
			await route();
		else
			await talk.catchUp();
		await store.load();
	});
}

// - the beginning

async function begin() {
	const {model} = readAddress();
	if (model)
		setModel(model);
	await store.refreshModels(model);
	const choice = modelChoice();
	if (choice)
		$('list').prepend(choice);
	store.load().catch(error => error.status !== 401 && errorNote(error));
}

function makeViews() {
	$('skip').textContent = t('skip');
	$('list').setAttribute('aria-label', t('list.title'));
	$('panel').setAttribute('aria-label', t('tree.title'));
	$('strip').setAttribute('aria-label', t('strip.title'));
	head = makeHead();
	$('talk').append(head.element);
	list = new ListView($('list'), {addressOf, onMenu: (id, anchor) => menu(anchor, conversationItems(id)), onNew: () => go(null)});
	talk = new TalkView($('talk'), {
		onState: () => composer && drawHead(),
		onAccepted: () => composer.clear(),
		onClosed: () => {
			note(t('talk.closed'));
			go(null);
		},
		onEdit: turn => composer.edit(turn),
		onAgain: attempting(turn => forkAt(turn.turn, {nothing: true})),
		onBranch: attempting(branch),
		onMenu: (turn, anchor, view) => menu(anchor, turnItems(turn, view)),
		siblings: siblingsOf,
		onSibling: (id, turn) => go(id, turn.turn),
		onAnswerCalls: attempting(answerCalls),
	});
	composer = new Composer($('talk'), {
		onSend: attempting(send),
		onStop: () => talk.stop(),
		onAside: text => attempt(() => askAside(talk.conversation, text)),
	});
	new Strip($('strip'), {onAction: attempting(act), onOpen: id => go(id)});
}

function listen() {
	addEventListener('hashchange', attempting(async () => {
		await takeToken();
		await route();
	}));
	// Asked for once by itself; who does not give it can do so later, by the note.
	addEventListener('confab-token-needed', attempting(askToken), {once: true});
	addEventListener('pagehide', () => {
		for (const finish of closing.values())
			finish(true);
	});
	store.on('connection', connectionChanged);
	store.on('models', () => composer.costSoon());
	store.on('list', perFrame(() => talk.refreshSiblings()));
	// Beside the drawer, or a conversation: also the one that is open.
	$('frame').addEventListener('click', event => {
		if (event.target === $('frame') || event.target.closest('#list a'))
			closeDrawer();
	});
	// Without a change of the address, which would lead to a new conversation.
	$('skip').addEventListener('click', event => {
		event.preventDefault();
		composer.focus();
	});
	keepFocus(() => NARROW.matches || compare ? head.title : composer.text);
	listenToKeys({
		search: () => {
			openDrawer();
			list.focusSearch();
		},
		new: () => go(null),
		message: () => composer.focus(),
		next: () => talk.step(1), before: () => talk.step(-1),
		nextConversation: () => go(list.neighbour(1)), conversationBefore: () => go(list.neighbour(-1)),
		tree: () => talk.id !== null && showPanel(!panelOpen),
		stop: () => talk.stop(),
		end: () => talk.showEnd(),
		settings: () => talk.id !== null && attempt(() => showSettings(talk.id, go)),
		aside: () => talk.id !== null && attempt(() => askAside(talk.conversation, '')),
		escape: () => {
			if (compare)
				closeCompare();
			else if (panelOpen && $('panel').contains(document.activeElement))
				showPanel(false);
			else
				closeDrawer();
		},
	});
}

async function start() {
	applyTheme();
	document.documentElement.lang = language;
	makeViews();
	listen();
	await attempt(takeToken);
	watch();
	try {
		await begin();
	} catch (error) {
		if (!(error instanceof ApiError))
			throw error;
		if (error.status !== 401)
			connectionChanged('offline');
	}
	await attempt(route);
	document.documentElement.dataset.ready = 'true';
}

start();
