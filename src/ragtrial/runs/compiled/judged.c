/* Who judged what: queries by id, the documents of each with their hashes. */
#include "scanner.h"
#include "table.h"

static size_t name_at(const Names *names, int64_t index, const uint8_t **name) {
    int64_t start = index ? names->ends[index - 1] : 0;
    *name = names->text + start;
    return (size_t)(names->ends[index] - start);
}

EXPORT void rt_judged_free(Judged *judged) {
    if (!judged) return;
    free(judged->query_slots);
    free(judged->hashes);
    free(judged);
}

/* NULL if there is no memory. What is pointed at must outlive what is returned. */
EXPORT Judged *rt_judged_new(const Names *queries, const Names *documents, const int64_t *starts) {
    Judged *judged = calloc(1, sizeof *judged);
    if (!judged) return NULL;
    judged->queries = *queries;
    judged->documents = *documents;
    judged->starts = starts;
    uint64_t slots = slots_for((uint64_t)queries->count);
    judged->query_mask = slots - 1;
    judged->query_slots = calloc(slots, sizeof *judged->query_slots);
    judged->hashes = malloc(((size_t)documents->count + 1) * sizeof *judged->hashes);
    if (!judged->query_slots || !judged->hashes) {
        rt_judged_free(judged);
        return NULL;
    }
    const uint8_t *name;
    for (int64_t i = 0; i < queries->count; i++) {
        size_t length = name_at(queries, i, &name);
        put(judged->query_slots, judged->query_mask, hash_of(name, length), (uint64_t)i);
    }
    for (int64_t i = 0; i < documents->count; i++) {
        size_t length = name_at(documents, i, &name);
        judged->hashes[i] = hash_of(name, length);
    }
    return judged;
}

int64_t query_index(const Judged *judged, const uint8_t *name, size_t length, uint64_t hash) {
    uint64_t at = hash & judged->query_mask, slot;
    for (; (slot = judged->query_slots[at]); at = (at + 1) & judged->query_mask) {
        if (TAG_OF(slot) != TAG_OF(hash)) continue;
        int64_t index = (int64_t)(slot & 0xFFFFFFFF) - 1;
        const uint8_t *other;
        if (name_at(&judged->queries, index, &other) == length && same_bytes(name, other, length)) return index;
    }
    return -1;
}
