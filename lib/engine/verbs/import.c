/* SPDX-License-Identifier: MIT */
/*
 * Import: a file that anybody may have made becomes a new conversation.
 *
 * 1. Of clients' descriptors only a memfd that is sealed against writing, growing and shrinking is
 *    accepted: its contents cannot change after they were checked, and no read can block. (A file on a
 *    file system of the client's own could do both.) A file of our own (file.c) is as good: nobody else
 *    can write into it.
 * 2. Every length is checked before it is used. Data that must be in memory at once is charged
 *    before it is allocated, and the blocks are read in pieces.
 * 3. First everything is checked, then one transaction makes the conversation with its transcript.
 *    A failure until then leaves nothing behind. The memory follows. It is only a cache (I1), so
 *    memory that does not fit on the disk, or comes too late because the daemon stops, is left out.
 * 4. Memory of another fingerprint is left out. Memory with our MAC was computed here for exactly
 *    these tokens, and is as good as any. Other memory of our fingerprint may be wrong on purpose.
 *    It becomes private memory, which no other conversation except forks ever reads (I6). So the
 *    maker of the file can deceive only the user who imported it. NaN in it makes logits NaN, and
 *    nothing else: rows of a batch do not mix (I2), and sampling takes a defined token.
 * 5. Tokens of another vocabulary are refused: they would stand for other words.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "engine/memory/memory.h"
#include "engine/verbs/transfer.h"

/* A copy of what is noted, beside its bytes: the struct, places of tags, NULs. */
#define NOTED_COST (sizeof(struct about) + ABOUT_TAGS_MAX * (sizeof(char *) + 1) + 3)
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

static int read_part(
        struct request *request, void *dst, size_t n, uint64_t offset, bool sum, struct err *e) {
        struct transfer *x = transfer_of(request);
        int r = file_pread(request->r.fd, dst, n, offset, e);

        if (r < 0)
                return err_wrap(e, r, "cannot read the export file");
        if (sum)
                xfer_sum_update(&x->sum, dst, n);
        return 0;
}

static int read_header(struct request *request, uint64_t size, struct err *e) {
        uint8_t header[XFER_HEADER_SIZE];
        int r;

        if (size < sizeof(header))
                return err_set(e, ERR_FORMAT, "this is no export file");
        r = read_part(request, header, sizeof(header), 0, true, e);
        if (r < 0)
                return r;
        return xfer_header_parse(header, sizeof(header), size, &transfer_of(request)->h, e);
}

static int check_header(struct engine *engine, const struct xfer_header *h, struct err *e) {
        if (h->vocab != engine->vocab_hash)
                return err_set(e, ERR_UNSUPPORTED,
                        "the export file's tokens belong to another model's vocabulary");
        if (h->n_tokens - gap_size(&h->gap) > engine->info.context)
                return err_set(e, ERR_CONTEXT,
                        "the export file has %u tokens, more than the context of %u",
                        h->n_tokens - gap_size(&h->gap), engine->info.context);
        return 0;
}

static bool memory_is_usable(struct engine *engine, const struct xfer_header *h) {
        const struct seq_shape *own = &engine->info.shape;

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                if (h->shape.size[c] != own->size[c])
                        return false;
        return h->n_memory_tokens > 0 && fingerprint_equal(&h->model, &engine->info.fingerprint) &&
               h->shape.block_tokens == own->block_tokens && h->shape.window == own->window &&
               h->shape.chunk == own->chunk;
}

static void *take_block(void *arg, size_t n, struct err *e) {
        void *block;

        if (transfer_charge(arg, n, e) < 0)
                return NULL;
        block = malloc(MAX(n, (size_t)1));
        if (!block)
                err_set(e, ERR_NOMEM, "no memory for the turns of an import");
        return block;
}

static int check_definitions(struct engine *engine, const char *tools, size_t n, struct err *e) {
        int r = n > ENGINE_MAX_TOOLS
                        ? err_set(e, ERR_TOO_LARGE, "more than %d bytes", ENGINE_MAX_TOOLS)
                        : chat_check_tools(engine->chat, tools, n, e);

        /* Of a format that takes none they are only kept. */
        return r == -ERR_UNSUPPORTED ? 0 : r;
}

