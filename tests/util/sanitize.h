/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Which sanitizer a test was built with: everything takes many times as long with one, and freed
 * memory is kept. gcc says it in macros, clang as features.
 */
#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_ASAN 1
#endif
#endif
#ifndef TEST_ASAN
#define TEST_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#endif
#ifndef TEST_TSAN
#define TEST_TSAN 0
#endif

#define TEST_SANITIZED (TEST_ASAN || TEST_TSAN)
