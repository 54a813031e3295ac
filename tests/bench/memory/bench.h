/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the programs behind `tools/bench` share. They measure and print; the tool makes the
 * table. One line of JSON per figure on stdout:
 *
 *      {"name":"warm.cache.2048","values":[0.0123,0.0119]}
 *
 * Times are seconds, sizes bytes. Whatever goes wrong ends the program with a sentence on stderr.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

void bench_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Die with e's sentence if r < 0. */
void bench_check(int r, const struct err *e, const char *what);
/* A progress note on stderr. */
void bench_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Seconds; of this thread's own processor time, where others on the machine shall not count. */
double bench_now(void);
double bench_thread_time(void);

void bench_put(const char *name, const double *values, size_t n);
void bench_put1(const char *name, double value);
double bench_median(double *values, size_t n); /* sorts */

/* Page aligned (O_DIRECT wants that), touched. */
void *bench_alloc(size_t n);
/* A whole number, or die. */
uint64_t bench_number(const char *s);
/* The instruction set that tools/bench asks for, in the environment: a number of enum kern_isa; UINT32_MAX: no cap. */
uint32_t bench_isa(void);
/* "100,2000" */
size_t bench_numbers(const char *s, uint32_t *ret, size_t max);
uint64_t bench_random(uint64_t *state);

/* The page cache of all files in a folder: bring them in, drop them (written back first), and which
 * share of their pages is in (0 to 1; 0 without files). */
void bench_cache_fill(const char *dir);
void bench_cache_drop(const char *dir);
double bench_cache_share(const char *dir);
/* Bytes of all files in a folder, as they lie on disk. */
double bench_disk_size(const char *dir);