/* Turn @t: results of tools, definitions, and what a message was given with have their form. */
static int check_turn(
        struct engine *engine, struct request *request, const struct store_turn *t, struct err *e) {
        const struct said_memory memory = {take_block, request, &request->charge};
        struct engine_result *results = NULL;
        struct given given = {0};
        size_t n;
        int r = 0;

        if (t->role == CHAT_TOOL)
                r = results_parse(t->text, t->text_size, &memory, &results, &n, e);
        if (r == 0 && t->extra && t->role == CHAT_ASSISTANT)
                r = given_parse(t->extra, t->extra_size, &memory, &given, e);
        else if (r == 0 && t->extra)
                r = check_definitions(engine, t->extra, t->extra_size, e);
        free(results);
        free(given.calls);
        return r;
}

static int no_such_form(int r, struct err *e) {
        if (r != -ERR_INVALID)
                return r;
        e->code = ERR_FORMAT;
        return -ERR_FORMAT;
}

/* Of a file that anybody may have made: what the daemon itself would write, and nothing else. */
static int check_tools(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        int r = x->t.tools ? check_definitions(engine, x->t.tools, x->h.tools_size, e) : 0;

        if (r < 0)
                return err_wrap(e, no_such_form(r, e), "the export file's definitions of tools");
        for (uint32_t i = 0; i < x->h.n_turns; i++) {
                r = check_turn(engine, request, &x->t.turns[i], e);
                if (r < 0)
                        return err_wrap(e, no_such_form(r, e), "turn %u of the export file", i);
        }
        return 0;
}

static int read_transcript(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        uint64_t size = xfer_transcript_size(&x->h) + 8;
        size_t more = ((size_t)x->h.n_turns + 1) * sizeof(*x->t.turns) +
                      ((size_t)x->h.n_tokens + 1) * sizeof(*x->t.tokens) + x->h.tools_size + 1 +
                      (x->h.noted_size > 0 ? NOTED_COST + x->h.noted_size : 0);
        int r = transfer_charge(request, (size_t)size + more, e);

        if (r < 0)
                return r;
        x->data = malloc(size);
        if (!x->data)
                return err_set(e, ERR_NOMEM, "no memory for %" PRIu64 " bytes of text", size);
        r = read_part(request, x->data, size, XFER_HEADER_SIZE, true, e);
        if (r == 0)
                r = xfer_transcript_parse(
                        &x->h, x->data, (size_t)size, engine->info.n_vocab, &x->t, e);
        if (r == 0)
                r = create_check_sampling(engine, &x->t.sampling, e);
        if (r == 0)
                r = check_tools(engine, request, e);
        x->offset = XFER_HEADER_SIZE + size;
        return r;
}

static int begin(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        uint8_t key[XFER_KEY_SIZE];
        struct stat st;
        int seals = request->r.own_file ? SEALS : fcntl(request->r.fd, F_GET_SEALS), r;

        if (seals < 0 || (seals & SEALS) != SEALS)
                return err_set(e, ERR_INVALID,
                        "an import comes in a memfd with write, grow and shrink seals");
        if (fstat(request->r.fd, &st) < 0)
                return err_set(e, ERR_SYS, "cannot tell the size of an import");
        r = transfer_key(engine, key, e);
        if (r < 0)
                return r;
        xfer_sum_init(&x->sum, key);
        r = read_header(request, (uint64_t)st.st_size, e);
        if (r == 0)
                r = check_header(engine, &x->h, e);
        if (r == 0)
                r = read_transcript(engine, request, e);
        x->with_memory = memory_is_usable(engine, &x->h);
        x->began = true;
        return r;
}

