/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** capo_doctor_net_plugin() - the net plugin that release @version would load here. Return: is there
 * one? @path is empty if not. */
bool capo_doctor_net_plugin(int version, char *path, size_t room);
