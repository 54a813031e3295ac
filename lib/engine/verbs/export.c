/* SPDX-License-Identifier: MIT */
/*
 * Export: write a conversation into an unnamed file, whose descriptor the caller gets.
 *
 * 1. The request holds the conversation meanwhile, and pins the blocks and records that it wants,
 *    so everything it writes belongs together. Forks may run at the same time.
 * 2. Of a model with attention over everything alone only full blocks are written; the tokens behind
 *    these, less than a block, are computed again after the import. Of other models the memory is what
 *    the conversation's end needs, or else what the last checkpoint needs that has all of it. A block that
 *    is partly used could contain bytes of something else, so zeros are written in their place.
 * 3. A record that cannot be read ends the memory before it: the file is begun anew without it (of
 *    other models: without memory). The transcript is never lost because of memory (I1).
 * 4. The file has no name and belongs to us, so that it disappears with its last descriptor; the
 *    caller's descriptor is read-only. While the file grows, it counts against the disk limit, and
 *    must leave the floor of free space.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/verbs/transfer.h"

#define TRANSCRIPT_COST 8192 /* whole pages of large blocks */
#define TEXT_COST 32         /* the allocation of a text, however short */

/* May @n more bytes of the file go to disk? */
static int check_room(struct engine *engine, const struct transfer *x, uint64_t n, struct err *e) {
        return transfer_check_room(engine, x->fd, n, "an export", xfer_file_size(&x->h), e);
}

static void count(struct engine *engine, struct transfer *x, uint64_t n) {
        atomic_fetch_sub(&engine->verbs->export_bytes, x->counted);
        atomic_fetch_add(&engine->verbs->export_bytes, n);
        x->counted = n;
}

static int write_part(struct transfer *x, const void *data, size_t n, struct err *e) {
        int r = file_pwrite(x->fd, data, n, x->offset, e);

        if (r == -ERR_SYS && (e->sys == ENOSPC || e->sys == EDQUOT))
                return err_set(e, ERR_LIMIT, "the disk is full");
        if (r < 0)
                return err_wrap(e, r, "cannot write the export file");
        xfer_sum_update(&x->sum, data, n);
        x->offset += n;
        return 0;
}

/* Charge the transcript twice: as the register has it, and as the file will have it, of which only
 * the texts are large. No turn can be added meanwhile, since the request holds the conversation. */
static int charge_transcript(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        struct store_sizes sizes;
        int r = store_sizes(engine->store, request->sc.id, &sizes, e);

        if (r < 0)
                return r;
        x->h.n_turns = request->sc.n_turns;
        sizes.texts_size += x->h.noted_size;
        x->h.texts_size = sizes.texts_size;
        x->h.with_tools = true; /* at most */
        if (sizes.texts_size > XFER_MAX_TEXTS)
                return err_set(e, ERR_TOO_LARGE,
                        "texts of %" PRIu64 " bytes are too large for a file", sizes.texts_size);
        if (x->charged > 0)
                return 0; /* charged before the file was begun anew */
        x->charged =
                (size_t)(xfer_transcript_size(&x->h) + sizes.texts_size) + TRANSCRIPT_COST +
                2 * ((size_t)request->sc.n_turns + 8) * (sizeof(struct store_turn) + 2 * TEXT_COST);
        r = transfer_charge(request, x->charged, e);
        if (r < 0)
                x->charged = 0;
        return r;
}

static void set_sizes(struct xfer_header *h, const struct store_turns *turns, size_t tools_size) {
        h->n_turns = (uint32_t)turns->n;
        h->tools_size = (uint32_t)tools_size;
        h->with_tools = tools_size > 0 || xfer_has_classes(h) || h->noted_size > 0;
        h->texts_size = tools_size + h->noted_size;
        for (size_t i = 0; i < turns->n; i++) {
                const struct store_turn *t = &turns->turns[i];

                h->with_tools = h->with_tools || t->extra || t->role == CHAT_TOOL;
                h->texts_size += t->text_size + (t->extra ? t->extra_size : 0);
        }
}

static int write_transcript(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        struct xfer_header *h = &x->h;
        struct transcript tokens = conv_transcript(request->conv);
        struct store_turns turns = {0};
        size_t tools_size = 0;
        char *tools = NULL;
        struct buf out = BUF_NULL;
        uint8_t header[XFER_HEADER_SIZE];
        int r = charge_transcript(engine, request, e);

        if (r == 0)
                r = store_turns(engine->store, request->sc.id, true, &turns, e);
        if (r == 0)
                r = store_tools(
                        engine->store, request->sc.id, 0, NULL, NULL, &tools, &tools_size, e);
        if (r < 0) {
                store_turns_deinit(&turns);
                return r;
        }
        set_sizes(h, &turns, tools_size);
        count(engine, x, xfer_file_size(h));
        r = check_room(engine, x, xfer_file_size(h), e);
        if (r == 0)
                r = xfer_transcript_format(&out, h, request->sc.name, tools, request->noted.about,
                        turns.turns, &tokens, e);
        xfer_header_format(h, header);
        if (r == 0)
                r = write_part(x, header, sizeof(header), e);
        if (r == 0)
                r = write_part(x, out.data, out.size, e);
        buf_deinit(&out);
        store_turns_deinit(&turns);
        free(tools);
        return r;
}

