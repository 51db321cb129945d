/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's description of this machine: /sys, or the folder in CAPO_SYSFS. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** capo_sysfs_text() - the first line of a file; "" on error. Return: was it read? */
bool capo_sysfs_text(char *text, size_t room, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/** capo_sysfs_number() - the number in a file, as strtol() reads it; @missing: none. */
long capo_sysfs_number(long missing, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** capo_sysfs_link() - the last part of a link's target. Return: is it a link? */
bool capo_sysfs_link(char *text, size_t room, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

bool capo_sysfs_exists(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** capo_sysfs_each() - call @each for every name in a folder, sorted. Return: how many. */
unsigned capo_sysfs_each(const char *folder, void (*each)(const char *name, void *arg), void *arg);
