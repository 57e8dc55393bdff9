/* What ranked chunks have of labelled passages: each meeting of the two, and how much of the passage is covered then. */
#include <stdlib.h>

#include "run.h"

/* Characters of a passage that are covered, as a list in ascending order that does not touch itself. */
typedef struct {
    int64_t begin, end, next;
} Piece;

typedef struct {
    Piece *pieces;
    int64_t count, room;
} Pool;

/* Adds characters to the list that begins at `head`; how many of them are new, -1 where there is no memory. */
static int64_t lay(Pool *pool, int64_t *head, int64_t begin, int64_t end) {
    const int64_t low = begin, high = end;
    int64_t *link = head, known = 0;
    while (*link >= 0 && pool->pieces[*link].end < begin) link = &pool->pieces[*link].next;
    int64_t first = *link, at = first;
    for (; at >= 0 && pool->pieces[at].begin <= end; at = pool->pieces[at].next) {
        Piece *piece = &pool->pieces[at];
        int64_t from = piece->begin > low ? piece->begin : low, to = piece->end < high ? piece->end : high;
        if (to > from) known += to - from;
        if (piece->begin < begin) begin = piece->begin;
        if (piece->end > end) end = piece->end;
    }
    if (at != first) { /* the first of those that are joined takes the place of all */
        pool->pieces[first] = (Piece){begin, end, at};
        return high - low - known;
    }
    if (pool->count == pool->room) {
        int64_t room = pool->room ? 2 * pool->room : 64;
        int64_t before = link == head ? -1 : (int64_t)((char *)link - (char *)pool->pieces);
        Piece *larger = realloc(pool->pieces, (size_t)room * sizeof *larger);
        if (!larger) return -1;
        pool->pieces = larger;
        pool->room = room;
        if (before >= 0) link = (int64_t *)((char *)larger + before);
    }
    pool->pieces[pool->count] = (Piece){begin, end, at};
    *link = pool->count++;
    return high - low;
}

typedef struct {
    const int32_t *codes;                     /* (queries, depth): chunks, best first, -1 where there are no more */
    const int32_t *chunk_documents;           /* of each chunk */
    const int64_t *chunk_begins, *chunk_ends; /* of each chunk */
    const int64_t *starts;                    /* (queries + 1): where a query's passages begin */
    const int32_t *documents;                 /* of each passage, ascending in a query */
    const int64_t *begins, *ends;             /* of each passage */
    int64_t depth;
} Coverage;

/* Each meeting, in the order of queries, ranks and passages, as far as there is room. */
typedef struct {
    int64_t *passages, *gained, *covered;
    int32_t *ranks;
    int64_t room;
} Meetings;

static int64_t first_of(const int32_t *documents, int64_t from, int64_t to, int32_t document) {
    while (from < to) {
        int64_t middle = from + (to - from) / 2;
        if (documents[middle] < document) from = middle + 1;
        else to = middle;
    }
    return from;
}

/* Which documents a query may have passages of: most chunks are of none, and one look tells. */
typedef struct {
    uint64_t bits[16];
} Sieve;

static uint32_t place_of(int32_t document) { return ((uint32_t)document * 2654435769u) >> 22; }

static Sieve sieve_of(const int32_t *documents, int64_t from, int64_t to) {
    Sieve sieve = {{0}};
    for (; from < to; from++) {
        uint32_t place = place_of(documents[from]);
        sieve.bits[place >> 6] |= (uint64_t)1 << (place & 63);
    }
    return sieve;
}

static int may_have(const Sieve *sieve, int32_t document) {
    uint32_t place = place_of(document);
    return (int)(sieve->bits[place >> 6] >> (place & 63) & 1);
}

/* How many meetings queries `first` to `last` have; those of each in `counts`. -1 where there is no memory. */
EXPORT int64_t rt_cover(const Coverage *given, const Meetings *out, int64_t first, int64_t last, int64_t *counts) {
    int64_t most = 0, total = 0;
    for (int64_t i = first; i < last; i++) {
        int64_t count = given->starts[i + 1] - given->starts[i];
        if (count > most) most = count;
    }
    int64_t *heads = malloc((size_t)(2 * most + 1) * sizeof *heads), *covered = heads + most;
    if (!heads) return -1;
    Pool pool = {NULL, 0, 0};
    for (int64_t i = first; i < last; i++) {
        int64_t start = given->starts[i], end = given->starts[i + 1], before = total;
        for (int64_t p = 0; p < end - start; p++) heads[p] = -1, covered[p] = 0;
        pool.count = 0;
        const Sieve sieve = sieve_of(given->documents, start, end);
        for (int64_t rank = 0; rank < given->depth && end > start; rank++) {
            int32_t code = given->codes[i * given->depth + rank];
            if (code < 0) break;
            int32_t document = given->chunk_documents[code];
            if (!may_have(&sieve, document)) continue;
            int64_t p = first_of(given->documents, start, end, document);
            for (; p < end && given->documents[p] == document; p++) {
                int64_t from = given->chunk_begins[code], to = given->chunk_ends[code];
                if (given->begins[p] > from) from = given->begins[p];
                if (given->ends[p] < to) to = given->ends[p];
                if (from >= to) continue;
                int64_t gained = lay(&pool, &heads[p - start], from, to);
                if (gained < 0) {
                    total = -1;
                    goto done;
                }
                covered[p - start] += gained;
                if (total < out->room) {
                    out->passages[total] = p;
                    out->ranks[total] = (int32_t)(rank + 1);
                    out->gained[total] = gained;
                    out->covered[total] = covered[p - start];
                }
                total++;
            }
        }
        counts[i - first] = total - before;
    }
done:
    free(pool.pieces);
    free(heads);
    return total;
}