/* Begin the file, with the memory that the header now tells. */
static int begin(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        uint8_t key[XFER_KEY_SIZE];
        int r = transfer_key(engine, key, e);

        if (r < 0)
                return r;
        if (x->fd < 0)
                x->fd = transfer_open_unnamed(engine, e);
        if (x->fd < 0)
                return -ERR_SYS;
        if (ftruncate(x->fd, 0) < 0)
                return err_set(e, ERR_SYS, "cannot begin an export file");
        x->offset = 0;
        x->next = 0;
        xfer_sum_init(&x->sum, key);
        r = store_conv_get(
                engine->store, request->r.owner, request->conv->id, NULL, &request->sc, e);
        if (r == 0 && !request->noted.about)
                request_read_noted(engine, request);
        if (r == 0 && request->noted.r < 0) {
                *e = request->noted.err;
                r = request->noted.r;
        }
        if (r < 0)
                return r;
        x->h.noted_size = xfer_noted_size(request->noted.about);
        x->h.vocab = request->sc.vocab;
        x->h.model = x->h.n_memory_tokens > 0 ? engine->info.fingerprint : request->sc.model;
        x->h.n_tokens = request->sc.n_tokens;
        x->h.name_size = (uint32_t)strlen(request->sc.name);
        x->h.created_usec = request->sc.created_usec;
        x->h.gap = request->sc.gap;
        x->h.overflow = request->sc.overflow;
        x->h.sampling = request->sc.sampling;
        if (!(x->h.sampling.has & SAMPLING_BIASES))
                x->h.sampling.n_biases = 0;
        x->began = true;
        return write_transcript(engine, request, e);
}

/* Let the tokens of a block of attention from @n on be zeros. */
static void blank(struct engine *engine, enum seq_class c, uint8_t *block, uint32_t n) {
        const struct model_kv_array *arrays;
        size_t n_arrays = model_kv_arrays(engine->model, c, &arrays);

        for (const struct model_kv_array *a = arrays; a < arrays + n_arrays; a++) {
                size_t width = a->element == MODEL_KV_F32 ? 4 : a->element == MODEL_KV_F16 ? 2 : 1;
                size_t n_runs = (size_t)a->n_tiles * (a->channel_major ? a->n_channels : 1);
                size_t token = width * (a->channel_major ? 1 : a->n_channels);

                for (size_t i = 0; i < n_runs; i++)
                        memset(block + a->offset + (i * a->n_tokens + n) * token, 0,
                                (a->n_tokens - n) * token);
        }
}

/* 0; 1: the cell cannot be read; -ERR_X. */
static int write_cell(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        struct transfer_cell *b = &x->cells[x->next];
        struct xfer_cell cell = xfer_cell(&x->h, x->next);
        size_t size = x->h.shape.size[cell.class];
        const void *data = x->buffer;
        uint64_t hash;
        uint8_t le[8];
        int r;

        if (b->block) {
                data = seq_block_data(b->block);
        } else {
                struct spill_ref ref = record_ref(&b->record);
                struct spill_meta meta = record_meta(&b->record);

                r = spill_read(engine->spill, &ref, &meta, x->buffer, size, e);
                if (r == -ERR_NOMEM)
                        return r;
                if (r < 0) {
                        event_log(engine, ENGINE_LOG_RECORD_DAMAGED, request->sc.owner,
                                request->sc.id, e);
                        return 1;
                }
        }
        if (cell.n_tokens < seq_cell_tokens(&x->h.shape, cell.class)) {
                if (b->block)
                        memcpy(x->buffer, data, size);
                data = x->buffer;
                blank(engine, cell.class, x->buffer, cell.n_tokens);
        }
        hash = hash64(data, size, 0);
        for (size_t i = 0; i < 8; i++)
                le[i] = (uint8_t)(hash >> (8 * i));
        r = write_part(x, data, size, e);
        if (r == 0)
                r = write_part(x, le, sizeof(le), e);
        if (r == 0)
                x->next++;
        return r;
}

/* The descriptor for the caller: opened again, read-only. */
static int reopen(int fd, struct err *e) {
        char path[64];
        int copy;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        copy = open(path, O_RDONLY | O_CLOEXEC);
        return copy >= 0 ? copy : err_set(e, ERR_SYS, "cannot open an export file for reading");
}

static int end(struct transfer *x, struct err *e) {
        uint8_t trailer[XFER_TRAILER_SIZE];
        int r, fd;

        xfer_sum_final(&x->sum, trailer);
        r = file_pwrite(x->fd, trailer, sizeof(trailer), x->offset, e);
        if (r < 0)
                return err_wrap(e, r, "cannot write the export file");
        x->offset += sizeof(trailer);
        fd = reopen(x->fd, e);
        if (fd < 0)
                return fd;
        close(x->fd);
        x->fd = fd;
        x->ended = true;
        return 0;
}

