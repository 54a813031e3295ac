// SPDX-License-Identifier: MIT
// Where a conversation's memory is, as a small disc: full, half, a ring with a bar, a dashed ring. The shapes are in style/strip.css.
import {h} from './dom.js';
import {t} from './i18n.js';

/** From nowhere to all of it in RAM. */
export const RESIDENCIES = ['cold', 'spilled', 'partial', 'resident'];

export function residencyDisc(residency) {
	return setResidency(h('span.residency', {role: 'img'}), residency);
}

export function setResidency(disc, residency) {
	disc.dataset.residency = RESIDENCIES.includes(residency) ? residency : 'cold';
	disc.ariaLabel = disc.title = t(`residency.${disc.dataset.residency}`);
	return disc;
}
