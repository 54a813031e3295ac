/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to methods-quota*.c. Loop thread only. */
#include "daemon/methods-private.h"

/* A limit in an answer, which borrows from the row. */
struct quota_row {
        Confab__V1__QuotaLimit limit;
        Confab__V1__QuotaSubject subject;
};
/* @value: QUOTA_NONE for no limit; @gid: of the group that it comes from. Borrows the label of @subject. */
void quota_row_put(struct quota_row *row, const struct quota_subject *subject, enum quota quota,
        uint64_t value, enum quota_origin origin, uint32_t gid);
/* Answer @in with a page of all overrides. 1: it was answered; -ERR_INVALID (the cursor), -ERR_NOMEM. */
int methods_quota_list(struct peer *p, const Confab__V1__Request *in, struct err *e);
