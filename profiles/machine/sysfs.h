/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's description of this machine: /sys, or the folder in CAPO_SYSFS. */
#pragma once

#include "core/base/util.h"

/** capo_sysfs_path() - a file of it. Return: @path; empty if it is too long. */
const char *capo_sysfs_path(char path[PATH_MAX], const char *format, ...)
        __attribute__((format(printf, 2, 3)));
#define SYSFS(...) capo_sysfs_path((char[PATH_MAX]){0}, __VA_ARGS__)

/** capo_sysfs_text() - the first line of a file; "" on error. Return: was it read? */
#define capo_sysfs_text(text, room, ...) capo_sysfs_read(text, room, SYSFS(__VA_ARGS__))
bool capo_sysfs_read(char *text, size_t room, const char *path);

/** capo_sysfs_number() - the number in a file, as strtol() reads it; @missing: none. */
#define capo_sysfs_number(missing, ...) capo_sysfs_read_number(missing, SYSFS(__VA_ARGS__))
long capo_sysfs_read_number(long missing, const char *path);

/** capo_sysfs_link() - the last part of a link's target. Return: is it a link? */
#define capo_sysfs_link(text, room, ...) capo_sysfs_read_link(text, room, SYSFS(__VA_ARGS__))
bool capo_sysfs_read_link(char *text, size_t room, const char *path);

#define capo_sysfs_exists(...) (access(SYSFS(__VA_ARGS__), F_OK) == 0)

/** capo_sysfs_each() - call @each for every name in a folder, sorted. Return: how many. */
unsigned capo_sysfs_each(const char *folder, void (*each)(const char *name, void *arg), void *arg);
