/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Products of int8 are what instruction sets differ in most, so their files are compiled once for each set that
 * does them in its own way. The build names the set (KERN_LEVEL), which is in the names of functions; the flags of
 * the compilation choose the vectors (vec.h).
 */
#ifndef KERN_LEVEL
#define KERN_LEVEL avx2
#endif
#define LEVEL__(level, name) kern_##level##_##name
#define LEVEL_(level, name) LEVEL__(level, name)
#define LEVEL(name) LEVEL_(KERN_LEVEL, name)
