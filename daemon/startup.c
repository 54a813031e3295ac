/* SPDX-License-Identifier: MIT */
#include "daemon/startup.h"
#include "base/clock.h"
#include "base/util.h"
#include "daemon/bytes.h"
#include "service/log.h"
#include "service/notify.h"
#include "engine/engine.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define TELL_USEC 1000000ull
/* Reads that take less than a few seconds are not logged. */
#define LONG_READ (1ull << 30)

static bool told_to_stop(void) {
        sigset_t pending;

        return sigpending(&pending) == 0 &&
               (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

static void tell_model(const struct startup *s, const struct engine_opening *o) {
        notify_status("Starting: loading %s", s->model);
        if (o->weights_size > o->ram_size)
                LOG_FIELDS(LOGGED_WEIGHTS_EXCEED_RAM,
                        ({"CONFAB_MODEL", s->model, 0}, {"CONFAB_BYTES", NULL, o->weights_size}),
                        "the weights of %s have %s, but only %s of RAM may be used: they will be "
                        "read from disk again and again, and everything will be slow",
                        s->model, BYTES_TEXT(o->weights_size), BYTES_TEXT(o->ram_size));
}

static void tell_weights(struct startup *s, const struct engine_opening *o) {
        uint64_t now = clock_monotonic_usec();

        if (s->told_usec && now - s->told_usec < TELL_USEC)
                return;
        if (!s->told_usec && o->total >= LONG_READ)
                LOG_FIELDS(LOGGED_READS_WEIGHTS,
                        ({"CONFAB_MODEL", s->model, 0}, {"CONFAB_BYTES", NULL, o->total}),
                        "reading the weights of %s for its fingerprint: %s", s->model,
                        BYTES_TEXT(o->total));
        s->told_usec = now;
        notify_status("Starting: reading the weights, %s of %s", BYTES_TEXT(o->done),
                BYTES_TEXT(o->total));
}

int startup_progress(void *arg, const struct engine_opening *o) {
        struct startup *s = arg;

        switch (o->stage) {
        case ENGINE_STAGE_REGISTER:
                notify_status("Starting: opening the register");
                break;
        case ENGINE_STAGE_MODEL:
                tell_model(s, o);
                break;
        case ENGINE_STAGE_WEIGHTS:
                tell_weights(s, o);
                break;
        case ENGINE_STAGE_CHAINS:
                notify_status("Starting: reading conversations of an older version, %llu so far",
                        (unsigned long long)o->done);
                break;
        case ENGINE_STAGE_SPILL:
                notify_status("Starting: checking the spill files");
                break;
        }
        notify_extend(STARTUP_EXTEND_USEC);
        return told_to_stop() ? -1 : 0;
}

const char *startup_hidden(const char *path) {
        static const struct {
                const char *folder, *why;
        } hidden[] = {{"/home/", "ProtectHome=yes"}, {"/root/", "ProtectHome=yes"},
                {"/run/user/", "ProtectHome=yes"}, {"/tmp/", "PrivateTmp=yes"},
                {"/var/tmp/", "PrivateTmp=yes"}};
        _cleanup_(freep) char *real = realpath(path, NULL);

        for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
                if (strncmp(real ? real : path, hidden[i].folder, strlen(hidden[i].folder)) == 0)
                        return hidden[i].why;
        return NULL;
}
