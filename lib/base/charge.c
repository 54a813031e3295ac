/* SPDX-License-Identifier: MIT */
#include "base/charge.h"
#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include <assert.h>

int charge_take(struct charge *c, size_t n, const char *what, struct err *e) {
        size_t total;

        if (!c->ledger || n == 0)
                return 0;
        if (ledger_reserve(c->ledger, n) == 0) {
                c->size += n;
                return 0;
        }
        if (add_overflow(c->size, n, &total) || total > ledger_most(c->ledger))
                return err_set(e, ERR_TOO_LARGE,
                        "%s takes %zu bytes of memory beside %zu that the request has, which is "
                        "more than all requests share, %zu",
                        what, n, c->size, ledger_most(c->ledger));
        return err_set(e, ERR_LIMIT,
                "%s takes %zu bytes of memory; requests share %zu, and %zu of them are in use",
                what, n, ledger_budget(c->ledger), ledger_used(c->ledger));
}

void charge_give(struct charge *c, size_t n) {
        if (!c->ledger)
                return;
        assert(n <= c->size);
        c->size -= n;
        ledger_release(c->ledger, n);
}

void charge_move(struct charge *to, struct charge *from, size_t n) {
        assert(!to->ledger || to->ledger == from->ledger);
        assert(!from->ledger || n <= from->size);
        to->ledger = from->ledger;
        if (!from->ledger)
                return;
        from->size -= n;
        to->size += n;
}

void charge_deinit(struct charge *c) {
        charge_give(c, c->size);
}
