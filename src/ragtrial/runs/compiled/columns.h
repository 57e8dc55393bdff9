/* Lines as columns: where they begin, and how long they are. */
#ifndef RAGTRIAL_COLUMNS_H
#define RAGTRIAL_COLUMNS_H

#include "text.h"

enum { MOST_COLUMNS = 6 };

typedef struct {
    const uint8_t *begin[MOST_COLUMNS];
    size_t length[MOST_COLUMNS];
    int64_t count; /* may be more than are kept */
} Columns;

/* A line of at most 64 bytes, single white space between `wanted` columns and none in front. The line's end, or NULL. */
static inline const uint8_t *plain_line(const uint8_t *line, int wanted, Columns *columns) {
    Mask mask = mask_of(line);
    if (UNLIKELY(!mask.line_feeds || *line == '#')) return NULL;
    int end = __builtin_ctzll(mask.line_feeds), begin = 0;
    uint64_t spaces = mask.spaces & ((UINT64_C(1) << end) - 1);
    int last = end;
    if (end && line[end - 1] == '\r') {
        last = end - 1;
        spaces &= ~(UINT64_C(1) << last);
    }
    if (UNLIKELY((spaces & (spaces << 1)) | (spaces & 1))) return NULL;
    for (int i = 0; i < wanted - 1; i++) {
        if (UNLIKELY(!spaces)) return NULL;
        int at = __builtin_ctzll(spaces);
        spaces &= spaces - 1;
        columns->begin[i] = line + begin;
        columns->length[i] = (size_t)(at - begin);
        begin = at + 1;
    }
    if (UNLIKELY(spaces || begin >= last)) return NULL;
    columns->begin[wanted - 1] = line + begin;
    columns->length[wanted - 1] = (size_t)(last - begin);
    columns->count = wanted;
    return line + end;
}

/* Any line; its end. No columns if it is blank or a comment. */
static inline const uint8_t *any_line(const uint8_t *line, Columns *columns) {
    const uint8_t *at = line;
    columns->count = 0;
    for (;;) {
        while (is_space(*at) && *at != '\n') at++;
        if (*at == '\n') return at;
        if (columns->count == 0 && *at == '#') break;
        const uint8_t *end = space_after(at);
        if (columns->count < MOST_COLUMNS) {
            columns->begin[columns->count] = at;
            columns->length[columns->count] = (size_t)(end - at);
        }
        columns->count++;
        at = end;
    }
    while (*at != '\n') at = space_after(at + (is_space(*at)));
    return at;
}

/* The next line as columns; its end. There must be a line feed, and PADDING bytes behind it. */
static inline const uint8_t *take_line(const uint8_t *line, int wanted, Columns *columns) {
    const uint8_t *end = plain_line(line, wanted, columns);
    return LIKELY(end != NULL) ? end : any_line(line, columns);
}

#endif
