/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "life.h"
#include "sample/sample.h"

/* Somebody else. */
static uint64_t foreign(const struct life *l, uint64_t owner) {
        return l->owners[(life_owner_index(owner) + 1) % N_UIDS];
}

/* --- looking --- */

struct engine_conv *life_get(struct life *l, uint64_t owner, uint64_t id, const char *name) {
        struct reply *a = life_ask(l, &(struct engine_request){.verb = ENGINE_GET,
                                              .owner = owner,
                                              .conv_id = id,
                                              .conv_name = name,
                                              .want_turns = true,
                                              .want_parts = true,
                                              .want_tokens = true});

        if (a->kind == ENGINE_CONV)
                return &a->event->conv;
        if (a->err.code != ERR_NOT_FOUND)
                life_fail(l, "get", "get: %s", a->err.msg);
        return NULL;
}

static bool same_turn(const struct engine_turn *a, const struct engine_turn *b) {
        return a->role == b->role && a->start == b->start && a->end == b->end &&
               a->finish == b->finish && a->text_size == b->text_size &&
               (a->text_size == 0 || memcmp(a->text, b->text, a->text_size) == 0);
}

static bool same_string(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Parts of what has an end; those of an open reply may come to more when it goes on. */
static bool same_parts(const struct engine_turn *a, const struct engine_turn *b) {
        char x[4096] = "", y[4096] = "";

        if (a->finish != ENGINE_FINISH_NONE && a->finish != ENGINE_FINISH_STOP)
                return true;
        (void)life_put_parts(x, sizeof(x), a->parts, a->n_parts);
        (void)life_put_parts(y, sizeof(y), b->parts, b->n_parts);
        return strcmp(x, y) == 0 && a->n_results == b->n_results && same_string(a->tools, b->tools);
}

static bool same_tokens(const int32_t *a, const int32_t *b, uint32_t n) {
        return n == 0 || memcmp(a, b, n * sizeof(*a)) == 0;
}

/* The first tokens, and the turns that they are, are the same. */
static void check_prefix(
        struct life *l, const struct engine_conv *a, const struct engine_conv *b, uint32_t n) {
        if (n > a->n_tokens || n > b->n_tokens || !same_tokens(a->tokens, b->tokens, n))
                life_fail(l, "history", "conversation %llu: the first %u tokens have changed",
                        (unsigned long long)b->id, n);
        for (uint32_t i = 0; i < a->n_turns && a->turns[i].end <= n; i++)
                if (i >= b->n_turns || !same_turn(&a->turns[i], &b->turns[i]) ||
                        !same_parts(&a->turns[i], &b->turns[i]))
                        life_fail(l, "history", "conversation %llu: turn %u has changed",
                                (unsigned long long)b->id, i);
}

/* Only a Pin pins; what is new is not pinned. */
static void check_pinned(
        struct life *l, const struct engine_conv *was, const struct engine_conv *now) {
        if (now->pinned != was->pinned)
                life_fail(l, "pin", "conversation %llu is %spinned", (unsigned long long)now->id,
                        now->pinned ? "" : "not ");
}

static void check_same(
        struct life *l, const struct engine_conv *was, const struct engine_conv *now) {
        check_prefix(l, was, now, was->n_tokens);
        if (now->n_tokens != was->n_tokens || now->n_turns != was->n_turns)
                life_fail(l, "history", "conversation %llu: %u tokens in %u turns became %u in %u",
                        (unsigned long long)now->id, was->n_tokens, was->n_turns, now->n_tokens,
                        now->n_turns);
        if (now->dropped_from != was->dropped_from || now->dropped_to != was->dropped_to)
                life_fail(l, "gap", "conversation %llu: the gap %u to %u became %u to %u",
                        (unsigned long long)now->id, was->dropped_from, was->dropped_to,
                        now->dropped_from, now->dropped_to);
        if (now->n_published != was->n_published)
                life_fail(l, "history", "conversation %llu: %u published tokens became %u",
                        (unsigned long long)now->id, was->n_published, now->n_published);
        check_pinned(l, was, now);
}

static struct gap gap_of(const struct engine_conv *c) {
        return (struct gap){c->dropped_from, c->dropped_to};
}

static uint32_t n_memory(const struct engine_conv *c) {
        struct gap g = gap_of(c);

        return c->n_tokens - gap_size(&g);
}

/* Of the memory of @was so much is that of @now, too, if they have the first @n_kept tokens in
 * common. */
static uint32_t same_memory(
        const struct engine_conv *was, const struct engine_conv *now, uint32_t n_kept) {
        struct gap a = gap_of(was), b = gap_of(now);

        return gap_common(&a, n_memory(was), &b, gap_to_memory(&b, n_kept));
}

/* The gap is possible, and the memory fits the context. */
static void check_gap(struct life *l, const struct engine_conv *now) {
        struct gap g = gap_of(now);

        if (!gap_is_possible(&g, now->n_tokens) || (l->o.context == 0 && g.to > 0))
                life_fail(l, "gap", "the memory leaves out %u to %u of %u", g.from, g.to,
                        now->n_tokens);
        if (l->o.context > 0 && n_memory(now) > l->o.context)
                life_fail(l, "gap", "a memory of %u tokens", n_memory(now));
        if (!gap_is_none(&g) && now->n_published > g.from)
                life_fail(l, "foreign", "%u tokens are published, with a gap from %u on",
                        now->n_published, g.from);
}

static struct engine_conv *get_own(struct life *l, const struct mirror *m) {
        struct engine_conv *c = life_get(l, m->owner, m->id, NULL);

        if (!c)
                life_fail(l, "lost", "conversation %llu is gone", (unsigned long long)m->id);
        if (c->owner != m->owner || c->id != m->id)
                life_fail(l, "foreign", "another conversation came");
        return c;
}

void life_verify(struct life *l, struct mirror *m) {
        check_same(l, &m->c, get_own(l, m));
        if (life_get(l, foreign(l, m->owner), m->id, NULL))
                life_fail(l, "foreign", "%s sees conversation %llu of %s",
                        OWNER_TEXT(foreign(l, m->owner)), (unsigned long long)m->id,
                        OWNER_TEXT(m->owner));
}

void life_verify_all(struct life *l) {
        for (size_t u = 0; u < N_UIDS; u++) {
                uint64_t owner = l->owners[u];
                struct reply *a;
                size_t n = 0;

                for (size_t i = 0; i < N_SLOTS; i++)
                        n += l->m[i].id != 0 && l->m[i].owner == owner;
                a = life_ask(
                        l, &(struct engine_request){
                                   .verb = ENGINE_LIST, .owner = owner, .limit = ENGINE_MAX_LIST});
                if (a->kind != ENGINE_CONVS)
                        life_fail(l, "list", "list: %s", a->err.msg);
                if (a->event->convs.n != n)
                        life_fail(l, "lost", "%s has %zu conversations instead of %zu",
                                OWNER_TEXT(owner), a->event->convs.n, n);
                for (size_t i = 0; i < n; i++)
                        if (a->event->convs.convs[i].owner != owner)
                                life_fail(l, "foreign", "%s is shown what is not its own",
                                        OWNER_TEXT(owner));
        }
        for (size_t i = 0; i < N_SLOTS; i++)
                if (l->m[i].id)
                        life_verify(l, &l->m[i]);
}

/* --- mirrors --- */

static void *need(void *p) {
        if (!p) {
                fprintf(stderr, "no memory\n");
                exit(2);
        }
        return p;
}

static void turn_clear(struct engine_turn *t) {
        free(t->text);
        free(t->results);
        free(t->parts);
        free(t->tools);
        free(t->figures);
}

static void conv_clear(struct engine_conv *c) {
        for (uint32_t i = 0; c->turns && i < c->n_turns; i++)
                turn_clear(&c->turns[i]);
        free(c->tools);
        free(c->about);
        free(c->turns);
        free(c->tokens);
        free(c->name);
        *c = (struct engine_conv){0};
}

void mirror_close(struct mirror *m) {
        conv_clear(&m->c);
        ref_seq_free(m->memory);
        *m = (struct mirror){0};
}

void file_close(struct file *f) {
        if (f->fd > 0)
                close(f->fd);
        free(f->tokens);
        *f = (struct file){0};
}

/* From now on this is what it should be. Takes turns and tokens out of @now. */
static void adopt(struct life *l, struct mirror *m, struct engine_conv *now, const struct call *k) {
        check_pinned(l, &m->c, now);
        conv_clear(&m->c);
        m->c = *now;
        now->turns = NULL;
        now->tokens = NULL;
        now->tools = NULL;
        now->name = NULL;
        check_gap(l, &m->c);
        if (!m->c.private_memory)
                past_add(&l->past, m, n_memory(&m->c), false, k);
}

static void mirror_open(struct life *l, struct mirror *m, uint64_t owner, struct engine_conv *now,
        struct seq *memory) {
        m->id = now->id;
        m->owner = owner;
        m->memory = memory;
        if (now->owner != owner)
                life_fail(l, "foreign", "it belongs to %s", OWNER_TEXT(now->owner));
        adopt(l, m, now, NULL);
}

/* --- generation --- */

static struct sample_params params_of(const struct mirror *m, const struct engine_request *q) {
        struct sampling s = m->c.sampling;
        struct sample_params p = SAMPLE_PARAMS_DEFAULT;

        sampling_merge(&s, &q->sampling);
        if (s.has & SAMPLING_TEMPERATURE)
                p.temperature = s.temperature;
        if (s.has & SAMPLING_TOP_K)
                p.top_k = s.top_k;
        if (s.has & SAMPLING_REPETITION)
                p.repetition_penalty = s.repetition_penalty;
        p.seed = s.seed;
        return p;
}

/* The tokens that came, the last of @tokens [n], are those that should have come. */
static void compare(
        struct life *l, struct call *k, struct mirror *m, const int32_t *tokens, uint32_t n) {
        struct reply *a = &k->a;
        struct sample_params params = params_of(m, &k->q);
        struct ref_difference d;
        uint32_t at, i;

        if (n < a->n_tokens || !same_tokens(tokens + n - a->n_tokens, a->tokens, a->n_tokens))
                life_fail(l, "history", "the tokens that were sent are not those of the register");
        at = ref_check(l->s->ref[l->p->opt[OPT_MODEL]], l->o.kv_type, m->memory, tokens, n,
                a->n_tokens, a->logprobs, &params, &d);
        l->tally->compared += at;
        if (at == a->n_tokens)
                return;
        i = n - a->n_tokens + at;
        if (d.is_token)
                life_fail(l, "token", "slot %u, position %u: token %d instead of %d",
                        k->op->arg[ARG_CONV], i, a->tokens[at], d.token);
        life_fail(l, "logprob", "slot %u, position %u: log-probability %.9g instead of %.9g",
                k->op->arg[ARG_CONV], i, (double)a->logprobs[at], (double)d.logprob);
}

static void check_sum(struct life *l, const struct mirror *m, const struct counts *c) {
        if (c->n_ram + c->n_disk + c->n_shared + c->n_computed != c->n_prompt)
                life_fail(l, "counts", "%u from RAM, %u from disk, %u shared, %u computed of %u",
                        c->n_ram, c->n_disk, c->n_shared, c->n_computed, c->n_prompt);
        if (c->n_ram > m->c.n_tokens)
                life_fail(l, "counts", "%u tokens from its own RAM, but it had %u", c->n_ram,
                        m->c.n_tokens);
        if (c->differs_why > ENGINE_DIFFERS_SHIFTED || c->differs_at > c->n_prompt ||
                c->differs_at < c->n_ram + c->n_disk + c->n_shared)
                life_fail(l, "counts",
                        "with %u, %u, %u of %u reused it differs at %u for reason %d", c->n_ram,
                        c->n_disk, c->n_shared, c->n_prompt, c->differs_at, (int)c->differs_why);
}

/* Done has the last word: after Accepted a damaged record may be found, or another conversation may
 * have computed the same. */
static void check_counts(struct life *l, const struct call *k, const struct mirror *m) {
        const struct counts *c = &k->a.counts, *d = &k->a.counts_done;

        if (!k->a.accepted || c->n_prompt != d->n_prompt)
                life_fail(l, "counts", "accepted with %u tokens, done with %u", c->n_prompt,
                        d->n_prompt);
        check_sum(l, m, c);
        check_sum(l, m, d);
        l->tally->ram += d->n_ram;
        l->tally->disk += d->n_disk;
        l->tally->shared += d->n_shared;
        l->tally->computed += d->n_computed;
}

/* Is a cut at the position refused with good reason? */
static bool is_no_place(const struct engine_conv *c, uint32_t pos) {
        for (uint32_t i = 0; i < c->n_turns; i++) {
                const struct engine_turn *t = &c->turns[i];

                if (pos <= t->start || pos >= t->end)
                        continue;
                return !(t->role == ENGINE_RAW ||
                         (t->role == ENGINE_ASSISTANT && t->finish != ENGINE_FINISH_NONE &&
                                 pos > t->start + 8));
        }
        return false;
}

/* A reply from an earlier place: there is none, or nothing to go on from. */
static bool is_no_beginning(const struct call *k, const struct engine_conv *c) {
        if (!k->q.cuts)
                return false;
        if (k->op->arg[ARG_WHICH] == BY_POSITION && is_no_place(c, k->n_kept))
                return true;
        return k->op->kind == OP_AGAIN &&
               (k->n_kept_turns == 0 || c->turns[k->n_kept_turns - 1].role == ENGINE_SYSTEM);
}

static void settle_refused(struct life *l, const struct call *k, const struct mirror *m) {
        enum err_code code = k->a.err.code;
        bool fine = (code == ERR_CANCELLED && k->op->arg[ARG_HOW] == CANCEL) ||
                    (code == ERR_INVALID && is_no_beginning(k, &m->c)) ||
                    (code == ERR_CONTEXT && l->o.context > 0);

        /* Never for a pool that shrank: what fitted at the start fits. */
        if (!fine)
                life_fail(l, "error", "%s", k->a.err.msg);
        l->tally->refused++;
        check_same(l, &m->c, get_own(l, m));
}

/* What the conversation began with is there still, and publication ends with it. */
static void check_beginning(struct life *l, const struct call *k, const struct engine_conv *was,
        const struct engine_conv *now) {
        uint32_t most;

        check_prefix(l, was, now, k->n_kept);
        if (k->n_kept_turns > 0 && (now->n_turns < k->n_kept_turns ||
                                           now->turns[k->n_kept_turns - 1].end != k->n_kept))
                life_fail(l, "history", "the kept turns do not end at token %u", k->n_kept);
        most = MIN(was->n_published, k->n_kept);
        if (now->dropped_to > now->dropped_from)
                most = MIN(most, now->dropped_from);
        if (now->n_published != most)
                life_fail(l, "foreign", "%u of %u published tokens are left with %u kept ones",
                        now->n_published, was->n_published, k->n_kept);
}

/* The parts that came are those of the register. (A reply that goes on with an open one tells what is
 * new, and that is not always what its turn has: a part that was held back is told once.) */
static void check_parts(struct life *l, const struct call *k, const struct engine_turn *last) {
        char is[4096] = "";

        if (!k->q.want_parts || k->a.n_tokens == 0 || k->op->kind == OP_AGAIN ||
                last->role != ENGINE_ASSISTANT)
                return;
        (void)life_put_parts(is, sizeof(is), last->parts, last->n_parts);
        if (strcmp(is, k->a.parts) != 0)
                life_fail(l, "parts", "the parts of the register, '%s', are not those sent, '%s'",
                        is, k->a.parts);
        l->tally->parts++;
}

/* Turns that the request adds, and as many revisions. A request that was cancelled after it was accepted
 * leaves its input. */
static uint32_t n_added(const struct call *k) {
        bool has_input = k->q.input != ENGINE_INPUT_NONE;
        bool has_reply = k->q.max_tokens > 0 &&
                         (k->a.n_tokens > 0 || k->a.finish != ENGINE_FINISH_CANCELLED);

        return has_input + has_reply;
}

/* The tokens that invite a reply belong to it. */
static bool has_memory(const struct call *k, const struct engine_conv *now) {
        uint32_t all = k->a.counts.n_prompt + (uint32_t)k->a.n_tokens, n = n_memory(now);

        return n == all || (k->a.finish == ENGINE_FINISH_CANCELLED && k->a.n_tokens == 0 &&
                                   n < all && all - n <= 16);
}

static void settle_reply(struct life *l, struct call *k) {
        struct mirror *m = &l->m[k->op->arg[ARG_CONV]];
        struct reply *a = &k->a;
        struct engine_conv *now;
        const struct engine_turn *last;
        int32_t *memory;

        if (a->kind == ENGINE_ERROR) {
                settle_refused(l, k, m);
                return;
        }
        check_counts(l, k, m);
        now = get_own(l, m);
        check_beginning(l, k, &m->c, now);
        if (a->n_generated != a->n_tokens || !has_memory(k, now) ||
                now->n_turns != k->n_kept_turns + n_added(k) || now->revision != a->revision ||
                now->revision != m->c.revision + n_added(k))
                life_fail(l, "history",
                        "%u tokens in %u turns became %u in %u with %u of the prompt and %u "
                        "generated",
                        m->c.n_tokens, m->c.n_turns, now->n_tokens, now->n_turns,
                        a->counts.n_prompt, a->n_generated);
        if (k->op->kind == OP_TOKENS &&
                !same_tokens(now->tokens + k->n_kept, k->q.tokens, (uint32_t)k->q.n_tokens))
                life_fail(l, "history", "not the tokens that were given");
        last = &now->turns[now->n_turns - 1];
        if (a->n_tokens > 0 &&
                (last->finish != a->finish ||
                        (!k->q.want_parts &&
                                (last->text_size != strlen(a->text) ||
                                        memcmp(last->text, a->text, last->text_size) != 0))))
                life_fail(l, "history", "the reply in the register is not the one that was sent");
        check_parts(l, k, last);
        ref_cut(m->memory, same_memory(&m->c, now, k->n_kept));
        memory = life_memory_of(now);
        compare(l, k, m, memory, n_memory(now));
        free(memory);
        l->tally->replies++;
        k->n_before = m->c.n_tokens;
        adopt(l, m, now, k);
}

/* --- fork and rewind --- */

static bool settle_kept(
        struct life *l, struct call *k, const struct mirror *m, const struct engine_conv *now) {
        if (now->n_tokens != k->n_kept)
                life_fail(
                        l, "history", "%u tokens are kept instead of %u", now->n_tokens, k->n_kept);
        check_prefix(l, &m->c, now, k->n_kept);
        if (now->n_turns > 0 && now->turns[now->n_turns - 1].end != k->n_kept)
                life_fail(l, "history", "the last turn does not end where the tokens do");
        return true;
}

static bool settle_cut_error(struct life *l, const struct call *k, const struct mirror *m) {
        if (k->a.kind == ENGINE_CONV)
                return false;
        if (k->a.err.code != ERR_INVALID || k->op->arg[ARG_WHICH] != BY_POSITION ||
                !is_no_place(&m->c, k->n_kept))
                life_fail(l, "error", "%s", k->a.err.msg);
        l->tally->refused++;
        return true;
}

static void settle_fork(struct life *l, struct call *k) {
        struct mirror *m = &l->m[k->op->arg[ARG_CONV]], *to = &l->m[k->op->arg[ARG_TO]];
        struct engine_conv *now;

        if (settle_cut_error(l, k, m))
                return;
        now = life_get(l, m->owner, k->a.conv.id, NULL);
        if (!now)
                life_fail(l, "lost", "the fork is not there");
        settle_kept(l, k, m, now);
        if (now->n_published != 0 || now->private_memory != m->c.private_memory)
                life_fail(l, "foreign", "the fork is published, or private unlike its parent");
        mirror_open(l, to, m->owner, now, ref_fork(m->memory, same_memory(&m->c, now, k->n_kept)));
}

static void settle_rewind(struct life *l, struct call *k) {
        struct mirror *m = &l->m[k->op->arg[ARG_CONV]];
        struct engine_conv *now;

        if (settle_cut_error(l, k, m))
                return;
        now = get_own(l, m);
        settle_kept(l, k, m, now);
        if (now->n_published > m->c.n_published || now->n_published > now->n_tokens)
                life_fail(l, "foreign", "%u tokens are published after a rewind to %u",
                        now->n_published, now->n_tokens);
        ref_cut(m->memory, same_memory(&m->c, now, k->n_kept));
        adopt(l, m, now, NULL);
}

/* --- the others --- */

static void settle_publish(struct life *l, struct call *k) {
        struct mirror *m = &l->m[k->op->arg[ARG_CONV]];
        uint32_t n = k->q.at_turn == ENGINE_UNSET ? m->c.n_turns : k->q.at_turn;
        struct engine_conv *now;

        if (k->a.kind == ENGINE_ERROR) {
                bool gap =
                        m->c.dropped_to > 0 && n > 0 && m->c.turns[n - 1].end > m->c.dropped_from;

                if (k->op->kind == OP_UNPUBLISH || (n > 0 && !m->c.private_memory && !gap))
                        life_fail(l, "error", "%s", k->a.err.msg);
                l->tally->refused++;
                return;
        }
        n = k->op->kind == OP_UNPUBLISH || n == 0 ? 0 : m->c.turns[n - 1].end;
        now = get_own(l, m);
        if (now->n_published != n)
                life_fail(
                        l, "history", "%u tokens are published instead of %u", now->n_published, n);
        m->c.n_published = n;
        check_same(l, &m->c, now);
}

static void settle_export(struct life *l, struct call *k) {
        const struct mirror *m = &l->m[k->op->arg[ARG_CONV]];
        struct file *f = &l->files[k->op->arg[ARG_FILE]];
        char *data;

        if (k->a.kind != ENGINE_EXPORTED) {
                /* The file counts as spill. */
                if ((k->a.err.code != ERR_LIMIT && k->a.err.code != ERR_TOO_LARGE) ||
                        l->o.disk_limit + l->o.disk_limit_per_owner == 0)
                        life_fail(l, "error", "%s", k->a.err.msg);
                l->tally->refused++;
                return;
        }
        file_close(f);
        data = need(malloc(k->a.size + 1));
        if (pread(k->a.fd, data, k->a.size + 1, 0) != (ssize_t)k->a.size)
                life_fail(l, "export", "the file does not have %llu bytes",
                        (unsigned long long)k->a.size);
        f->fd = memfd_create("export", MFD_CLOEXEC);
        f->size = k->a.size;
        if (f->fd < 0 || pwrite(f->fd, data, f->size, 0) != (ssize_t)f->size)
                life_fail(l, "export", "cannot keep %llu bytes", (unsigned long long)f->size);
        free(data);
        f->n_tokens = m->c.n_tokens;
        f->n_turns = m->c.n_turns;
        f->gap = gap_of(&m->c);
        f->tokens = need(calloc(f->n_tokens + 1, sizeof(*f->tokens)));
        if (f->n_tokens > 0)
                memcpy(f->tokens, m->c.tokens, f->n_tokens * sizeof(*f->tokens));
}

static void imported(struct life *l, struct call *k, struct engine_conv *now) {
        const struct file *f = &l->files[k->op->arg[ARG_FILE]];
        struct mirror *m = &l->m[k->op->arg[ARG_CONV]];

        if (now->n_tokens != f->n_tokens || now->n_turns != f->n_turns ||
                !same_tokens(now->tokens, f->tokens, f->n_tokens))
                life_fail(l, "history", "not what was exported");
        if (now->dropped_from != f->gap.from || now->dropped_to != f->gap.to)
                life_fail(l, "gap", "not the gap that was exported");
        if (now->n_published != 0)
                life_fail(l, "foreign", "what was imported is published");
        mirror_open(l, m, k->q.owner, now, ref_seq(l->s->ref[l->p->opt[OPT_MODEL]], l->o.kv_type));
        l->tally->imported++;
}

static void settle_import(struct life *l, struct call *k) {
        struct engine_conv *now;

        if (k->a.kind == ENGINE_ERROR) {
                if (k->op->arg[ARG_K] == AS_IS || k->op->arg[ARG_K] == AS_FOREIGN)
                        life_fail(l, "error", "%s", k->a.err.msg);
                l->tally->refused++;
                return;
        }
        now = life_get(l, k->q.owner, k->a.conv.id, NULL);
        if (!now)
                life_fail(l, "lost", "what was imported is not there");
        imported(l, k, now);
}

void life_settle(struct life *l, struct call *k) {
        struct mirror *m = &l->m[k->op->arg[ARG_CONV]];
        struct engine_conv *now;

        l->at = k->index;
        switch (k->op->kind) {
        case OP_SAY:
        case OP_RAW:
        case OP_TOKENS:
        case OP_AGAIN:
                settle_reply(l, k);
                return;
        case OP_FORK:
                settle_fork(l, k);
                return;
        case OP_REWIND:
                settle_rewind(l, k);
                return;
        case OP_PUBLISH:
        case OP_UNPUBLISH:
                settle_publish(l, k);
                return;
        case OP_EXPORT:
                settle_export(l, k);
                return;
        case OP_IMPORT:
                settle_import(l, k);
                return;
        default:
                break;
        }
        if (k->a.kind == ENGINE_ERROR) {
                life_fail(l, "error", "%s", k->a.err.msg);
        }
        if (k->op->kind == OP_OPEN) {
                now = life_get(l, k->q.owner, k->a.conv.id, NULL);
                if (!now)
                        life_fail(l, "lost", "it is not there");
                mirror_open(l, m, k->q.owner, now,
                        ref_seq(l->s->ref[l->p->opt[OPT_MODEL]], l->o.kv_type));
        } else if (k->op->kind == OP_CLOSE) {
                if (life_get(l, m->owner, m->id, NULL))
                        life_fail(l, "history", "it is still there");
                mirror_close(m);
        } else {
                if (k->op->kind == OP_PIN)
                        m->c.pinned = k->q.pinned;
                life_verify(l, m);
                if (k->op->kind == OP_UPDATE)
                        sampling_merge(&m->c.sampling, &k->q.sampling);
        }
}

/* --- after a kill --- */

/* Open, fork, import: it came into being, or not. */
static void resolve_new(struct life *l, struct call *k) {
        struct mirror *m = &l->m[k->op->arg[ARG_CONV]], *to = &l->m[k->op->arg[ARG_TO]];
        struct engine_conv *now = life_get(l, k->q.owner, 0, k->name);

        if (!now)
                return;
        if (k->op->kind == OP_FORK) {
                settle_kept(l, k, m, now);
                mirror_open(l, to, m->owner, now,
                        ref_fork(m->memory, same_memory(&m->c, now, k->n_kept)));
        } else if (k->op->kind == OP_IMPORT) {
                imported(l, k, now);
        } else {
                mirror_open(l, m, k->q.owner, now,
                        ref_seq(l->s->ref[l->p->opt[OPT_MODEL]], l->o.kv_type));
        }
}

static void resolve_reply(struct life *l, struct call *k, struct mirror *m) {
        struct engine_conv *now = get_own(l, m);
        uint32_t n;

        if (now->revision == m->c.revision) {
                if (k->a.accepted && k->q.input != ENGINE_INPUT_NONE)
                        life_fail(l, "lost", "a message was accepted, and is not there");
                check_same(l, &m->c, now);
                return;
        }
        check_beginning(l, k, &m->c, now);
        n = (uint32_t)(now->revision - m->c.revision);
        if (n > (k->q.input != ENGINE_INPUT_NONE) + 1u || now->n_turns != k->n_kept_turns + n)
                life_fail(l, "history", "%u turns became %u", m->c.n_turns, now->n_turns);
        ref_cut(m->memory, same_memory(&m->c, now, k->n_kept));
        /* The reply is there. What was heard of it must be its beginning. */
        if (k->a.accepted && now->turns[now->n_turns - 1].finish != ENGINE_FINISH_NONE) {
                int32_t *memory = life_memory_of(now);

                if (n_memory(now) < k->a.counts.n_prompt + k->a.n_tokens)
                        life_fail(l, "history", "more was sent than there is now");
                compare(l, k, m, memory, k->a.counts.n_prompt + k->a.n_tokens);
                free(memory);
        }
        adopt(l, m, now, k);
}

void life_resolve(struct life *l, struct call *k) {
        struct mirror *m = &l->m[k->op->arg[ARG_CONV]];
        struct engine_conv *now;

        l->at = k->index;
        l->tally->resolved++;
        if (k->op->kind == OP_OPEN || k->op->kind == OP_FORK || k->op->kind == OP_IMPORT) {
                resolve_new(l, k);
                return;
        }
        if (op_generates(k->op->kind)) {
                resolve_reply(l, k, m);
                return;
        }
        if (k->op->kind == OP_CLOSE && !life_get(l, m->owner, m->id, NULL)) {
                mirror_close(m);
                return;
        }
        now = get_own(l, m);
        if (k->op->kind == OP_REWIND && now->n_tokens != m->c.n_tokens) {
                settle_kept(l, k, m, now);
                ref_cut(m->memory, same_memory(&m->c, now, k->n_kept));
                adopt(l, m, now, NULL);
                return;
        }
        /* A rewind inside the last turn's last token can change its text without its tokens. */
        if (k->op->kind == OP_PUBLISH || k->op->kind == OP_UNPUBLISH)
                m->c.n_published = now->n_published;
        if (k->op->kind == OP_PIN)
                m->c.pinned = now->pinned;
        check_same(l, &m->c, now);
        m->c.revision = now->revision; /* a rewind may have dropped nothing */
        m->c.sampling = now->sampling;
}
