/* SPDX-License-Identifier: MIT */
#include "link-rig.h"

#include <errno.h>

#include "store/store.h"

struct gate link_gate = GATE_INIT;
atomic_bool link_fails;

int __real_store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        const struct store_shape *shape, struct store_record *links, size_t n,
        const struct store_meter *meters, size_t n_meters, struct store_gone *gone, struct err *e);
int __wrap_store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        const struct store_shape *shape, struct store_record *links, size_t n,
        const struct store_meter *meters, size_t n_meters, struct store_gone *gone, struct err *e);
int __wrap_store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        const struct store_shape *shape, struct store_record *links, size_t n,
        const struct store_meter *meters, size_t n_meters, struct store_gone *gone, struct err *e) {
        gate_pass(&link_gate);
        errno = EIO;
        return atomic_load(&link_fails) ? err_set(e, ERR_SYS, "a disk that takes nothing")
                                        : __real_store_link(s, id, model, shape, links, n, meters,
                                                  n_meters, gone, e);
}
