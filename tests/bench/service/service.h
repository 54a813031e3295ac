/* SPDX-License-Identifier: MIT */
#pragma once
/* The parts of bench-service: bench-service.c tells their arguments, args[0] is the one behind the first word. */

void service_trips(int n, char **args);
void service_http(int n, char **args);
void service_opens(int n, char **args);
void service_hold(int n, char **args);
void service_fill(int n, char **args);
void service_forks(int n, char **args);
void service_evict(int n, char **args);
void service_first(int n, char **args);