/* Read the blocks for checksum and MAC only. */
static int check_blocks(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        uint64_t end = xfer_file_size(&x->h) - XFER_TRAILER_SIZE;
        uint8_t is[XFER_TRAILER_SIZE], should_be[XFER_TRAILER_SIZE];
        size_t done = 0;
        int r = 0;

        while (r == 0 && x->offset < end && done < TRANSFER_SLICE) {
                size_t n = (size_t)MIN(end - x->offset, (uint64_t)transfer_buffer_size(engine));

                r = read_part(request, x->buffer, n, x->offset, true, e);
                x->offset += n;
                done += n;
        }
        if (r < 0 || x->offset < end)
                return r;
        r = read_part(request, should_be, sizeof(should_be), end, false, e);
        if (r < 0)
                return r;
        xfer_sum_final(&x->sum, is);
        x->ended = true;
        return xfer_trailer_check(is, should_be, &x->ours, e);
}

/* What there is no memory for stays unknown. */
static void tell_chains(struct engine *engine, struct request *request) {
        struct transfer *x = transfer_of(request);
        _cleanup_(freep) struct conv_turn *turns = NULL;
        struct teller t = {.engine = engine,
                .charge = &request->charge,
                .turns = x->t.turns,
                .tools = x->t.tools,
                .tools_size = x->t.tools ? x->h.tools_size : 0,
                .owner = request->sc.owner};
        size_t size = ((size_t)x->h.n_turns + 1) * sizeof(*turns);
        int r = charge_take(&request->charge, size, "turns", NULL);

        if (r < 0)
                return;
        turns = calloc(1, size);
        for (uint32_t i = 0; turns && i < x->h.n_turns; i++)
                turns[i] = teller_turn(&x->t.turns[i]);
        t.said = (struct said){{.memory = x->t.tokens}, turns, request->sc.created_usec};
        for (uint32_t i = 0; turns && r == 0 && i < x->h.n_turns; i++) {
                r = teller_chain(&t, i, NULL);
                x->t.turns[i].chain = r < 0 ? STORE_CHAIN_UNKNOWN : t.chain;
        }
        charge_give(&request->charge, size);
}

static int create(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        const char *name = request->r.name && request->r.name[0] ? request->r.name : NULL;
        unsigned tries = 0;
        int r;

        request->sc = (struct store_conv){.owner = request->r.owner,
                .model = engine->info.fingerprint,
                .vocab = engine->vocab_hash,
                .created_usec = x->h.created_usec,
                .private_memory = x->with_memory && (!x->ours || x->h.is_private),
                .gap = x->h.gap,
                .overflow = x->h.overflow,
                .tools = x->t.tools,
                .about = x->t.about,
                .sampling = x->t.sampling};
        if (create_copy_name(request->sc.name, name ? name : x->t.name, name ? e : NULL) < 0) {
                if (name)
                        return -ERR_INVALID;
                request->sc.name[0] = '\0';
        }
        tell_chains(engine, request);
        pthread_mutex_lock(&engine->verbs->create_lock);
        do {
                r = create_check_quota(engine, request, x->h.n_tokens, e);
                if (r == 0)
                        r = store_conv_create(engine->store, &request->sc, x->t.turns, x->h.n_turns,
                                x->t.tokens, x->h.n_tokens, e);
                if (r == -ERR_EXISTS && !name && request->sc.name[0]) {
                        request->sc.name[0] = '\0'; /* the original still exists */
                        r = store_conv_create(engine->store, &request->sc, x->t.turns, x->h.n_turns,
                                x->t.tokens, x->h.n_tokens, e);
                }
        } while (register_retry(engine, &tries, r, e));
        pthread_mutex_unlock(&engine->verbs->create_lock);
        if (r == 0)
                request_read_noted(engine, request);
        return r;
}

/* The register has the transcript: from now on x->t.tokens are those of the memory. */
static void leave_out(struct transfer *x) {
        const struct gap *gap = &x->h.gap;

        memmove(x->t.tokens + gap->from, x->t.tokens + gap->to,
                (size_t)(x->h.n_tokens - gap->to) * sizeof(*x->t.tokens));
}

