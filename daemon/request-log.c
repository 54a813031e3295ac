/* SPDX-License-Identifier: MIT */
#include "daemon/request-log.h"
#include "base/clock.h"
#include "base/util.h"
#include "daemon/peer.h"
#include "service/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 20

struct request_note {
        struct list link;        /* of the peer's notes; unlinked when it is alone */
        struct request *request; /* that refers to it, or NULL */
        uint64_t id, began_usec;
        const char *verb;
        /* Of the peer, which may be gone. */
        uint64_t owner;
        uint32_t uid;
        bool acts;
        int32_t pid;
        char *tenant; /* owned, or NULL */
        uint64_t conv;
        uint64_t bytes_in, bytes_out;
        /* Of the engine's events; a request that computed nothing has none. */
        bool is_done;
        enum engine_finish finish;
        uint32_t n_prompt, n_ram, n_disk, n_shared, n_computed, n_generated;
        uint64_t queued_usec, restore_usec, prefill_usec, decode_usec;
};

static struct request_note *find(struct peer *p, uint64_t id) {
        struct list *it;

        list_for_each (it, &p->notes) {
                struct request_note *note = list_entry(it, struct request_note, link);

                if (note->id == id)
                        return note;
        }
        return NULL;
}

static void note_free(struct request_note *note) {
        if (note->request)
                note->request->note = NULL;
        list_unlink(&note->link);
        free(note->tenant);
        free(note);
}

/* ---- the line ---- */

static const char *finish_name(enum engine_finish finish) {
        switch (finish) {
        case ENGINE_FINISH_STOP:
                return "stop";
        case ENGINE_FINISH_STOP_STRING:
                return "stop_string";
        case ENGINE_FINISH_LENGTH:
                return "length";
        case ENGINE_FINISH_CONTEXT:
                return "context";
        case ENGINE_FINISH_CANCELLED:
                return "cancelled";
        case ENGINE_FINISH_NONE:
                break;
        }
        return "none";
}

static size_t put_done(const struct request_note *note, struct log_field *fields) {
        const struct log_field all[] = {{"CONFAB_FINISH", finish_name(note->finish), 0},
                {"CONFAB_QUEUED_USEC", NULL, note->queued_usec},
                {"CONFAB_RESTORE_USEC", NULL, note->restore_usec},
                {"CONFAB_PREFILL_USEC", NULL, note->prefill_usec},
                {"CONFAB_DECODE_USEC", NULL, note->decode_usec},
                {"CONFAB_PROMPT_TOKENS", NULL, note->n_prompt},
                {"CONFAB_RAM_TOKENS", NULL, note->n_ram},
                {"CONFAB_DISK_TOKENS", NULL, note->n_disk},
                {"CONFAB_SHARED_TOKENS", NULL, note->n_shared},
                {"CONFAB_COMPUTED_TOKENS", NULL, note->n_computed},
                {"CONFAB_GENERATED_TOKENS", NULL, note->n_generated}};

        if (!note->is_done)
                return 0;
        memcpy(fields, all, sizeof(all));
        return ARRAY_SIZE(all);
}

/* What computing took, for people. */
static void say_done(const struct request_note *note, char *text, size_t size) {
        text[0] = '\0';
        if (note->is_done)
                snprintf(text, size,
                        "; prompt %u tokens: %u from RAM, %u from disk, %u shared, %u computed; "
                        "%u generated (%s); queued %.1f ms, restore %.1f, prefill %.1f, decode "
                        "%.1f",
                        note->n_prompt, note->n_ram, note->n_disk, note->n_shared, note->n_computed,
                        note->n_generated, finish_name(note->finish),
                        (double)note->queued_usec / 1e3, (double)note->restore_usec / 1e3,
                        (double)note->prefill_usec / 1e3, (double)note->decode_usec / 1e3);
}

