/* SPDX-License-Identifier: Apache-2.0 */
#include <zlib.h>

#include "cli/trace/trace_out.h"
#include "core/base/xalloc.h"

enum { BLOCK = 1 << 20, SPARE = 1 << 16, LEVEL = 1, GZIP = 15 + 16 /* window, and a gzip head */ };

struct trace_out {
        FILE *file;
        bool gzip;
        int error;
        size_t used; /* bytes of text */
        z_stream z;
        char text[BLOCK + SPARE];
        unsigned char packed[BLOCK];
};

static void write_bytes(struct trace_out *o, const void *bytes, size_t n)
{
        if (!o->error && n && fwrite(bytes, 1, n, o->file) != n)
                o->error = -(errno ? errno : EIO);
}

/* @flush: Z_FINISH: these are the last. */
static void write_text(struct trace_out *o, int flush)
{
        if (!o->gzip)
                write_bytes(o, o->text, o->used);
        o->z.next_in = (unsigned char *)o->text;
        o->z.avail_in = (uInt)o->used;
        o->z.avail_out = 0;
        while (o->gzip && !o->z.avail_out) {
                o->z.next_out = o->packed;
                o->z.avail_out = sizeof o->packed;
                deflate(&o->z, flush);
                write_bytes(o, o->packed, sizeof o->packed - o->z.avail_out);
        }
        o->used = 0;
}

char *trace_out_room(struct trace_out *o, size_t n)
{
        if (o->used + n > BLOCK)
                write_text(o, Z_NO_FLUSH);
        return o->text + o->used;
}

void trace_out_take(struct trace_out *o, size_t n) { o->used += n; }

struct trace_out *trace_out_new(FILE *file, bool gzip)
{
        struct trace_out *o = xcalloc(1, sizeof *o);

        o->file = file;
        o->gzip = gzip;
        if (!gzip || deflateInit2(&o->z, LEVEL, Z_DEFLATED, GZIP, 9, Z_DEFAULT_STRATEGY) == Z_OK)
                return o;
        free(o);
        return NULL;
}

int trace_out_end(struct trace_out *o)
{
        int r;

        write_text(o, Z_FINISH);
        if (o->gzip)
                deflateEnd(&o->z);
        r = o->error;
        free(o);
        return r;
}

char *trace_put_number(char *to, uint64_t n) { return to + sprintf(to, "%" PRIu64, n); }

char *trace_put_us(char *to, uint64_t ns)
{
        return to + sprintf(to, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}
