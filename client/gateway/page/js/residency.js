// SPDX-License-Identifier: MIT
// Where a conversation's memory is, as a small disc: full, half, a ring with a bar, a dashed ring. The shapes are in style/strip.css.
import {h} from './dom.js';
import {t} from './i18n.js';

const KNOWN = new Set(['resident', 'partial', 'spilled', 'cold']);

/** The disc, with its word as its label and title. */
export function residencyDisc(residency) {
  return setResidency(h('span', {class: 'residency', role: 'img'}), residency);
}

/** Makes a disc tell another residency; cheap if it is the same. */
export function setResidency(disc, residency) {
  const kind = KNOWN.has(residency) ? residency : 'cold';
  if (disc.dataset.residency === kind)
    return disc;
  disc.dataset.residency = kind;
  const word = t(`residency.${kind}`);
  disc.setAttribute('aria-label', word);
  disc.title = word;
  return disc;
}
