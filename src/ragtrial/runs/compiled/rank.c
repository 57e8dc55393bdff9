/* One query: its rows in order, without duplicates, joined with its judgments. trec/exact.py does the same in Python. */
#include <stdlib.h>

#include "scanner.h"
#include "table.h"

/* Where text stands, counted from the scanner's. Both may lie in different memory. */
static int64_t place_of(const Scanner *scanner, const uint8_t *text) {
    return (int64_t)((intptr_t)text - (intptr_t)scanner->text);
}

static void add_pair(Scanner *scanner, uint32_t a, uint32_t b, const uint8_t *name, size_t length, int error) {
    const Rows *rows = &scanner->rows;
    uint32_t later = rows->line[a] > rows->line[b] ? a : b, earlier = later == a ? b : a;
    Fault fault = {.line = rows->line[later] + scanner->row_line,
                   .other = rows->line[earlier] + scanner->row_line,
                   .number = rows->rank[later],
                   .found_at = place_of(scanner, scanner->base) + rows->at[later],
                   .found_length = (int32_t)rows->length[later],
                   .query_at = place_of(scanner, name),
                   .query_length = (int32_t)length,
                   .error = error};
    add_fault(&scanner->found, fault);
}

/* The table for this query, empty but for its judged documents: index j below `judged` is a judgment. */
static int make_table(Scanner *scanner, int64_t start, size_t judged, uint64_t *mask) {
    uint64_t slots = slots_for(judged + scanner->rows.count);
    if (slots > scanner->slots_room) {
        if (grow(&scanner->slots, sizeof *scanner->slots, slots)) return OUT_OF_MEMORY;
        scanner->slots_room = slots;
    }
    if (judged > scanner->taken_room) {
        if (grow(&scanner->taken, sizeof *scanner->taken, 2 * judged)) return OUT_OF_MEMORY;
        scanner->taken_room = 2 * judged;
    }
    memset(scanner->slots, 0, slots * sizeof *scanner->slots);
    *mask = slots - 1;
    for (size_t j = 0; j < judged; j++) {
        scanner->taken[j] = UINT32_MAX;
        put(scanner->slots, *mask, scanner->judged->hashes[start + (int64_t)j], j);
    }
    return OK;
}

/* Whether the entry at `index` of the table is this document. */
static int is_document(const Scanner *s, int64_t start, size_t judged, size_t index, const uint8_t *text, size_t size) {
    const uint8_t *other;
    size_t length;
    if (index < judged) {
        const Names *names = &s->judged->documents;
        int64_t at = start + (int64_t)index, begin = at ? names->ends[at - 1] : 0;
        other = names->text + begin;
        length = (size_t)(names->ends[at] - begin);
    } else {
        other = s->base + s->rows.at[index - judged];
        length = s->rows.length[index - judged];
    }
    return length == size && same_bytes(text, other, size);
}

typedef struct {
    const uint8_t *name;
    size_t length, judged, kept;
    int64_t start;
} Query;

static void add_hit(Scanner *scanner, const Query *query, size_t judgment) {
    Found *found = &scanner->found;
    int64_t at = found->hit_count++;
    found->judgments[at] = query->start + (int64_t)judgment;
    found->ranks[at] = found->tie_first[at] = found->tie_last[at] = (int32_t)(query->kept + 1);
}

/* Goes through the rows in order: marks hits, drops duplicates. */
static int join_rows(Scanner *scanner, Query *query) {
    uint64_t mask, slot;
    size_t count = scanner->rows.count, judged = query->judged;
    if (make_table(scanner, query->start, judged, &mask)) return OUT_OF_MEMORY;
    if (make_room_for_hits(scanner, judged < count ? judged : count)) return OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        uint32_t row = scanner->order[i], other = UINT32_MAX;
        const uint8_t *text = scanner->base + scanner->rows.at[row];
        size_t length = scanner->rows.length[row];
        uint64_t hash = hash_of(text, length), at = hash & mask;
        for (; (slot = scanner->slots[at]); at = (at + 1) & mask) {
            if (TAG_OF(slot) != TAG_OF(hash)) continue;
            size_t index = (size_t)(slot & 0xFFFFFFFF) - 1;
            if (!is_document(scanner, query->start, judged, index, text, length)) continue;
            if (index >= judged) {
                other = (uint32_t)(index - judged);
            } else if (scanner->taken[index] == UINT32_MAX) {
                scanner->taken[index] = row;
                add_hit(scanner, query, index);
            } else {
                other = scanner->taken[index];
            }
            break;
        }
        if (UNLIKELY(other != UINT32_MAX)) {
            scanner->found.duplicates++;
            if (!scanner->rules.drop_duplicates)
                add_pair(scanner, other, row, query->name, query->length, DUPLICATE);
            continue;
        }
        if (!slot) scanner->slots[at] = TAG_OF(hash) | (judged + row + 1);
        scanner->order[query->kept++] = row;
    }
    return OK;
}

