/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to lib/kern. */
#include "kern/kern.h"

struct kern_ops;

/* Whether this CPU has it, and all that its kernels are built on. */
bool kern_cpu_has(enum kern_isa isa);
/* Fill the table with the best kernels of this build and CPU, not above @max_isa; returns their
 * level. */
enum kern_isa kern_ops_init(struct kern_ops *ops, enum kern_isa max_isa);
/* Tell the CPU that this is a spin loop. */
void kern_cpu_relax(void);
