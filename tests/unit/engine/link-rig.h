/* SPDX-License-Identifier: MIT */
#pragma once
/* The transaction that links spill records, under the control of a test. To be linked with
 * --wrap=store_link. */
#include <stdatomic.h>

#include "util/gate.h"

/* Every call passes it. */
extern struct gate link_gate;
/* Every call behind the gate fails, as on a disk that takes nothing. */
extern atomic_bool link_fails;
