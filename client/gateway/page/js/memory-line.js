// SPDX-License-Identifier: MIT
// The quiet line below a reply: where the memory of its prompt came from, and what it took.
import {h} from './dom.js';
import {duration, rate} from './format.js';
import {t} from './i18n.js';

const SOURCES = [['ram', 'n_ram'], ['disk', 'n_disk'], ['shared', 'n_shared'], ['computed', 'n_computed']];

/** Of the figures of Done, or of a stored turn's `run`. */
export function memoryLine(run) {
	const told = SOURCES.filter(([, field]) => run[field] > 0)
		.map(([name, field]) => h('span', {dataset: {source: name}}, t(`memory.${name}`, {n: run[field]})));
	const first = run.queued_usec + run.restore_usec + run.prefill_usec;
	const speed = rate(run.n_generated, run.decode_usec);
	return h('p.turn-memory.figures',
		h('span.memory-bar', {'aria-hidden': 'true'}, bar(run)), told,
		h('span', {title: t('memory.first.title', {
			queued: duration(run.queued_usec), restore: duration(run.restore_usec), prefill: duration(run.prefill_usec),
		})}, t('memory.first', {time: duration(first)})),
		run.n_generated > 0 && h('span', [t('memory.generated', {n: run.n_generated}), speed].filter(Boolean).join(', ')));
}

/** Shares of the prompt, as widths. */
function bar(run) {
	const total = SOURCES.reduce((sum, [, field]) => sum + (run[field] ?? 0), 0) || 1;
	return SOURCES.filter(([, field]) => run[field] > 0).map(([name, field]) => {
		const part = h('i', {dataset: {source: name}});
		part.style.setProperty('flex-grow', Math.max(0.04, run[field] / total));
		return part;
	});
}
