/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a tree from expat's events. */
#include <expat.h>

#include "core/base/among.h"
#include "capo/msg.h"
#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "profiles/machine/xml.h"

#define SIZE_MAX_BYTES (64u << 20)
#define DEPTH_MAX      200

struct builder {
        XML_Parser parser;
        struct capo_xml *root, *open, *last; /* last: the latest child of `open` */
        int depth, error;
};

void capo_xml_free(struct capo_xml *e)
{
        for (struct capo_xml *next; e; e = next) {
                next = e->next;
                capo_xml_free(e->child);
                for (size_t i = 0; i < e->n_attrs; i++)
                        xfree((char *)e->attrs[i].name, (char *)e->attrs[i].value);
                xfree(e->attrs, (char *)e->name, e);
        }
}

const char *capo_xml_get(const struct capo_xml *e, const char *attr)
{
        const struct capo_xml_attr *a = FIRST_OF(it, e->attrs, e->n_attrs, !strcmp(it->name, attr));

        return a ? a->value : NULL;
}

static void stop_parser(struct builder *b, int error)
{
        b->error = error;
        XML_StopParser(b->parser, XML_FALSE);
}

static void on_start(void *user, const char *name, const char **attrs)
{
        struct builder *b = user;
        struct capo_xml *e;

        if (++b->depth > DEPTH_MAX) {
                stop_parser(b, -E2BIG);
                return;
        }
        e = xcalloc(1, sizeof *e);
        e->name = xstrdup(name);
        e->line = (int)XML_GetCurrentLineNumber(b->parser);
        e->parent = b->open;
        if (!b->open)
                b->root = e;
        else if (b->last)
                b->last->next = e;
        else
                b->open->child = e;
        b->open = e;
        b->last = NULL;
        for (; *attrs; attrs += 2) { /* expat rejects duplicates */
                xarray_room(&e->attrs, e->n_attrs, sizeof *e->attrs);
                e->attrs[e->n_attrs++] =
                        (struct capo_xml_attr){xstrdup(attrs[0]), xstrdup(attrs[1])};
        }
}

static void on_end(void *user, const char *name)
{
        struct builder *b = user;

        (void)name;
        b->depth--;
        b->last = b->open;
        b->open = b->open->parent;
}

/* Entities are not needed, and nested ones expand a small file to a huge one. */
static void on_entity(void *user, const char *name, int is_parameter, const char *value, int size,
                      const char *base, const char *system, const char *public,
                      const char *notation)
{
        (void)name, (void)is_parameter, (void)value, (void)size, (void)base, (void)system,
                (void)public, (void)notation;
        stop_parser(user, -EINVAL);
}

int capo_xml_parse(const char *name, const char *text, size_t size, struct capo_xml **out,
                   char *why, size_t room)
{
        struct builder b = {.parser = XML_ParserCreate(NULL)};
        size_t blank = 0;

        if (!b.parser)
                return capo_why(-ENOMEM, why, room, "%s: out of memory", name);
        if (size > SIZE_MAX_BYTES) {
                XML_ParserFree(b.parser);
                return capo_why(-E2BIG, why, room,
                                "%s: %zu bytes is more than a topology can have (64 MiB)", name,
                                size);
        }
        /* Blank lines before <?xml are an error in XML, but occur in dumps: make them part of the
         * prolog. */
        while (blank < size && strchr(" \t\r\n", text[blank]))
                blank++;
        if (size - blank < 5 || memcmp(text + blank, "<?xml", 5) != 0)
                blank = 0; /* white space before an element is legal, and keeps the line numbers
                              right */
        XML_SetUserData(b.parser, &b);
        XML_SetElementHandler(b.parser, on_start, on_end);
        XML_SetEntityDeclHandler(b.parser, on_entity);
        if (XML_Parse(b.parser, text + blank, (int)(size - blank), XML_TRUE) != XML_STATUS_OK) {
                int r = b.error ? b.error : -EINVAL;
                const char *what = b.error == -E2BIG ? "nested too deeply"
                                   : b.error == -EINVAL
                                           ? "entity declarations are not accepted"
                                           : XML_ErrorString(XML_GetErrorCode(b.parser));

                capo_why(r, why, room, "%s:%lu:%lu: not well-formed XML: %s", name,
                         (unsigned long)XML_GetCurrentLineNumber(b.parser),
                         (unsigned long)XML_GetCurrentColumnNumber(b.parser) + 1, what);
                XML_ParserFree(b.parser);
                capo_xml_free(b.root);
                return r;
        }
        XML_ParserFree(b.parser);
        *out = b.root;
        return 0;
}

int capo_xml_read(const char *path, struct capo_xml **out, char *why, size_t room)
{
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r = capo_file_read(path, SIZE_MAX_BYTES, &text, &size);

        if (r < 0)
                return capo_why(r, why, room, "%s: %s", path,
                                r == -E2BIG ? "too large" : strerror(-r));
        return capo_xml_parse(strcmp(path, "-") ? path : "standard input", text, size, out, why,
                              room);
}
