/* The rows of a query in order: by score, by rank, equal scores by document. */
#include "scanner.h"
#include "table.h"

/* Numbers that compare as the doubles do, equal for 0 and -0. */
static uint64_t ascending(double value) {
    uint64_t bits;
    value += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &value, 8);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* Stable; bottom up. */
static Keyed *merge_sort(Keyed *from, Keyed *to, size_t count) {
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = start + 2 * width < count ? start + 2 * width : count;
            size_t left = start, right = middle;
            for (size_t at = start; at < end; at++)
                to[at] = right == end || (left < middle && from[left].key <= from[right].key) ? from[left++]
                                                                                             : from[right++];
        }
        Keyed *swapped = from;
        from = to;
        to = swapped;
    }
    return from;
}

static void sort_keyed(Scanner *scanner, uint32_t *order, size_t count) {
    Keyed *sorted = merge_sort(scanner->keyed, scanner->keyed_room, count);
    for (size_t i = 0; i < count; i++) order[i] = sorted[i].row;
}

void sort_by_score(Scanner *scanner, uint32_t *order, size_t count) {
    const double *score = scanner->rows.score;
    size_t i = 1;
    while (i < count && score[order[i]] <= score[order[i - 1]]) i++;
    if (i >= count) return;
    for (i = 0; i < count; i++) scanner->keyed[i] = (Keyed){~ascending(score[order[i]]), order[i]};
    sort_keyed(scanner, order, count);
}

void sort_by_rank(Scanner *scanner, uint32_t *order, size_t count) {
    const int64_t *rank = scanner->rows.rank;
    size_t i = 1;
    while (i < count && rank[order[i]] >= rank[order[i - 1]]) i++;
    if (i >= count) return;
    for (i = 0; i < count; i++)
        scanner->keyed[i] = (Keyed){(uint64_t)rank[order[i]] ^ UINT64_C(1) << 63, order[i]};
    sort_keyed(scanner, order, count);
}

/* Whether the document of row a comes before that of row b: descending, as strcmp orders. */
static int document_before(const Scanner *scanner, uint32_t a, uint32_t b) {
    const Rows *rows = &scanner->rows;
    size_t shorter = rows->length[a] < rows->length[b] ? rows->length[a] : rows->length[b];
    int compared = memcmp(scanner->base + rows->at[a], scanner->base + rows->at[b], shorter);
    return compared ? compared > 0 : rows->length[a] > rows->length[b];
}

static void sort_by_document(Scanner *scanner, uint32_t *order, size_t count) {
    uint32_t *from = order, *to = scanner->other;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = start + 2 * width < count ? start + 2 * width : count;
            size_t left = start, right = middle;
            for (size_t at = start; at < end; at++) {
                int takes_right = left == middle || (right < end && document_before(scanner, from[right], from[left]));
                to[at] = takes_right ? from[right++] : from[left++];
            }
        }
        uint32_t *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != order) memcpy(order, from, count * sizeof *order);
}

static void sort_ties(Scanner *scanner, uint32_t *order, size_t count) {
    const double *score = scanner->rows.score;
    for (size_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && score[order[end]] == score[order[start]];) end++;
        if (end - start > 1) sort_by_document(scanner, order + start, end - start);
    }
}

/* Fills scanner->order. True if the rows are in order already, by score and, all different, by rank. */
int order_rows(Scanner *scanner) {
    const Rows *rows = &scanner->rows;
    size_t count = rows->count;
    int is_plain = 1;
    if (scanner->rules.has_scores) {
        int rising = 0, ranked = 1;
        for (size_t i = 1; i < count; i++) {
            rising |= !(rows->score[i] < rows->score[i - 1]);
            ranked &= rows->rank[i] > rows->rank[i - 1];
        }
        is_plain = !rising && ranked && (!count || rows->rank[0] != NO_RANK);
    } else {
        for (size_t i = 1; i < count; i++) is_plain &= rows->rank[i] > rows->rank[i - 1];
        is_plain |= !scanner->rules.unique_ranks; /* neither scores nor ranks: in order as they came */
    }
    for (size_t i = 0; i < count; i++) scanner->order[i] = (uint32_t)i;
    if (is_plain || scanner->rules.order == ORDER_FILE) return is_plain;
    if (scanner->rules.order == ORDER_RANK) sort_by_rank(scanner, scanner->order, count);
    if (scanner->rules.order == ORDER_SCORE || scanner->rules.order == ORDER_TREC)
        sort_by_score(scanner, scanner->order, count);
    if (scanner->rules.order == ORDER_TREC) sort_ties(scanner, scanner->order, count);
    return 0;
}
