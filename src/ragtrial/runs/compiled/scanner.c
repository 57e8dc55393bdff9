/* The state of one thread: made, freed, grown; and what it found so far. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif
#include "scanner.h"

#include <stdlib.h>
#include <time.h>

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

EXPORT Scanner *rt_scanner_new(const Judged *judged, const Rules *rules) {
    Scanner *scanner = calloc(1, sizeof *scanner);
    if (!scanner) return NULL;
    scanner->judged = judged;
    scanner->rules = *rules;
    return scanner;
}

EXPORT void rt_scanner_free(Scanner *scanner) {
    if (!scanner) return;
    Found *found = &scanner->found;
    void *all[] = {scanner->rows.at,   scanner->rows.length, scanner->rows.line, scanner->rows.score,
                   scanner->rows.rank, scanner->order,       scanner->other,     scanner->taken,
                   scanner->keyed,     scanner->keyed_room,  scanner->slots,     found->queries,
                   found->keys,        found->lengths,     found->hit_counts,
                   found->tied,        found->contradicted,  found->ranks,       found->judgments,
                   found->tie_first,   found->tie_last,      scanner};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* What was found last; holds until the next call. */
EXPORT const Found *rt_found(const Scanner *scanner) { return &scanner->found; }

void start_anew(Found *found) {
    found->lines = found->rows = found->duplicates = found->fault_count = found->faults_kept = 0;
    found->unknown_kept = found->segment_count = found->hit_count = 0;
    found->read = found->check = found->join = 0;
}

int grow(void *column, size_t size, size_t count) {
    void *grown = realloc(*(void **)column, size * count);
    if (!grown) return OUT_OF_MEMORY;
    *(void **)column = grown;
    return OK;
}

int make_room(Scanner *scanner, size_t count) {
    Rows *rows = &scanner->rows;
    if (count <= rows->room) return OK;
    size_t room = rows->room ? rows->room : 1024;
    while (room < count) room *= 2;
    if (grow(&rows->at, sizeof *rows->at, room) || grow(&rows->length, sizeof *rows->length, room) ||
        grow(&rows->line, sizeof *rows->line, room) || grow(&rows->score, sizeof *rows->score, room) ||
        grow(&rows->rank, sizeof *rows->rank, room) || grow(&scanner->order, sizeof *scanner->order, room) ||
        grow(&scanner->other, sizeof *scanner->other, room) || grow(&scanner->keyed, sizeof *scanner->keyed, room) ||
        grow(&scanner->keyed_room, sizeof *scanner->keyed_room, room))
        return OUT_OF_MEMORY;
    rows->room = room;
    return OK;
}

int make_room_for_segment(Scanner *scanner) {
    Found *found = &scanner->found;
    if ((size_t)found->segment_count < scanner->segment_room) return OK;
    size_t room = scanner->segment_room ? 2 * scanner->segment_room : 256;
    if (grow(&found->queries, sizeof *found->queries, room) || grow(&found->keys, sizeof *found->keys, room) ||
        grow(&found->lengths, sizeof *found->lengths, room) ||
        grow(&found->hit_counts, sizeof *found->hit_counts, room) || grow(&found->tied, sizeof *found->tied, room) ||
        grow(&found->contradicted, sizeof *found->contradicted, room))
        return OUT_OF_MEMORY;
    scanner->segment_room = room;
    return OK;
}

int make_room_for_hits(Scanner *scanner, size_t more) {
    Found *found = &scanner->found;
    size_t count = (size_t)found->hit_count + more, room = scanner->hit_room ? scanner->hit_room : 1024;
    if (count <= scanner->hit_room) return OK;
    while (room < count) room *= 2;
    if (grow(&found->ranks, sizeof *found->ranks, room) || grow(&found->judgments, sizeof *found->judgments, room) ||
        grow(&found->tie_first, sizeof *found->tie_first, room) ||
        grow(&found->tie_last, sizeof *found->tie_last, room))
        return OUT_OF_MEMORY;
    scanner->hit_room = room;
    return OK;
}

static int is_before(const Fault *a, const Fault *b) {
    if (a->line != b->line) return a->line < b->line;
    return a->error != b->error ? a->error < b->error : a->other < b->other;
}

void add_fault(Found *found, Fault fault) {
    found->fault_count++;
    int64_t at = found->faults_kept;
    if (at == MOST_FAULTS && !is_before(&fault, &found->faults[at - 1])) return;
    if (at == MOST_FAULTS) at--;
    else found->faults_kept++;
    for (; at > 0 && is_before(&fault, &found->faults[at - 1]); at--) found->faults[at] = found->faults[at - 1];
    found->faults[at] = fault;
}
