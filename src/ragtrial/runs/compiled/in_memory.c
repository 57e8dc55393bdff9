/* Runs in memory: packed ids. */
#include <stdlib.h>

#include "scanner.h"

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