static void import_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct transfer *x = transfer_of(request);

        j->r = transfer_cancelled(request, &j->err);
        if (j->r == 0 && !x->began)
                j->r = begin(engine, request, &j->err);
        else if (j->r == 0)
                j->r = check_blocks(engine, request, &j->err);
        if (j->r == 0 && !x->with_memory)
                x->ended = true; /* the rest of the file is not read at all */
        if (j->r == 0 && x->ended)
                j->r = create(engine, request, &j->err);
        if (j->r == 0 && x->ended)
                leave_out(x);
}

static void import_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct transfer *x = transfer_of(request);

        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        if (!x->ended) {
                io_submit(engine, j);
                return;
        }
        engine->count.imports++;
        notice_conv(engine, ENGINE_NOTICE_OPENED, request->sc.owner, request->sc.id,
                request->sc.revision);
        if (x->with_memory)
                request_go_on(engine, request); /* next: act() */
        else
                request_finish_conv(engine, request);
}

/* --- the conversation's memory --- */

static int write_cell(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        struct xfer_cell cell = xfer_cell(&x->h, x->next);
        uint32_t end = cell.index * seq_cell_tokens(&x->h.shape, cell.class) + cell.n_tokens;
        struct spill_block b = {.file_key = request->sc.id,
                .owner = request->sc.owner,
                .meta = {.class_id = cell.class, .position = cell.index, .n_tokens = cell.n_tokens},
                .raw = x->buffer,
                .raw_size = x->h.shape.size[cell.class]};
        struct spill_ref ref;
        int r = read_part(request, x->buffer, b.raw_size, x->offset, false, e);

        if (r < 0)
                return r;
        b.meta.token_hash = conv_hash_at(engine, x->t.tokens, x->hashes, end);
        r = spill_write(engine->spill, &b, &ref, NULL, e);
        if (r < 0)
                return r;
        x->records[x->n_records++] = (struct store_record){.file_key = ref.file_key,
                .offset = ref.offset,
                .stored_size = ref.stored_size,
                .raw_size = ref.raw_size,
                .block_class = cell.class,
                .index = cell.index,
                .n_tokens = cell.n_tokens,
                .token_hash = b.meta.token_hash,
                .owner = request->sc.owner,
                .is_private = request->sc.private_memory};
        x->offset += b.raw_size + 8;
        x->next++;
        return 0;
}

/* Give back the space of the written records. */
static void drop_records(struct engine *engine, struct transfer *x) {
        records_release(engine, &(struct store_gone){x->records, x->n_records});
        x->n_records = 0;
}

/* Link all written records in one transaction. If it fails, give back their space. */
static int link_records(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        struct store_meter meters[WRITE_N_METERS];
        struct store_gone gone = {0};
        int r;

        spill_settle(engine->spill, request->sc.id);
        write_meters(engine, meters);
        r = store_link(engine->store, request->sc.id, &engine->info.fingerprint,
                &engine->store_shape, x->records, x->n_records, meters, ARRAY_SIZE(meters), &gone,
                e);
        if (r < 0) {
                drop_records(engine, x);
                return r;
        }
        records_release(engine, &gone);
        store_gone_deinit(&gone);
        return 0;
}

static void memory_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct transfer *x = transfer_of(request);
        size_t n = 0;

        while (j->r == 0 && x->next < x->n_cells && n < TRANSFER_SLICE) {
                n += x->h.shape.size[xfer_cell(&x->h, x->next).class];
                j->r = transfer_cancelled(request, &j->err);
                if (j->r == 0)
                        j->r = write_cell(engine, request, &j->err);
        }
        if (j->r < 0 || x->next == x->n_cells) {
                struct err e;
                int r;

                /* A part of what a position needs is of no use; blocks of SEQ_ALL from the first on are. */
                if (x->next < x->n_cells && xfer_has_classes(&x->h))
                        drop_records(engine, x);
                r = x->n_records > 0 ? link_records(engine, request, &e) : 0;

                if (r < 0 && j->r == 0) {
                        j->r = r;
                        j->err = e;
                }
                x->ended = true;
        }
}