/* Writes the line and frees the note. */
static void tell(struct request_note *note, const char *result) {
        uint64_t usec = clock_monotonic_usec() - note->began_usec;
        struct log_field fields[FIELDS_MAX] = {{"CONFAB_VERB", note->verb, 0},
                {"CONFAB_RESULT", result, 0}, {"CONFAB_USEC", NULL, usec},
                {"CONFAB_BYTES_IN", NULL, note->bytes_in},
                {"CONFAB_BYTES_OUT", NULL, note->bytes_out}};
        struct log_about about = {.owner = note->owner,
                .acts = note->acts,
                .actor_uid = note->uid,
                .tenant = note->tenant,
                .pid = note->pid,
                .conversation = note->conv,
                .fields = fields,
                .n_fields = 5};
        char what[32] = "", done[256];

        if (note->conv)
                snprintf(what, sizeof(what), " %llu", (unsigned long long)note->conv);
        about.n_fields += put_done(note, fields + about.n_fields);
        say_done(note, done, sizeof(done));
        log_event(LOGGED_REQUEST, &about, "%s%s of %s: %s in %.1f ms%s", note->verb, what,
                OWNER_TEXT(note->owner), result, (double)usec / 1e3, done);
        note_free(note);
}

/* ---- its life ---- */

void request_log_begin(struct peer *p, uint64_t id, const char *verb, size_t n_bytes) {
        struct request_note *note;

        if (!p->daemon->settings->request_log || !log_wants(LOGGED_REQUEST))
                return;
        note = malloc(sizeof(*note));
        if (!note)
                return;
        *note = (struct request_note){.id = id,
                .began_usec = clock_monotonic_usec(),
                .verb = verb,
                .owner = p->owner,
                .uid = p->uid,
                .acts = p->acts,
                .pid = p->pid,
                .bytes_in = n_bytes};
        list_init(&note->link);
        note->tenant = p->tenant ? strdup(p->tenant) : NULL;
        if (p->tenant && !note->tenant) {
                note_free(note);
                return;
        }
        list_append(&p->notes, &note->link);
}

void request_log_submit(struct peer *p, struct request *request, uint64_t conv) {
        struct request_note *note = find(p, request->id);

        if (!note)
                return;
        note->conv = conv;
        note->request = request;
        request->note = note;
}

void request_log_move(struct request *request) {
        if (request->note)
                request->note->request = request;
}

static void let_go(struct request *request) {
        request->note->request = NULL;
        request->note = NULL;
}

static void take(struct request_note *note, const struct engine_event *event) {
        switch (event->kind) {
        case ENGINE_ACCEPTED:
                note->conv = event->accepted.conv;
                break;
        case ENGINE_CONV:
        case ENGINE_FOUND:
                note->conv = event->conv.id;
                break;
        case ENGINE_DONE:
                note->is_done = true;
                note->finish = event->done.finish;
                note->n_prompt = event->done.n_prompt;
                note->n_ram = event->done.n_ram;
                note->n_disk = event->done.n_disk;
                note->n_shared = event->done.n_shared;
                note->n_computed = event->done.n_computed;
                note->n_generated = event->done.n_generated;
                note->queued_usec = event->done.queued_usec;
                note->restore_usec = event->done.restore_usec;
                note->prefill_usec = event->done.prefill_usec;
                note->decode_usec = event->done.decode_usec;
                break;
        default:
                break;
        }
}

void request_log_event(struct request *request, struct engine_event *event) {
        struct request_note *note = request->note;

        if (!note)
                return;
        take(note, event);
        if (!event->final)
                return;
        if (!request->peer)
                tell(note, event->kind == ENGINE_ERROR ? err_code_name(event->err.code) : "ok");
        else
                let_go(request); /* its answer ends the note */
}

void request_log_bytes(struct peer *p, uint64_t id, size_t n_bytes) {
        struct request_note *note = find(p, id);

        if (note)
                note->bytes_out += n_bytes;
}

void request_log_answer(struct peer *p, uint64_t id, const char *result) {
        struct request_note *note = find(p, id);

        if (note)
                tell(note, result);
}

void request_log_leave(struct peer *p) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &p->notes) {
                struct request_note *note = list_entry(it, struct request_note, link);

                if (note->request && note->request->detach)
                        list_unlink(&note->link);
                else
                        tell(note, "disconnected");
        }
}

void request_log_free(struct request *request) {
        struct request_note *note = request->note;

        if (!note)
                return;
        if (request->peer)
                let_go(request);
        else
                note_free(note);
}
