/* SPDX-License-Identifier: MIT */
#pragma once
/* What Open, Fork, Import and Update check of new conversations. Any thread. */
#include <pthread.h>

#include "engine/verbs/transfer-format.h"
#include "engine/verbs/verbs.h"

struct verb_state {
        pthread_mutex_t create_lock; /* counting a user's conversations, then adding one */
        /* transfer.c, under create_lock */
        uint8_t export_key[XFER_KEY_SIZE];
        bool has_export_key;

        atomic_uint_fast64_t export_bytes; /* on disk, of exports being written */
};

/* May it be the name of a conversation? */
int create_check_name(const char *name, struct err *e);
/* Into a buffer of STORE_NAME_MAX + 1 bytes. A name may be NULL or "": the register chooses one. */
int create_copy_name(char *dst, const char *name, struct err *e);
/* Under create_lock, and then the row is made under the same. */
int create_check_quota(struct engine *engine, uint32_t uid, struct err *e);
int create_check_sampling(struct engine *engine, const struct sampling *s, struct err *e);
