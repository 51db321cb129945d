/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages in the job's memory file: each is appended once, by one atomic addition, and never
 * changed. Readers walk the list. There are some thousand messages in a question, so nothing is
 * indexed. A page of zeros is left out of the file: topologies are mostly that.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/util.h"
#include "profiles/plan/virtual/virtual.h"

enum { PAGE = 4096 };

struct message {
        uint64_t key, size;
        uint32_t from;
        _Atomic uint32_t ready;
        char pad[40];
        char data[]; /* at 64 bytes */
};

static uint64_t message_bytes(uint64_t size)
{
        return (sizeof(struct message) + size + 63) & ~63ull;
}

static struct message *message_at(uint64_t at)
{
        return (struct message *)((char *)plan_job + plan_job->messages + at);
}

void plan_poll_pause(unsigned *polls)
{
        long us = 50 + 10 * (long)++*polls;

        nanosleep(&(struct timespec){.tv_nsec = (us < 2000 ? us : 2000) * 1000}, NULL);
}

static bool is_zero(const char *data, size_t n)
{
        return n == 0 || (data[0] == 0 && memcmp(data, data + 1, n - 1) == 0);
}

int plan_message_put(uint64_t key, uint32_t from, const void *data, size_t size)
{
        uint64_t at = atomic_fetch_add(&plan_job->said, message_bytes(size));
        struct message *m = message_at(at);

        if (plan_job->messages + at + message_bytes(size) > plan_job->messages_end) {
                plan_fail("ranks told each other more than there is room for");
                return -E2BIG;
        }
        m->key = key;
        m->size = size;
        m->from = from;
        for (size_t done = 0; done < size; done += PAGE) {
                size_t n = size - done < PAGE ? size - done : PAGE;

                if (!is_zero((const char *)data + done, n))
                        memcpy(m->data + done, (const char *)data + done, n);
        }
        atomic_store(&m->ready, 1);
        return 0;
}

/* The message at *@at, and *@at moved on; NULL when it is not there yet. */
static const struct message *next_message(uint64_t *at)
{
        const struct message *m = message_at(*at);

        if (*at >= atomic_load(&plan_job->said) || !atomic_load(&m->ready))
                return NULL;
        *at += message_bytes(m->size);
        return m;
}

int plan_message_get(uint64_t key, const uint32_t *from, size_t n,
                     void (*take)(size_t i, const void *data, size_t size, void *arg), void *arg)
{
        uint64_t at = 0;
        unsigned polls = 0;

        for (size_t got = 0; got < n;) {
                const struct message *m = next_message(&at);

                if (!m) {
                        if (atomic_load(&plan_job->failed))
                                return -EIO;
                        plan_poll_pause(&polls);
                        continue;
                }
                for (size_t i = 0; m->key == key && i < n; i++) {
                        if (from[i] != m->from)
                                continue;
                        take(i, m->data, m->size, arg);
                        got++;
                        break;
                }
        }
        return 0;
}

bool plan_message_is(uint64_t key)
{
        const struct message *m;

        for (uint64_t at = 0; (m = next_message(&at));) {
                if (m->key == key && m->from < plan_job->n_heard)
                        return true;
        }
        return false;
}