/* Two rows with one rank. */
static void check_ranks(Scanner *scanner, const Query *query) {
    const int64_t *rank = scanner->rows.rank;
    uint32_t *order = scanner->other;
    size_t count = 0;
    if (scanner->rules.order == ORDER_RANK) {
        order = scanner->order;
        count = query->kept;
    } else {
        memcpy(order, scanner->order, query->kept * sizeof *order);
        count = query->kept;
        sort_by_rank(scanner, order, count);
    }
    for (size_t i = 1; i < count; i++)
        if (rank[order[i]] == rank[order[i - 1]])
            add_pair(scanner, order[i - 1], order[i], query->name, query->length, RANK_TAKEN);
}

/* Whether two rows are tied, and whether one with a lower score has a smaller rank number than a higher one. */
static void check_scores(Scanner *scanner, const Query *query, uint8_t *tied, uint8_t *contradicted) {
    const double *score = scanner->rows.score;
    const int64_t *rank = scanner->rows.rank;
    uint32_t *order = scanner->order;
    int64_t highest = NO_RANK, in_group = NO_RANK;
    if (scanner->rules.order == ORDER_RANK || scanner->rules.order == ORDER_FILE) {
        order = scanner->other;
        memcpy(order, scanner->order, query->kept * sizeof *order);
        sort_by_score(scanner, order, query->kept);
    }
    for (size_t i = 0; i < query->kept; i++) {
        int64_t own = rank[order[i]];
        int same = i && score[order[i]] == score[order[i - 1]];
        if (!same && in_group > highest) highest = in_group;
        *tied |= (uint8_t)same;
        *contradicted |= (uint8_t)(own != NO_RANK && own < highest);
        if (own > in_group) in_group = own;
    }
}

/* Widens the ranks of the query's hits to those of their ties. */
static void find_ties(Scanner *scanner, const Query *query, int64_t first_hit) {
    Found *found = &scanner->found;
    const double *score = scanner->rows.score;
    const uint32_t *order = scanner->order;
    int32_t start = 1, end = 0; /* the ranks of the last tie */
    for (int64_t hit = first_hit; hit < found->hit_count; hit++) {
        int32_t rank = found->ranks[hit];
        double own = score[order[rank - 1]];
        if (rank > end) {
            for (start = rank; start > 1 && score[order[start - 2]] == own;) start--;
            for (end = rank; (size_t)end < query->kept && score[order[end]] == own;) end++;
        }
        found->tie_first[hit] = start;
        found->tie_last[hit] = end;
    }
}

static void add_segment(Scanner *scanner, const Query *query, int64_t index, uint64_t hash, int64_t line) {
    Found *found = &scanner->found;
    int64_t at = found->segment_count;
    found->queries[at] = (int32_t)index;
    found->keys[at] = hash;
    if (index < 0 && found->unknown_kept < MOST_UNKNOWN)
        found->unknown[found->unknown_kept++] =
            (Unknown){line, place_of(scanner, query->name), (int64_t)query->length};
}

int rank_query(Scanner *scanner, const uint8_t *name, size_t length, int64_t first_line) {
    Found *found = &scanner->found;
    Query query = {name, length, 0, 0, 0};
    double begun = seconds_now();
    uint64_t hash = hash_of(name, length);
    int64_t index = query_index(scanner->judged, name, length, hash), first_hit = found->hit_count;
    uint8_t tied = 0, contradicted = 0;
    if (make_room_for_segment(scanner)) return OUT_OF_MEMORY;
    add_segment(scanner, &query, index, hash, first_line);
    if (index >= 0) {
        query.start = scanner->judged->starts[index];
        query.judged = (size_t)(scanner->judged->starts[index + 1] - query.start);
    }
    int is_plain = order_rows(scanner);
    double ordered = seconds_now();
    if (join_rows(scanner, &query)) return OUT_OF_MEMORY;
    double joined = seconds_now();
    if (!is_plain && scanner->rules.unique_ranks) check_ranks(scanner, &query);
    if (!is_plain && scanner->rules.has_scores) check_scores(scanner, &query, &tied, &contradicted);
    if (tied && (scanner->rules.order == ORDER_SCORE || scanner->rules.order == ORDER_TREC))
        find_ties(scanner, &query, first_hit);
    found->rows += (int64_t)scanner->rows.count;
    found->lengths[found->segment_count] = (int64_t)query.kept;
    found->hit_counts[found->segment_count] = found->hit_count - first_hit;
    found->tied[found->segment_count] = tied;
    found->contradicted[found->segment_count++] = contradicted;
    double ended = seconds_now();
    found->check += (ordered - begun) + (ended - joined);
    found->join += joined - ordered;
    return OK;
}
