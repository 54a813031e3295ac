/* SPDX-License-Identifier: MIT */
/*
 * A Continue from an earlier place (memory/edit.c) that is evicted, on small models of each kind of memory. Before
 * it is accepted nothing of the new tokens reaches the register, and what does is there for both histories.
 * Afterwards its message stays, whatever becomes of it.
 */
#include "base/util.h"
#include "edit-rig.h"
#include "kinds-rig.h"
#include "util/test.h"

static struct answer A, B, T, edited, went_on, many[2];

/* What becomes of the edit. */
enum ending { GOES_ON, IS_CANCELLED, IS_KILLED, N_ENDINGS };
enum { N = 400, AT_TURN = 7 };
/* Where it is when its memory goes. */
enum place { IN_QUEUE, IN_PROMPT, N_PLACES };

static struct engine_request make_edit(uint64_t c) {
        struct engine_request q = edit_request(c, AT_TURN, erig_words(24, 3), 12);

        q.ignore_eos = true;
        return q;
}

/* What comes of the edit, and of going on without one, where there is room for everything. */
static void straight_answers(const struct kind *k) {
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        kind_open(&r, k, UINT32_MAX);
        c = kind_talk(&r, 6, &A);
        erig_get(&r, c, &T);
        d = erig_fork(&r, c);
        q = make_edit(c);
        assert_int_equal(erig_do(&r, &q, &edited), ENGINE_DONE);
        kind_say(&r, d, 99, &went_on);
        erig_close(&r);
}

/* The last end of a turn that is in whole blocks before the cut: what of the history is on disk for certain. */
static uint32_t kept_on_disk(uint32_t cut) {
        uint32_t end = 0;

        for (uint32_t i = 0; i < T.n_turns; i++)
                if (T.turns[i].end <= cut / KIND_BLOCK * KIND_BLOCK)
                        end = T.turns[i].end - (T.turns[i].finish != ENGINE_FINISH_NONE);
        return end;
}

/* Links of what lies behind @pos, which is inside the first of its blocks. */
static size_t links_behind(struct erig *r, uint64_t c, uint32_t pos) {
        uint32_t ends[512];
        size_t n = 0;

        for (uint32_t class = 0; class < 3; class ++) {
                size_t n_links = kind_link_list(r, c, class, ends, ARRAY_SIZE(ends));

                for (size_t i = 0; i < n_links; i++)
                        n += ends[i] > pos;
        }
        return n;
}

/* The message was accepted: the reply to it is the one of the undisturbed edit. */
static void check_accepted(struct erig *r, uint64_t c, enum ending ending) {
        struct engine_request q = edit_answer(c, 12);

        if (ending == IS_CANCELLED)
                edit_check_unanswered(r, c, &many[0]);
        q.ignore_eos = true;
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        answer_same(&B, &edited);
}

static void check_ending(struct erig *r, const struct kind *k, uint64_t c, struct engine_request *q,
        enum place place, enum ending ending, uint32_t kept) {
        if (ending == GOES_ON) {
                engine_pause(r->en, q->handle, false);
                erig_wait(r, &many[0]);
                answer_same(&many[0], &edited);
                return;
        }
        if (ending == IS_CANCELLED) {
                engine_cancel(r->en, q->handle);
                engine_pause(r->en, q->handle, false);
                erig_wait(r, &many[0]);
        } else {
                erig_restart(r, false);
        }
        if (place == IN_PROMPT) {
                check_accepted(r, c, ending);
                return;
        }
        assert_true(ending == IS_KILLED || many[0].kind == ENGINE_ERROR);
        edit_check_as_before(r, c, &T);
        kind_say(r, c, 99, &B);
        answer_same(&B, &went_on);
        if (B.n_prompt - B.n_computed < kept)
                fail_msg("%s, %d: %u of %u computed again, %u should be there", k->arch,
                        (int)ending, B.n_computed, B.n_prompt, kept);
}

/* The edit waits for a place, or has computed part of its prompt when it is parked, and another request takes all
 * memory. The old memory is on disk then (@written), or goes. */
static void evicted_case(const struct kind *k, uint64_t pool_size, enum place place,
        enum ending ending, bool written) {
        struct engine_options o = erig_options(pool_size);
        struct engine_request q, other;
        uint32_t cut, kept;
        struct erig r;
        uint64_t c, d;

        o.model_path = k->path;
        o.max_active = 1;
        o.batch_tokens = 2;
        o.spill_delay_ms = written ? 0 : UINT32_MAX;
        erig_open(&r, &o);
        c = kind_talk(&r, 6, &A);
        d = erig_new(&r, NULL, NULL);
        kind_wait_idle(&r);
        erig_get(&r, c, &T);
        cut = T.turns[AT_TURN - 1].end;
        q = make_edit(c);
        other = erig_long_request(d, "Tell me a long story.", N - 60);
        if (place == IN_QUEUE) {
                edit_send_and_hold(&r, &other, 1, &many[1]);
                erig_send(&r, &q, &many[0]);
                engine_pause(r.en, q.handle, true);
                gate_open(&edit_step_gate);
        } else {
                /* Not so far that no window is left where the cut is, nor that its state is passed. */
                edit_send_and_hold(&r, &q, k->states ? 40 : 5, &many[0]);
                engine_pause(r.en, q.handle, true);
                gate_open(&edit_step_gate);
                erig_send(&r, &other, &many[1]);
        }
        erig_wait(&r, &many[1]);
        if (many[1].kind != ENGINE_DONE)
                fail_msg("%s: %s", k->arch, many[1].err.msg);
        if (written)
                kept = kept_on_disk(cut);
        else /* perhaps there is room for both */
                kept = ending != IS_KILLED || links_behind(&r, c, 0) > 0 ? 40 : 0;
        erig_look_at_register(&r);
        check_ending(&r, k, c, &q, place, ending, kept);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        erig_check_budget(&r);
        erig_check_register(&r);
        erig_close(&r);
}

static void test_evicted(void **state) {
        EACH_KIND(k) {
                uint64_t pool_size = kind_least_pool(k, N);

                straight_answers(k);
                for (enum place place = 0; place < N_PLACES; place++)
                        for (enum ending ending = 0; ending < N_ENDINGS; ending++)
                                for (int written = 0; written < 2; written++)
                                        evicted_case(k, pool_size, place, ending, written);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_evicted),
        };

        return cmocka_run_group_tests(tests, kinds_make, kinds_remove);
}
