/* SPDX-License-Identifier: MIT */
/* Parts of replies and results of tools as messages. */
#include "daemon/methods-private.h"

int methods_put_parts(struct scratch *s, const struct engine_part *parts, size_t n,
        Confab__V1__Part ***ret, size_t *ret_n, struct err *e) {
        Confab__V1__Part *items;

        if (n == 0)
                return 0;
        items = scratch_alloc(s, n, sizeof(*items));
        *ret = scratch_alloc(s, n, sizeof(**ret));
        if (!items || !*ret)
                return err_set(e, ERR_NOMEM, "no memory for an answer");
        for (size_t i = 0; i < n; i++) {
                const struct engine_part *from = &parts[i];
                Confab__V1__Part *m = &items[i];

                confab__v1__part__init(m);
                m->has_index = m->has_kind = true;
                m->index = from->index;
                m->kind = (Confab__V1__PartKind)((unsigned)from->kind + 1);
                m->text = proto_borrow(from->text);
                m->call_id = proto_borrow(from->call_id);
                m->name = proto_borrow(from->name);
                m->broken = proto_borrow(from->broken);
                m->has_ends = m->ends = from->ends;
                (*ret)[i] = m;
        }
        *ret_n = n;
        return 0;
}

int methods_put_results(struct scratch *s, const struct engine_result *results, size_t n,
        Confab__V1__ToolResult ***ret, size_t *ret_n, struct err *e) {
        Confab__V1__ToolResult *items;

        if (n == 0)
                return 0;
        items = scratch_alloc(s, n, sizeof(*items));
        *ret = scratch_alloc(s, n, sizeof(**ret));
        if (!items || !*ret)
                return err_set(e, ERR_NOMEM, "no memory for an answer");
        for (size_t i = 0; i < n; i++) {
                confab__v1__tool_result__init(&items[i]);
                items[i].call_id = proto_borrow(results[i].call_id);
                items[i].name = proto_borrow(results[i].name);
                items[i].text = proto_borrow(results[i].text);
                (*ret)[i] = &items[i];
        }
        *ret_n = n;
        return 0;
}
