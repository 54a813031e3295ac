/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of this floor. */
#include <pthread.h>

#include "engine/disk/disk.h"

struct disk {
        /* register.c, engine thread */
        int reserve_fd;
        uint64_t t_scrub;  /* when to scrub removed data; 0: there is none */
        uint64_t t_loose;  /* when to look for loose records; 0: the register is not shared */
        bool scrubbing;    /* a scrub job is under way */
        bool scrub_failed; /* the last scrub failed, and this was logged */
        bool log_lost_told;
        /* register.c, under lock: records that workers took to make room for the register */
        pthread_mutex_t lock;
        struct store_cut *cuts;
        size_t n_cuts;
        uint64_t reclaimed; /* bytes of these records */
        bool gave_up;

        /* layout.c, immutable: the sections of the blocks of each class */
        struct sections {
                struct spill_array *arrays;
                uint64_t *ends;
                uint32_t *of_layer; /* [n_layer]; UINT32_MAX: none */
                size_t n_arrays, n;
        } sections[SEQ_N_CLASSES];
        /* The stages of reading them (layout.c). */
        struct stage {
                size_t n_sections[SEQ_N_CLASSES]; /* of the stages up to this one */
        } * stages;                               /* [n_stages] */
        size_t n_stages;
        size_t *stages_of; /* [n_layer] */

        /* write.c, engine thread */
        size_t n_writers;          /* jobs under way that write blocks */
        enum err_code spill_fails; /* of the failure that was told last, until a write works */

        /* codec.c, engine thread */
        bool probing; /* the disk is being measured */
        struct job probe;
};
