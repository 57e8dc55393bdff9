/* Blocks cut where a query ends, and files whose queries lie scattered: their pieces, grouped and gathered. */
#include <stdlib.h>

#include "run.h"
#include "table.h"
#include "text.h"

/* The first column of a line; without length if the line is blank or a comment. */
static Name name_of(const uint8_t *line, const uint8_t *end) {
    Name name = {line, 0};
    while (name.text < end && is_space(*name.text)) name.text++;
    if (name.text < end && *name.text == '#') return name;
    while (name.text + name.length < end && !is_space(name.text[name.length])) name.length++;
    return name;
}

static const uint8_t *line_start(const uint8_t *text, const uint8_t *at) {
    while (at > text && at[-1] != '\n') at--;
    return at;
}

/* Where the lines of the last query begin; `begin` if there is no other one. What follows the last line feed is no
   line yet. */
EXPORT int64_t rt_cut(const uint8_t *text, int64_t begin, int64_t end) {
    const uint8_t *first = text + begin, *at = line_start(first, text + end), *start = at;
    Name last = {NULL, 0};
    while (at > first) {
        const uint8_t *before = line_start(first, at - 1);
        Name name = name_of(before, at);
        if (name.length) {
            if (last.length && !is_same(name, last)) return start - text;
            last = name;
            start = before;
        }
        at = before;
    }
    return begin;
}

typedef struct {
    int64_t count;
    int64_t *begins, *lines;
    uint32_t *shares;
} Pieces;

EXPORT void rt_pieces_free(Pieces *pieces) {
    if (!pieces) return;
    free(pieces->begins);
    free(pieces->lines);
    free(pieces->shares);
    free(pieces);
}

static int add_piece(Pieces *pieces, int64_t *room, int64_t begin, int64_t line, Name name) {
    if (pieces->count == *room) {
        size_t more = (size_t)(*room ? 2 * *room : 1024);
        int64_t *begins = realloc(pieces->begins, more * sizeof *begins);
        if (begins) pieces->begins = begins;
        int64_t *lines = realloc(pieces->lines, more * sizeof *lines);
        if (lines) pieces->lines = lines;
        uint32_t *shares = realloc(pieces->shares, more * sizeof *shares);
        if (shares) pieces->shares = shares;
        if (!begins || !lines || !shares) return OUT_OF_MEMORY;
        *room = (int64_t)more;
    }
    uint32_t share = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < name.length; i++) share = (share ^ name.text[i]) * 16777619u;
    pieces->begins[pieces->count] = begin;
    pieces->lines[pieces->count] = line;
    pieces->shares[pieces->count++] = share;
    return OK;
}

/* Where, in bytes and lines, each segment of lines of one query begins. NULL if there is no memory. */
EXPORT Pieces *rt_segments(const uint8_t *text, int64_t begin, int64_t end) {
    Pieces *pieces = calloc(1, sizeof *pieces);
    if (!pieces) return NULL;
    int64_t room = 0, line = 0;
    Name last = {NULL, 0};
    const uint8_t *stop;
    for (const uint8_t *at = text + begin; at < text + end; at = stop + 1, line++) {
        stop = memchr(at, '\n', (size_t)(text + end - at));
        if (!stop) stop = text + end;
        Name name = name_of(at, stop);
        if (!name.length || (last.length && is_same(name, last))) continue;
        last = name;
        if (add_piece(pieces, &room, at - text, line, name)) {
            rt_pieces_free(pieces);
            return NULL;
        }
    }
    return pieces;
}

EXPORT void rt_gather(const uint8_t *text, const int64_t *begins, const int64_t *ends, int64_t count, uint8_t *to) {
    for (int64_t i = 0; i < count; i++) {
        size_t size = (size_t)(ends[i] - begins[i]);
        memcpy(to, text + begins[i], size);
        to += size;
    }
}

/* The number of the query of each piece, in the order in which they first come. */
EXPORT int rt_groups(const uint8_t *text, const int64_t *begins, const int64_t *ends, int64_t count, int64_t *groups) {
    uint64_t room = slots_for((uint64_t)count), mask = room - 1, slot;
    uint64_t *slots = calloc(room, sizeof *slots);
    if (!slots) return OUT_OF_MEMORY;
    int64_t group = 0;
    for (int64_t i = 0; i < count; i++) {
        Name name = name_of(text + begins[i], text + ends[i]);
        uint64_t hash = hash_of(name.text, name.length), at = hash & mask;
        groups[i] = -1;
        for (; (slot = slots[at]) && groups[i] < 0; at = (at + 1) & mask) {
            int64_t other = (int64_t)(slot & 0xFFFFFFFF) - 1;
            if (TAG_OF(slot) == TAG_OF(hash) && is_same(name, name_of(text + begins[other], text + ends[other])))
                groups[i] = groups[other];
        }
        if (groups[i] >= 0) continue;
        groups[i] = group++;
        slots[at] = TAG_OF(hash) | (uint64_t)(i + 1);
    }
    free(slots);
    return OK;
}
