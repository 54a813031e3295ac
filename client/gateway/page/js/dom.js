// SPDX-License-Identifier: MIT
// Elements without HTML: whatever is given as a child that is no element becomes a text node, so no text can become markup.

const PROPERTIES = new Set(['value', 'checked', 'disabled', 'hidden', 'open', 'selected', 'indeterminate', 'readOnly', 'tabIndex']);

/**
 * An element: `tag` may have classes behind it, 'p.hint'. Props, an object that may be left out: `class`, `dataset` (an object), `on` (an object of
 * listeners), the properties above, and attributes; null, undefined and false leave an attribute out, true sets it empty. Children: elements, texts,
 * arrays of them; null and false are nothing.
 */
export function h(tag, ...children) {
	const [name, ...classes] = tag.split('.');
	const props = children[0]?.constructor === Object ? children.shift() : {};
	const element = document.createElement(name);
	for (const [key, value] of Object.entries(props)) {
		if (value === null || value === undefined)
			continue;
		if (key === 'class')
			element.className = value;
		else if (PROPERTIES.has(key))
			element[key] = value;
		else
			set(element, key, value);
	}
	if (classes.length > 0)
		element.classList.add(...classes);
	append(element, children);
	return element;
}

function set(element, name, value) {
	if (name === 'dataset')
		Object.assign(element.dataset, value);
	else if (name === 'on')
		for (const [event, listener] of Object.entries(value))
			element.addEventListener(event, listener);
	else if (value !== false)
		element.setAttribute(name, value === true ? '' : String(value));
}

/** A button that runs something; `props` as in h(). */
export function button(label, run, props) {
	return h('button', {type: 'button', ...props, on: {click: run}}, label);
}

/** What a button that opens a menu has besides. */
export const MENU = {'aria-haspopup': 'menu', 'aria-expanded': 'false'};

/** An element of SVG: attributes and listeners as in h(). */
export function svg(tag, props, ...children) {
	const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
	for (const [name, value] of Object.entries(props ?? {}))
		if (value !== null && value !== undefined)
			set(element, name, value);
	append(element, children);
	return element;
}

function append(element, children) {
	for (const child of children) {
		if (Array.isArray(child))
			append(element, child);
		else if (child !== null && child !== undefined && child !== false)
			element.append(child);
	}
}

/** New children in place of those that are there. */
export function fill(element, ...children) {
	element.replaceChildren();
	append(element, children);
	return element;
}

/** Calls `fn` once for any number of calls before the next frame. */
export function perFrame(fn) {
	let asked = false;
	return () => {
		if (asked)
			return;
		asked = true;
		requestAnimationFrame(() => {
			asked = false;
			fn();
		});
	};
}

/** Calls `fn` once, when nothing asked for `ms`. */
export function settled(fn, ms) {
	let timer = 0;
	return (...args) => {
		clearTimeout(timer);
		timer = setTimeout(() => fn(...args), ms);
	};
}
