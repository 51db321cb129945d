/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/** capo_demangle() - what a person calls the function that C++ named @mangled
 *
 * Only the qualified name: "c10d::ProcessGroupNCCL::allreduce", without parameters, template
 * arguments, which make a name of a deep library a line long. A name without a name
 * is {lambda} or (anonymous). It never has a space or a plus. A name that is cut short gives as
 * much as it holds.
 *
 * Itanium C++ ABI, 5.1. Nothing is allocated.
 *
 * Return: bytes written to @text, which ends in 0; 0: @mangled is no such name. */
size_t capo_demangle(const char *mangled, char *text, size_t room);
