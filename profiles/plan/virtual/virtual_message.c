/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in the job's memory file: each is appended once, by one atomic addition, and never
 * changed. Readers walk the list; a question has some thousand messages, so there is no index.
 * Pages of zeros are left out: topologies consist mostly of them. */
#include <time.h>

#include "profiles/plan/virtual/virtual.h"
#include "profiles/plan/virtual/virtual_job.h"

enum { PAGE = 4096 };

/* Layout of plan_message_put(); the pages follow the list of their numbers. */
struct plan_message {
        uint64_t key, size;
        uint32_t from;
        _Atomic uint32_t ready;
        uint32_t n_pages;
        uint32_t pages[];
};

static uint64_t pages_begin(size_t n_pages)
{
        return (offsetof(struct plan_message, pages) + n_pages * sizeof(uint32_t) + 63) & ~63ull;
}

static uint64_t message_bytes(size_t n_pages) { return pages_begin(n_pages) + n_pages * PAGE; }

static char *page_of(const struct plan_message *m, size_t i)
{
        return (char *)(uintptr_t)m + pages_begin(m->n_pages) + i * PAGE;
}

static struct plan_message *message_at(uint64_t at)
{
        return (struct plan_message *)((char *)plan_job + plan_job->messages + at);
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

static size_t page_bytes(size_t page, size_t size)
{
        return size - page * PAGE < PAGE ? size - page * PAGE : PAGE;
}

int plan_message_put(uint64_t key, uint32_t from, const void *data, size_t size)
{
        size_t all = (size + PAGE - 1) / PAGE, n = 0;
        uint32_t *pages = calloc(all ? all : 1, sizeof *pages);
        struct plan_message *m;
        uint64_t at, bytes;

        if (!pages)
                return -ENOMEM;
        for (size_t i = 0; i < all; i++) {
                if (!is_zero((const char *)data + i * PAGE, page_bytes(i, size)))
                        pages[n++] = (uint32_t)i;
        }
        bytes = message_bytes(n);
        at = atomic_fetch_add(&plan_job->said, bytes);
        if (plan_job->messages + at + bytes > plan_job->messages_end) {
                free(pages);
                plan_fail("ranks told each other more than there is room for");
                return -E2BIG;
        }
        m = message_at(at);
        m->key = key;
        m->size = size;
        m->from = from;
        m->n_pages = (uint32_t)n;
        memcpy(m->pages, pages, n * sizeof *pages);
        for (size_t i = 0; i < n; i++)
                memcpy(page_of(m, i), (const char *)data + (size_t)pages[i] * PAGE,
                       page_bytes(pages[i], size));
        free(pages);
        atomic_store(&m->ready, 1);
        return 0;
}

/* Zeros are not written over zeros: most of NCCL's memory is never used. */
void plan_message_copy(const struct plan_message *m, void *to)
{
        size_t all = (m->size + PAGE - 1) / PAGE, k = 0;

        for (size_t i = 0; i < all; i++) {
                char *at = (char *)to + i * PAGE;
                size_t n = page_bytes(i, m->size);

                if (k < m->n_pages && m->pages[k] == i)
                        memcpy(at, page_of(m, k++), n);
                else if (!is_zero(at, n))
                        memset(at, 0, n);
        }
}

/* The message at *@at, which is moved past it; NULL: it is not there yet. */
static const struct plan_message *next_message(uint64_t *at)
{
        const struct plan_message *m = message_at(*at);

        if (*at >= atomic_load(&plan_job->said) || !atomic_load(&m->ready))
                return NULL;
        *at += message_bytes(m->n_pages);
        return m;
}

int plan_message_get(uint64_t key, const uint32_t *from, size_t n,
                     void (*take)(size_t i, const struct plan_message *m, void *arg), void *arg)
{
        uint64_t at = 0;
        unsigned polls = 0;

        for (size_t got = 0; got < n;) {
                const struct plan_message *m = next_message(&at);

                if (!m) {
                        if (atomic_load(&plan_job->failed))
                                return -EIO;
                        plan_poll_pause(&polls);
                        continue;
                }
                for (size_t i = 0; m->key == key && i < n; i++) {
                        if (from[i] != m->from)
                                continue;
                        take(i, m, arg);
                        got++;
                        break;
                }
        }
        return 0;
}

bool plan_message_is(uint64_t key)
{
        const struct plan_message *m;

        for (uint64_t at = 0; (m = next_message(&at));) {
                if (m->key == key && m->from < plan_job->n_heard)
                        return true;
        }
        return false;
}

size_t plan_message_size(const struct plan_message *m) { return m->size; }
