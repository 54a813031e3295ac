/* SPDX-License-Identifier: MIT */
#pragma once
/* Conversations that a test's daemon tells of, for the verbs that look after them. */
#include "cli-fixture.h"
#include "base/clock.h"

struct conv {
        uint64_t id, parent, ram, disk, age; /* seconds since it was changed */
        const char *name, *title, *tags[4], *snippet;
        uint32_t tokens, turns, expires, published, dropped;
        Confab__V1__Residency residency;
        bool busy, generating, pinned;
        uint64_t revision;
        Confab__V1__Sampling *sampling;
        Confab__V1__Writing *writing;
};

/* What is to be freed with it. */
struct made {
        Confab__V1__Conversation c;
        Confab__V1__About about;
        Confab__V1__Tags tags;
        Confab__V1__Hit hit;
        char *tag_list[4];
};

static uint64_t test_now; /* all ages count from here */

static inline Confab__V1__Conversation *make_conv(struct made *m, const struct conv *from) {
        *m = (struct made){.c = CONFAB__V1__CONVERSATION__INIT,
                .about = CONFAB__V1__ABOUT__INIT,
                .tags = CONFAB__V1__TAGS__INIT,
                .hit = CONFAB__V1__HIT__INIT};
        m->c.has_id = m->c.has_parent = m->c.has_residency = m->c.has_revision = true;
        m->c.has_ram_bytes = m->c.has_disk_bytes = m->c.has_n_tokens = m->c.has_n_turns = true;
        m->c.has_updated_usec = m->c.has_created_usec = m->c.has_busy = m->c.has_generating = true;
        m->c.has_pinned = m->c.has_n_published = true;
        m->c.id = from->id;
        m->c.parent = from->parent;
        m->c.name = proto_borrow(from->name);
        m->c.residency =
                from->residency ? from->residency : CONFAB__V1__RESIDENCY__RESIDENCY_RESIDENT;
        m->c.ram_bytes = from->ram;
        m->c.disk_bytes = from->disk;
        m->c.n_tokens = from->tokens;
        m->c.n_turns = from->turns;
        m->c.revision = from->revision;
        m->c.updated_usec = test_now - from->age * 1000000;
        m->c.created_usec = from->id * 1000000;
        m->c.busy = from->busy;
        m->c.generating = from->generating;
        m->c.pinned = from->pinned;
        m->c.n_published = from->published;
        m->c.sampling = from->sampling;
        m->c.writing = from->writing;
        m->c.about = &m->about;
        m->about.title = proto_borrow(from->title);
        m->about.has_expires_after = from->expires > 0;
        m->about.expires_after = from->expires;
        m->about.tags = &m->tags;
        m->tags.tags = m->tag_list;
        while (m->tags.n_tags < 4 && from->tags[m->tags.n_tags]) {
                m->tag_list[m->tags.n_tags] = proto_borrow(from->tags[m->tags.n_tags]);
                m->tags.n_tags++;
        }
        if (from->snippet) {
                m->c.hit = &m->hit;
                m->hit.snippet = proto_borrow(from->snippet);
                m->hit.has_turn = true;
                m->hit.turn = 2;
        }
        return &m->c;
}

/* A page; @cursor: or NULL. */
static inline void send_convs(struct fixture *f, uint64_t id, const struct conv *convs, size_t n,
        bool more, const char *cursor) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversations page = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Conversation *pointers[16];
        struct made made[16];

        assert_true(n <= 16);
        for (size_t i = 0; i < n; i++)
                pointers[i] = make_conv(&made[i], &convs[i]);
        event.has_request = page.has_more = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATIONS;
        event.conversations = &page;
        page.conversations = pointers;
        page.n_conversations = n;
        page.more = more;
        page.cursor = proto_borrow(cursor);
        peer_send(&f->peer, &event);
}

static inline void send_conv(struct fixture *f, uint64_t id, const struct conv *conv) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        struct made made;

        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = make_conv(&made, conv);
        peer_send(&f->peer, &event);
}

/* The next request is @verb for conversation @conversation; its id. */
static inline uint64_t expect_for(
        struct fixture *f, Confab__V1__Request__VerbCase verb, uint64_t conversation) {
        _cleanup_(proto_message_freep) struct proto_message *m = peer_next(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, verb);
        if (verb == CONFAB__V1__REQUEST__VERB_GET)
                assert_int_equal(m->request->get->conversation->id, conversation);
        else
                assert_int_equal(m->request->close->conversation->id, conversation);
        return m->request->id;
}

static inline void check_usage(struct fixture *f, const char *const *args, const char *err) {
        start(f, args);
        finish(f, 2, "", err);
}
#define USAGE(f, err, ...) check_usage((f), (const char *const[]){__VA_ARGS__, NULL}, (err))
