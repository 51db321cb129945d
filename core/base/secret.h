/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in a program's arguments, by known patterns, as logs are passed on. The rest stays. */
#pragma once

#include <stddef.h>

/**
 * capo_secret_args() - the arguments of a program as one line, spaces between, with *** in place of
 *   - the value of an option or a variable with a word such as token, secret or password in its
 *     name (--api-key X, --hf-token=X, PASSWORD=X); "tokenizer" and "tokens" are other words
 *   - a word made like a key of a known service (hf_..., sk-..., ghp_..., AKIA...), or a JSON web
 *     token
 *   - a password in a URL (https://user:X@host)
 *   - a long word of hex digits, or of letters and digits of all kinds
 * @args: each ends with a zero, as in /proc/<pid>/cmdline; @size: bytes
 * @out:  @room bytes, cut where it does not fit
 *
 * Return: bytes in @out without its zero.
 */
size_t capo_secret_args(const char *args, size_t size, char *out, size_t room);
