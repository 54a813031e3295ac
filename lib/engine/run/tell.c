/* SPDX-License-Identifier: MIT */
/*
 * Telling watchers that a turn begins and ends. Each TURN_BEGUN is followed by exactly one TURN_ENDED of
 * the same conversation: tell_turn_ended() does nothing if none has begun, or if it was told already, and
 * the request's deinit() calls it, so whatever ends the request ends the turn.
 */
#include "engine/run/state.h"

void tell_turn_begun(struct engine *engine, struct request *request) {
        struct turn_told *told = &generation_of(request)->told_turn;
        const struct conv *c = request->conv;

        if (told->begun || request_is_warm(request))
                return;
        *told = (struct turn_told){true, c->owner, c->id, c->revision};
        notice_conv(engine, ENGINE_NOTICE_TURN_BEGUN, c->owner, c->id, c->revision);
}

void tell_turn_ended(struct engine *engine, struct request *request, enum engine_finish finish) {
        struct turn_told *told = &generation_of(request)->told_turn;

        if (!told->begun)
                return;
        told->begun = false;
        notice_push(engine, &(struct notice){.kind = ENGINE_NOTICE_TURN_ENDED,
                                    .owner = told->owner,
                                    .conv = told->conv,
                                    .revision = MAX(request->revision, told->revision),
                                    .finish = finish});
}
