/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The Agent Client Protocol (version 1, JSON-RPC 2.0, a message a line) over a pair of descriptors: editors
 * talk to the daemon through it. A session is a conversation. One thread.
 */
#include "base/err.h"
#include "client/confab.h"

struct acp_options {
        /* Make a connection to the daemon: 0 with *ret, or -1 with *e filled. Called again when the last one is
         * over. */
        int (*connect)(void *userdata, struct confab **ret, struct confab_error *e);
        /* Tell people something that is no answer to a request: one line, without newline. */
        void (*complain)(void *userdata, const char *words);
        void *userdata;

        const char *system;                     /* of new sessions, or NULL */
        const struct confab_sampling *sampling; /* of every prompt, or NULL */
        enum confab_overflow overflow;          /* of new sessions */
        bool has_max_tokens;
        uint32_t max_tokens; /* of a reply */
};

#define ACP_READER_GONE 1

/* Read messages from @in and write messages to @out until @in has ended and everything is answered. Both stay the
 * caller's, and as they are: they need not be non-blocking. 0; ACP_READER_GONE: nobody reads @out any more;
 * -ERR_SYS, -ERR_NOMEM: messages could not be read or written. */
int acp_run(const struct acp_options *options, int in, int out, struct err *e);
