/* SPDX-License-Identifier: Apache-2.0 */
/* A small XML document in memory, for NCCL's topology and graph files: elements with attributes, no
 * text. Every element keeps its line number for error messages. */
#pragma once

#include <stddef.h>

struct capo_xml_attr {
        const char *name;
        const char *value;
};

struct capo_xml {
        const char *name;
        int line;
        size_t n_attrs;
        struct capo_xml_attr *attrs;
        struct capo_xml *parent, *child, *next; /* child: the first one; next: the next sibling */
};

/** capo_xml_read() - read a whole file
 * @path: a file name; "-": standard input
 * @out: the root element; free it with capo_xml_free()
 * @why: on failure one line, "FILE:LINE:COLUMN: what", or "FILE: what"
 *
 * Documents over 64 MiB or nested deeper than 200 elements are rejected.
 *
 * Return: 0; -ENOENT and other errno of open and read; -EINVAL: not well-formed; -E2BIG; -ENOMEM.
 */
int capo_xml_read(const char *path, struct capo_xml **out, char *why, size_t room);

/** capo_xml_parse() - the same from memory; @name is the file name in messages. */
int capo_xml_parse(const char *name, const char *text, size_t size, struct capo_xml **out,
                   char *why, size_t room);

void capo_xml_free(struct capo_xml *root);

/** capo_xml_get() - value of an attribute, valid as long as the document; NULL: none. */
const char *capo_xml_get(const struct capo_xml *e, const char *attr);
