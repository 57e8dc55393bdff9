/* The state of one thread that reads blocks, and who judged what. */
#ifndef RAGTRIAL_SCANNER_H
#define RAGTRIAL_SCANNER_H

#include "run.h"
#include "text.h"

/* Queries by id, and of each the hashes of its documents. The names are borrowed. */
struct Judged {
    Names queries, documents;
    const int64_t *starts;
    uint64_t *query_slots, query_mask, *hashes;
};

typedef struct {
    uint64_t key;
    uint32_t row;
} Keyed;

/* The rows of the query at hand, as columns; a document begins at base + at. */
typedef struct {
    uint32_t *at, *length, *line;
    double *score;
    int64_t *rank;
    size_t count, room;
} Rows;

struct Scanner {
    const Judged *judged;
    Rules rules;
    const uint8_t *text, *base; /* the block, and what the rows' documents are counted from */
    int64_t row_line;           /* added to the line of a row */
    Rows rows;
    uint32_t *order, *other, *taken; /* rows in order; room for another order; the row that took each judgment */
    Keyed *keyed, *keyed_room;
    uint64_t *slots;
    size_t slots_room, taken_room, segment_room, hit_room;
    Found found;
};

/* The index of a query, or -1. */
int64_t query_index(const Judged *judged, const uint8_t *name, size_t length, uint64_t hash);

/* The rows at hand are those of this query, whole: orders, checks and joins them. */
int rank_query(Scanner *scanner, const uint8_t *name, size_t length, int64_t first_line);

/* A column with room for so many entries of a size. */
int grow(void *column, size_t size, size_t count);

/* Room for so many rows in all columns of rows, for one segment more, and for so many hits more. */
int make_room(Scanner *scanner, size_t rows);
int make_room_for_segment(Scanner *scanner);
int make_room_for_hits(Scanner *scanner, size_t more);

/* The first few faults, by line, are kept, all counted. */
void add_fault(Found *found, Fault fault);

double seconds_now(void);

/* Nothing found yet. */
void start_anew(Found *found);

/* rank.c's steps, in order.c */
int order_rows(Scanner *scanner);
void sort_by_score(Scanner *scanner, uint32_t *order, size_t count);
void sort_by_rank(Scanner *scanner, uint32_t *order, size_t count);

#endif
