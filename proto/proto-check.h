/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to proto/. */
#include "base/err.h"
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Walks the wire form of a message of type @d before anything is allocated for the message. Checks
 * that it is well formed, and that its strings (those of known submessages too) are UTF-8 without
 * NUL bytes. Unknown fields pass. *ret_id gets the value of field 1 of @d itself, even on failure
 * if it was read before. -ERR_FORMAT, -ERR_INVALID. Time is linear in @n: every byte is visited at
 * most once per level of the schema, which does not recurse.
 */
int proto_check(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t n,
        uint64_t *ret_id, struct err *e);