static void export_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct transfer *x = transfer_of(request);
        size_t n = 0;

        j->r = transfer_cancelled(request, &j->err);
        if (j->r == 0 && !x->began)
                j->r = begin(engine, request, &j->err);
        else if (j->r == 0)
                j->r = check_room(engine, x, xfer_file_size(&x->h) - x->offset, &j->err);
        while (j->r == 0 && x->next < x->n_cells && n < TRANSFER_SLICE) {
                n += x->h.shape.size[xfer_cell(&x->h, x->next).class];
                j->r = write_cell(engine, request, &j->err);
        }
        if (j->r == 1) {
                x->h.n_memory_tokens =
                        xfer_has_classes(&x->h) ? 0 : x->next * x->h.shape.block_tokens;
                x->n_cells = xfer_n_cells(&x->h);
                x->began = false;
                j->r = 0;
        } else if (j->r == 0 && x->next == x->n_cells) {
                j->r = end(x, &j->err);
        }
}

static void unpin(struct engine *engine, struct transfer *x) {
        for (uint32_t i = 0; i < x->n_pinned; i++) {
                seq_block_unref(x->cells[i].block);
                rec_put(engine, x->cells[i].rec);
        }
        x->n_pinned = 0;
        count(engine, x, 0);
}

static void export_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct transfer *x = transfer_of(request);
        struct engine_event *ev;

        if (j->r == 0 && !x->ended) {
                io_submit(engine, j);
                return;
        }
        unpin(engine, x);
        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        ev = request_answer(request, ENGINE_EXPORTED);
        engine->count.exports++;
        ev->exported.fd = TAKE_FD(x->fd);
        ev->exported.size = x->offset;
        ev->exported.n_memory_tokens = x->h.n_memory_tokens;
        request_finish(engine, request);
}

/* Pin cell @i: in RAM, or on disk in a record that has these tokens. */
static bool pin_cell(const struct conv *c, struct transfer *x, uint32_t i) {
        struct xfer_cell wanted = xfer_cell(&x->h, i);
        const struct conv_rec *entry = recs_at(&c->recs, wanted.class, wanted.index);
        struct transfer_cell *ret = &x->cells[i];
        struct seq_cell cell;

        *ret = (struct transfer_cell){0};
        if (!seq_cell_at(c->seq, wanted.class, wanted.index, &cell))
                return false;
        if (cell.block) {
                ret->block = seq_block_ref(cell.block);
        } else if (entry && !entry->rec->damaged && entry->n_valid >= wanted.n_tokens) {
                entry->rec->n_refs++;
                ret->rec = entry->rec;
                ret->record = entry->rec->r;
        } else {
                return false;
        }
        x->n_pinned++;
        return true;
}

/* Pin what position @n needs, as far as it is there. */
static void pin_position(const struct conv *c, struct transfer *x, uint32_t n) {
        x->h.n_memory_tokens = n;
        x->n_cells = xfer_n_cells(&x->h);
        while (x->n_pinned < x->n_cells && pin_cell(c, x, x->n_pinned))
                ;
}

/* Choose the position to which the file has memory, and pin what it needs. */
static void pin(struct engine *engine, const struct conv *c, struct transfer *x) {
        uint32_t bt = engine->info.block_tokens, n = seq_n_tokens(c->seq), mark;

        if (!xfer_has_classes(&x->h)) {
                pin_position(c, x, n / bt * bt);
                x->n_cells = x->n_pinned;
                x->h.n_memory_tokens = x->n_pinned * bt;
                return;
        }
        for (;;) {
                uint32_t before = 0;
                size_t it = 0;

                pin_position(c, x, n);
                if (x->n_pinned == x->n_cells)
                        return;
                unpin(engine, x);
                while (seq_next_mark(c->seq, &it, &mark))
                        if (mark < n)
                                before = MAX(before, mark);
                n = before;
        }
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        struct conv *c = request->conv;
        struct transfer *x = transfer_new(engine, request, e);
        size_t n = 0;
        int r;

        if (!x)
                return -(int)e->code;
        x->h.shape = engine->info.shape;
        x->h.is_private = c->private_memory;
        /* At most: of attention all blocks, and a state. */
        for (int i = 0; i < SEQ_N_CLASSES; i++)
                if (x->h.shape.size[i] > 0)
                        n += i == SEQ_STATE ? 1
                                            : seq_n_tokens(c->seq) / x->h.shape.block_tokens + 1;
        r = transfer_charge(request, n * sizeof(*x->cells), e);
        if (r < 0)
                return r;
        x->cells = calloc(n, sizeof(*x->cells));
        if (!x->cells)
                return err_set(e, ERR_NOMEM, "no memory for an export");
        if (!request->r.without_memory && !c->foreign_vocab)
                pin(engine, c, x);
        request_submit(engine, request, export_run, export_done);
        return 0;
}

const struct verb verb_export = {.own_size = sizeof(struct transfer *),
        .deinit = transfer_deinit,
        .act = act,
        .hold = HOLD_FORKS,
        .needs_all = true,
        .is_long = true};
