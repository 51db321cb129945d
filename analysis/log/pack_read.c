/* SPDX-License-Identifier: Apache-2.0 */
#include <zstd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "analysis/log/pack.h"
#include "capo/msg.h"
#include "core/base/others_file.h"
#include "core/base/xalloc.h"

uint64_t pack_check(const struct pack_head *head, const char *name)
{
        struct pack_head copy = *head;

        copy.check = 0;
        return XXH3_64bits_withSeed(name, head->n_name, XXH3_64bits(&copy, sizeof copy));
}

bool capo_pack_is_name(const char *name)
{
        size_t n = strlen(name), n_end = strlen(CAPO_PACK_SUFFIX);

        return n > n_end && !strcmp(name + n - n_end, CAPO_PACK_SUFFIX);
}

bool capo_pack_is(const void *head, size_t n)
{
        return n >= 4 && !memcmp(head, &(uint32_t){PACK_SKIP}, 4);
}

static ssize_t read_at(int fd, void *out, size_t n, uint64_t at)
{
        ssize_t got;

        do
                got = pread(fd, out, n, (off_t)at);
        while (got < 0 && errno == EINTR);
        return got;
}

/* Read the head at @at. Return: true with @out set. */
static bool read_head(int fd, uint64_t at, uint64_t end, struct capo_pack_entry *out)
{
        struct pack_head head;

        if (end - at < sizeof head || read_at(fd, &head, sizeof head, at) != sizeof head ||
            head.skip != PACK_SKIP || memcmp(head.magic, PACK_MAGIC, sizeof head.magic) != 0 ||
            head.version != PACK_VERSION || head.n_name == 0 || head.n_name >= sizeof out->name)
                return false;
        *out = (struct capo_pack_entry){
                .at = at + sizeof head + head.n_name, .packed = head.packed, .size = head.size};
        return read_at(fd, out->name, head.n_name, at + sizeof head) == head.n_name &&
               pack_check(&head, out->name) == head.check && out->at < end &&
               head.size / PACK_RATIO <= head.packed && strlen(out->name) == head.n_name &&
               !strchr(out->name, '/');
}

/* The next place after @at where a head may be; @end: none. */
static uint64_t next_place(int fd, uint64_t at, uint64_t end)
{
        char piece[65536];
        const uint32_t skip = PACK_SKIP;

        while (end - at > sizeof skip) {
                ssize_t got = read_at(fd, piece, sizeof piece, at + 1);
                char *found = got >= (ssize_t)sizeof skip
                                      ? memmem(piece, (size_t)got, &skip, sizeof skip)
                                      : NULL;

                if (found)
                        return at + 1 + (uint64_t)(found - piece);
                if (got < (ssize_t)sizeof skip)
                        break;
                at += (uint64_t)got - sizeof skip + 1;
        }
        return end;
}

int capo_pack_list(const char *path, struct capo_pack *out, char *why, size_t why_size)
{
        struct stat st;
        _cleanup_close_ int fd =
                capo_others_open(path, O_RDONLY, CAPO_ANY_OWNER, &st, why, why_size);
        uint64_t end, at = 0, bad;
        uint32_t magic;

        *out = (struct capo_pack){0};
        if (fd < 0)
                return fd;
        end = (uint64_t)st.st_size;
        for (bad = 0; at < end; bad = at) {
                struct capo_pack_entry entry;

                while (at < end && !read_head(fd, at, end, &entry))
                        at = next_place(fd, at, end);
                out->bytes_lost += at - bad;
                if (at >= end)
                        break;
                *xadd(out->v, out->n) = entry;
                at = entry.packed < end - entry.at ? entry.at + entry.packed : end;
        }
        if (!out->n && read_at(fd, &magic, sizeof magic, 0) == sizeof magic &&
            magic == ZSTD_MAGICNUMBER)
                return capo_why(
                        -EBADMSG, why, why_size,
                        "was compressed by zstd, not by capo pack: decompress it first (zstd -d)");
        return out->n ? 0
                      : capo_why(-EBADMSG, why, why_size,
                                 "has no log that can be read (%llu bytes)",
                                 (unsigned long long)end);
}

void capo_pack_finish(struct capo_pack *pack)
{
        free(pack->v);
        *pack = (struct capo_pack){0};
}

int capo_pack_unpack(const char *path, const struct capo_pack_entry *entry,
                     int (*take)(void *arg, const void *bytes, size_t n), void *arg)
{
        struct stat st;
        _cleanup_close_ int fd = capo_others_open(path, O_RDONLY, CAPO_ANY_OWNER, &st, NULL, 0);
        static char from[1 << 17], to[1 << 17];
        static ZSTD_DCtx *zstd;
        ZSTD_inBuffer in = {from, 0, 0};
        uint64_t at = entry->at, end = entry->at + entry->packed, done = 0;

        if (fd < 0)
                return fd;
        zstd = zstd ?: ZSTD_createDCtx();
        if (!zstd)
                return -ENOMEM;
        ZSTD_DCtx_reset(zstd, ZSTD_reset_session_only);
        for (size_t left = 1; left;) {
                ZSTD_outBuffer out = {to, sizeof to, 0};
                int r;

                if (in.pos == in.size && at < end) {
                        uint64_t most = end - at < sizeof from ? end - at : sizeof from;
                        ssize_t got = read_at(fd, from, (size_t)most, at);

                        if (got < 0)
                                return -errno;
                        in = (ZSTD_inBuffer){from, (size_t)got, 0};
                        at += (uint64_t)got;
                        end = got ? end : at;
                }
                left = ZSTD_decompressStream(zstd, &out, &in);
                if (out.pos > entry->size - done)
                        return -EBADMSG;
                r = out.pos ? take(arg, to, out.pos) : 0;
                done += out.pos;
                if (r)
                        return r;
                if (ZSTD_isError(left) || (left && !out.pos && in.pos == in.size && at >= end))
                        return -EBADMSG;
        }
        return done == entry->size ? 0 : -EBADMSG;
}
