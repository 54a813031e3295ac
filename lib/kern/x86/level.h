/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Products of int8 are what instruction sets differ in most, so their files are compiled once for each set that
 * does them in its own way: the flags of the compilation choose the vectors (vec.h), and the names of functions.
 */
#if defined(__AVX512VNNI__)
#define LEVEL(name) kern_avx512_vnni_##name
#elif defined(__AVX512BW__)
#define LEVEL(name) kern_avx512_##name
#elif defined(__AVXVNNI__)
#define LEVEL(name) kern_avx_vnni_##name
#else
#define LEVEL(name) kern_avx2_##name
#endif
