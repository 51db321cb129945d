/* SPDX-License-Identifier: Apache-2.0 */
/* The files in which NCCL looks for a plugin (misc/tuner.cc, plugin/plugin_open.cc of 2.19.1 to
 * 2.30.7): the value of its variable as a file, then libnccl-<kind>-<value>.so; without a value
 * libnccl-<kind>.so (from 2.21 on). If none has a tuner or profiler, the net plugin's file may have
 * one, as aws-ofi-nccl's does. */
#pragma once

#include <stdbool.h>

#define CAPO_PLUGIN_FILE 4096

/** capo_plugin_file() - the @i-th file of that search, from 0
 * @kind:  "tuner", "profiler" or "net"
 * @value: what its variable says; NULL or "" when unset
 *
 * Return: @text; NULL: there are no more. */
const char *capo_plugin_file(const char *kind, const char *value, unsigned i,
                             char text[CAPO_PLUGIN_FILE]);

/** capo_plugin_off() - does the value turn the plugin off ("none")? NULL is unset. */
bool capo_plugin_off(const char *value);

/** capo_plugin_static() - does it name the symbols of the program itself? Any beginning of
 * STATIC_PLUGIN, in any case, does (2.22.3 on). */
bool capo_plugin_static(const char *value);

/** capo_plugin_own() - does the value of such a variable name capo's plugin, by name or path? */
bool capo_plugin_own(const char *value);
