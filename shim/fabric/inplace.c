/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of ours inside a provider's own table: those of domains.
 *
 * tcp of libfabric 2.x asks while an endpoint is enabled whether the domain has a certain table,
 * that of domains which give each endpoint a domain of its own (FI_EP_RDM with
 * FI_THREAD_COMPLETION; prov/tcp/src/xnet_domain.c, xnet_domain_multiplexed()). A copy in its place
 * is the wrong answer, and the end of the program. Putting the table back around such calls does
 * not do: many threads use a domain at once, what one opens while another enables would go unseen,
 * and the enabling of that endpoint, being none of ours, would find the copy. So a domain keeps its
 * table, and single words in it are exchanged. Every domain that has the table is served by them,
 * also those that layered providers open below: the entries (fabric_calls.c) look up whose call it
 * is, and pass on what nobody follows.
 *
 * In v1.8.0 to v2.6.0 these tables are writable, static, and never freed; lpp's alone is constant.
 * One that cannot be written is left alone, and what was opened on its domain is not known. */
#include "core/base/lock.h"
#include "shim/fabric/shim_fabric.h"

#define PLACES 32 /* tables; a provider has one or two for domains */

static struct {
        const size_t *table;
        size_t was[FI_TABLE_ROOM / 8];
} places[PLACES];
static _Atomic unsigned n_places;

const void *capo_fi_was(const void *table)
{
        unsigned n;

        /* The caller came here by an entry that was written after n_places. On AArch64 the load of
         * that entry does not order the next one by itself. */
        atomic_thread_fence(memory_order_acquire);
        n = atomic_load_explicit(&n_places, memory_order_acquire);
        for (unsigned i = 0; i < n; i++) {
                if (places[i].table == table)
                        return places[i].was;
        }
        return NULL;
}

/* By the kernel's word: what is constant was written by ld.so first, and locked afterwards. */
static bool is_writable_memory(const void *at, size_t bytes)
{
        _cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "re");
        uintptr_t begin, end;
        char line[512], may[8];

        while (f && fgets(line, sizeof line, f)) {
                if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s", &begin, &end, may) == 3 &&
                    (uintptr_t)at >= begin && (uintptr_t)at < end)
                        return may[1] == 'w' && may[3] == 'p' && bytes <= end - (uintptr_t)at;
        }
        return false;
}

static bool has_own_entry(const size_t *table, const size_t *mine, size_t n)
{
        for (size_t i = 1; i < n; i++) {
                if (mine[i] && table[i] == mine[i])
                        return true;
        }
        return false;
}

const void *capo_fi_put_in(const void *provider_table, const void *ours, size_t ours_size)
{
        size_t *table = (size_t *)provider_table;
        const size_t *mine = ours, *was;
        size_t bytes, n;
        unsigned place = 0;

        if (!table || (bytes = table[0]) < 2 * sizeof(size_t) || bytes > FI_TABLE_ROOM)
                return NULL;
        n = bytes < ours_size ? bytes / sizeof(size_t) : ours_size / sizeof(size_t);
        capo_lock(&capo_fi_lock);
        while (place < n_places && places[place].table != table)
                place++;
        /* at a known place, but not ours any more: a library was unloaded, and this is another's
         * table */
        if (!has_own_entry(table, mine, n) && place < PLACES && is_writable_memory(table, bytes)) {
                memcpy(places[place].was, table, bytes);
                places[place].table = table;
                if (place == n_places)
                        atomic_store_explicit(&n_places, place + 1, memory_order_release);
                for (size_t i = 1; i < n; i++) {
                        if (mine[i] && table[i])
                                __atomic_store_n(&table[i], mine[i], __ATOMIC_RELEASE);
                }
        }
        was = has_own_entry(table, mine, n)
                      ? capo_fi_was(table)
                      : NULL; /* NULL: somebody's copy of a table with our entries */
        capo_unlock(&capo_fi_lock);
        return was;
}
