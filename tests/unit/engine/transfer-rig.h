/* SPDX-License-Identifier: MIT */
#pragma once
/* What the tests of export and import share: files, and a conversation to put into them. */
#include <fcntl.h>

#include "engine/verbs/transfer-format.h"
#include "rig.h"

/* Without these a file is not taken. */
#define TRANSFER_SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

struct transfer_file {
        uint8_t *data; /* to be freed */
        size_t size;
};

/* What the last of the calls below was answered, where it does not take an answer. */
extern struct answer transfer_last;

/* A system message, defaults for sampling, and four turns. */
uint64_t transfer_dialogue(struct erig *r, const char *name);
/* Is there a conversation of this name? */
bool transfer_exists(struct erig *r, const char *name);
struct transfer_file transfer_export(struct erig *r, uint64_t conv, bool without_memory);
enum engine_event_kind transfer_import(
        struct erig *r, const void *data, size_t n, const char *name, struct answer *a);
/* An engine with such a conversation, and its export. */
uint64_t transfer_open(
        struct erig *r, const struct engine_options *o, const char *name, struct transfer_file *f);
/* It must succeed. Returns the conversation. */
uint64_t transfer_import_good(struct erig *r, const struct transfer_file *f, const char *name);
/* A file that the caller closes. */
int transfer_memfd(const void *data, size_t n, int seals);

/* The header of a whole file. */
struct xfer_header transfer_header(const struct transfer_file *f);
/* All checksums of a changed file anew, as anybody can; the MAC is nobody's. */
void transfer_reseal(struct transfer_file *f, const struct xfer_header *h);
void transfer_put_u64(uint8_t *p, uint64_t v);

/* Two conversations with the same turns, tokens, times and defaults. */
void transfer_same_transcript(struct erig *r, uint64_t x, uint64_t y);
