/* A hash table of indexes: the upper half of a slot is the upper half of the hash, the lower half the index plus 1.
 *
 * An empty slot is 0. The number of slots is a power of two, at least twice that of the entries. */
#ifndef RAGTRIAL_TABLE_H
#define RAGTRIAL_TABLE_H

#include <stdint.h>
#include <stdlib.h>

#define TAG_OF(hash) ((hash) & UINT64_C(0xFFFFFFFF00000000))

static inline uint64_t slots_for(uint64_t entries) {
    uint64_t slots = 4;
    while (slots < 2 * entries) slots *= 2;
    return slots;
}

static inline void put(uint64_t *slots, uint64_t mask, uint64_t hash, uint64_t index) {
    uint64_t at = hash & mask;
    while (slots[at]) at = (at + 1) & mask;
    slots[at] = TAG_OF(hash) | (index + 1);
}

#endif
