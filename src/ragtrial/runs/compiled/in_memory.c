/* Runs in memory: packed ids, or integer codes. */
#include <stdlib.h>

#include "scanner.h"
#include "table.h"

/* Numbers that compare as the doubles do: ranks in memory are doubles, those of rows whole numbers. */
static int64_t whole_of(double value) {
    uint64_t bits;
    value += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &value, 8);
    return (int64_t)(bits >> 63 ? ~bits ^ UINT64_C(1) << 63 : bits);
}

static int take_rows(Scanner *scanner, const Names *documents, int64_t start, int64_t end, const double *values) {
    Rows *rows = &scanner->rows;
    int64_t at = start ? documents->ends[start - 1] : 0;
    if (make_room(scanner, (size_t)(end - start))) return OUT_OF_MEMORY;
    if (documents->ends[end - 1] - at > UINT32_MAX) return OUT_OF_MEMORY;
    scanner->base = documents->text + at;
    rows->count = (size_t)(end - start);
    for (int64_t i = start; i < end; i++) {
        size_t row = (size_t)(i - start);
        int64_t begin = i ? documents->ends[i - 1] : 0;
        rows->at[row] = (uint32_t)(begin - at);
        rows->length[row] = (uint32_t)(documents->ends[i] - begin);
        rows->line[row] = (uint32_t)row;
        rows->score[row] = scanner->rules.has_scores ? values[i] : 0;
        rows->rank[row] = scanner->rules.unique_ranks ? whole_of(values[i]) : NO_RANK;
    }
    return OK;
}

/* Queries `first` to `last` of a run: the rows of query i are starts[i] to starts[i + 1]. Lines are rows. */
EXPORT int rt_match(Scanner *scanner, const Names *queries, const Names *documents, const int64_t *starts,
                    const double *values, int64_t first, int64_t last) {
    Found *found = &scanner->found;
    start_anew(found);
    scanner->text = documents->text;
    for (int64_t i = first; i < last; i++) {
        int64_t begin = i ? queries->ends[i - 1] : 0;
        if (starts[i] == starts[i + 1]) continue;
        if (take_rows(scanner, documents, starts[i], starts[i + 1], values)) return OUT_OF_MEMORY;
        scanner->row_line = starts[i];
        if (rank_query(scanner, queries->text + begin, (size_t)(queries->ends[i] - begin), starts[i]))
            return OUT_OF_MEMORY;
    }
    return OK;
}

/* Codes: up to so many judgments of a query are looked for one by one. */
enum { FEW = 4, AT_ONCE = 64 };

/* The first place of a code among `depth`, or -1. Whole groups are compared at once. */
static int64_t place_of_code(const int32_t *codes, int64_t depth, int32_t code) {
    int64_t i = 0;
    for (; i + AT_ONCE <= depth; i += AT_ONCE) {
        int32_t found = 0;
        for (int64_t j = 0; j < AT_ONCE; j++) found |= -(codes[i + j] == code);
        if (found) break;
    }
    for (; i < depth; i++)
        if (codes[i] == code) return i;
    return -1;
}

typedef struct {
    const int32_t *codes, *judged;
    int64_t depth, judged_count;
    int32_t *ranks;
    int64_t *judgments;
} Coded;

static int64_t match_few(const Coded *query, int64_t first) {
    int64_t count = 0;
    for (int64_t j = 0; j < query->judged_count; j++) {
        int64_t place = query->judged[j] < 0 ? -1 : place_of_code(query->codes, query->depth, query->judged[j]);
        if (place < 0) continue;
        int64_t at = count++;
        for (; at > 0 && query->ranks[at - 1] > place + 1; at--) {
            query->ranks[at] = query->ranks[at - 1];
            query->judgments[at] = query->judgments[at - 1];
        }
        query->ranks[at] = (int32_t)(place + 1);
        query->judgments[at] = first + j;
    }
    return count;
}

static uint64_t place_in(int32_t code, uint64_t mask) {
    return ((uint64_t)(uint32_t)code * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;
}

/* A slot is the code, above it the index of the judgment plus 1. */
static int64_t match_many(const Coded *query, int64_t first, uint64_t *slots, uint64_t mask) {
    int64_t count = 0;
    memset(slots, 0, (mask + 1) * sizeof *slots);
    for (int64_t j = 0; j < query->judged_count; j++) {
        if (query->judged[j] < 0) continue;
        uint64_t at = place_in(query->judged[j], mask);
        while (slots[at]) at = (at + 1) & mask;
        slots[at] = (uint64_t)(j + 1) << 32 | (uint32_t)query->judged[j];
    }
    for (int64_t i = 0; i < query->depth && count < query->judged_count; i++) {
        if (query->codes[i] < 0) continue;
        uint64_t at = place_in(query->codes[i], mask);
        while (slots[at] && (uint32_t)slots[at] != (uint32_t)query->codes[i]) at = (at + 1) & mask;
        if (!slots[at]) continue;
        query->ranks[count] = (int32_t)(i + 1);
        query->judgments[count++] = first + (int64_t)(slots[at] >> 32) - 1;
    }
    return count;
}

/* Queries `first` to `last`: their hits, packed, and how many each has. There is room for as many as are judged. */
EXPORT int rt_match_codes(const int32_t *codes, int64_t depth, const int32_t *judged, const int64_t *starts,
                          int64_t first, int64_t last, int64_t *counts, int32_t *ranks, int64_t *judgments) {
    uint64_t most = 0, *slots;
    for (int64_t i = first; i < last; i++)
        if ((uint64_t)(starts[i + 1] - starts[i]) > most) most = (uint64_t)(starts[i + 1] - starts[i]);
    slots = malloc(slots_for(2 * most) * sizeof *slots);
    if (!slots) return OUT_OF_MEMORY;
    int64_t total = 0;
    for (int64_t i = first; i < last; i++) {
        int64_t start = starts[i], count = starts[i + 1] - start;
        Coded query = {codes + i * depth, judged + start, depth, count, ranks + total, judgments + total};
        counts[i] = count <= FEW ? match_few(&query, start)
                                 : match_many(&query, start, slots, slots_for(2 * (uint64_t)count) - 1);
        total += counts[i];
    }
    free(slots);
    return OK;
}