/* Give the linked records to the conversation in RAM. */
static int adopt(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        struct conv *c = request->conv;

        _cleanup_(freep) struct seq_place *places =
                calloc((size_t)x->n_records + 1, sizeof(*places));
        uint32_t n_places = 0, n = 0;

        if (!places)
                return err_set(e, ERR_NOMEM, "no memory for the cells of an import");
        for (uint32_t i = 0; i < x->n_records; i++) {
                const struct store_record *r = &x->records[i];
                enum seq_class class = (enum seq_class)r->block_class;
                struct conv_rec entry = {rec_get(engine, r, e), r->index, r->n_tokens, true};

                if (!entry.rec || recs_set(engine, &c->recs, class, &entry, e) < 0) {
                        rec_put(engine, entry.rec);
                        return -ERR_NOMEM;
                }
                if (class != SEQ_ALL)
                        places[n_places++] = (struct seq_place){class, r->index};
                n = MAX(n, r->index * seq_cell_tokens(&x->h.shape, class) + r->n_tokens);
        }
        c->n_known = n;
        if (n == 0)
                return 0;
        if (seq_set_holes(c->seq, n, places, n_places, e) < 0)
                return -ERR_NOMEM;
        checkpoint_loaded(engine, c);
        return 0;
}

static void memory_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct err e;

        if (j->r == 0 && !transfer_of(request)->ended) {
                io_submit(engine, j);
                return;
        }
        if (j->r < 0 && j->r != -ERR_CANCELLED) {
                err_wrap(&j->err, j->r, "the memory of an imported conversation");
                event_log(engine, ENGINE_LOG_IMPORT_COLD, request->r.owner, request->conv->id,
                        &j->err);
        }
        if (adopt(engine, request, &e) < 0)
                request->conv->stale = true; /* the register is right: load it anew next time */
        request_finish_conv(engine, request);
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x = transfer_of(request);
        uint32_t bt = engine->info.block_tokens, n = x->h.n_memory_tokens / bt;
        struct conv *c = request->conv;
        int r;

        /* Another request may have come first: then the conversation has memory of its own. */
        if (seq_n_tokens(c->seq) > 0 || c->n_tokens < x->h.n_memory_tokens)
                return err_set(e, ERR_STATE, "the conversation went on already");
        x->n_cells = xfer_n_cells(&x->h);
        r = transfer_charge(
                request, x->n_cells * sizeof(*x->records) + (n + 1) * sizeof(*x->hashes), e);
        if (r < 0)
                return r;
        x->records = calloc(x->n_cells, sizeof(*x->records));
        x->hashes = calloc((size_t)n + 1, sizeof(*x->hashes));
        if (!x->records || !x->hashes)
                return err_set(e, ERR_NOMEM, "no memory for %u records", x->n_cells);
        for (uint32_t i = 0; i < n; i++)
                x->hashes[i] =
                        conv_token_hash(x->t.tokens, bt, i, bt, i > 0 ? x->hashes[i - 1] : 0);
        x->offset = XFER_HEADER_SIZE + xfer_transcript_size(&x->h) + 8;
        x->next = 0;
        x->ended = false;
        request_submit_as(engine, request, JOB_WRITE_BEHIND, memory_run, memory_done);
        return 0;
}

static void start(struct engine *engine, struct request *request) {
        struct err e;
        struct transfer *x = transfer_new(engine, request, &e);
        char name[STORE_NAME_MAX + 1];
        int r = x ? create_copy_name(name, request->r.name, &e) : -(int)e.code;

        if (r < 0)
                request_fail(engine, request, &e);
        else
                request_submit(engine, request, import_run, import_done);
}

const struct verb verb_import = {.works = true,
        .own_size = sizeof(struct transfer *),
        .deinit = transfer_deinit,
        .start = start,
        .act = act,
        .needs_all = true,
        .is_long = true,
        .is_made = true};
