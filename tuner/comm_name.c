/* SPDX-License-Identifier: Apache-2.0 */

#include "core/base/lock.h"
#include "tuner/comm_name.h"

static struct {
        uint64_t hash;
        char name[128];
} names[256];
static unsigned next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void capo_comm_name_keep(uint64_t comm_hash, const char *name)
{
        capo_lock(&lock);
        names[next].hash = comm_hash;
        snprintf(names[next].name, sizeof names[next].name, "%s", name);
        next = (next + 1) % 256;
        capo_unlock(&lock);
}

bool capo_comm_name_find(uint64_t comm_hash, char *name, size_t room)
{
        bool found = false;

        capo_lock(&lock);
        for (unsigned i = 0; i < 256 && !found; i++) {
                unsigned k = (next + 255 - i) % 256; /* newest first */

                found = names[k].hash == comm_hash && *names[k].name;
                if (found)
                        snprintf(name, room, "%s", names[k].name);
        }
        capo_unlock(&lock);
        return found;
}
