/* Run files and qrels as columns. What the columns mean is written in Python; library.py mirrors these structures. */
#define _GNU_SOURCE
#include "columns.h"
#include "number.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#ifndef RAGTRIAL_MARK
#define RAGTRIAL_MARK ""
#endif

/* How many columns a line has, at least or exactly, and which is what; score is -1 where there is none. */
typedef struct {
    int32_t columns, may_have_more, document, number, may_have_sign, score;
} Form;

/* Texts are given by where they begin in the block, and their length. Lines count from 0. A segment is the consecutive
   rows of one query. The arrays are Python's, with room for as many entries as there are lines. */
typedef struct {
    int64_t lines, rows, segments;
    int64_t *line, *at, *length, *number;
    double *score;
    uint64_t *hash;
    int64_t *first_row, *name_at, *name_length;
} Split;

/* The check sum of the sources that this was built from. */
EXPORT const char *rt_mark(void) { return RAGTRIAL_MARK; }

static inline int take_row(const uint8_t *text, const Form *form, const Columns *columns, Split *split) {
    int64_t row = split->rows;
    if (UNLIKELY(columns->count < form->columns || (columns->count > form->columns && !form->may_have_more)))
        return IS_OTHER;
    const uint8_t *document = columns->begin[form->document];
    size_t length = columns->length[form->document];
    const uint8_t *number = columns->begin[form->number];
    if (UNLIKELY(parse_whole(number, columns->length[form->number], &split->number[row]))) return IS_OTHER;
    if (UNLIKELY(!form->may_have_sign && !is_digit(*number))) return IS_OTHER;
    if (form->score >= 0 && parse_score(columns->begin[form->score], columns->length[form->score], &split->score[row]))
        return IS_OTHER;
    split->at[row] = document - text;
    split->length[row] = (int64_t)length;
    split->hash[row] = hash_of(document, length);
    split->rows++;
    return IS_NUMBER;
}

/* Splits text[0:size], of which PADDING bytes more can be read, and the first be written. Stops with IS_OTHER at a line
   that only Python can judge. */
EXPORT int32_t rt_split(uint8_t *text, int64_t size, const Form *form, Split *split) {
    Columns columns;
    const uint8_t *name = NULL, *stop, *end = text + size;
    size_t length = 0;
    int64_t line = 0;
    split->rows = split->segments = 0;
    text[size] = '\n';
    for (const uint8_t *at = text; at < end; at = stop + 1, line++) {
        stop = take_line(at, form->columns, &columns);
        if (UNLIKELY(!columns.count)) continue;
        if (UNLIKELY(!name || columns.length[0] != length || !same_bytes(columns.begin[0], name, length))) {
            name = columns.begin[0];
            length = columns.length[0];
            split->first_row[split->segments] = split->rows;
            split->name_at[split->segments] = name - text;
            split->name_length[split->segments++] = (int64_t)length;
        }
        split->line[split->rows] = line;
        if (UNLIKELY(take_row(text, form, &columns, split))) return IS_OTHER;
    }
    split->lines = line;
    return IS_NUMBER;
}

static const uint8_t *line_start(const uint8_t *text, const uint8_t *at) {
    while (at > text && at[-1] != '\n') at--;
    return at;
}

/* The place where the lines of the last query begin, 0 if it is the only one. What follows the last line feed is no
   line yet. */
EXPORT int64_t rt_cut(const uint8_t *text, int64_t end) {
    const uint8_t *at = line_start(text, text + end), *start = at, *last = NULL;
    size_t length = 0;
    while (at > text) {
        const uint8_t *before = line_start(text, at - 1), *name = before;
        while (name < at && is_space(*name)) name++;
        if (name < at && *name != '#') {
            size_t size = 0;
            while (!is_space(name[size])) size++;
            if (last && (size != length || memcmp(name, last, size))) return start - text;
            last = name;
            length = size;
            start = before;
        }
        at = before;
    }
    return 0;
}

/* The hashes of ids that are packed one behind the other: id i ends before text[ends[i]]. */
EXPORT void rt_hash(const uint8_t *text, const int64_t *ends, int64_t count, uint64_t *hashes) {
    int64_t begin = 0;
    for (int64_t i = 0; i < count; begin = ends[i++]) hashes[i] = hash_of(text + begin, (size_t)(ends[i] - begin));
}

/* A door for tests: the score in a text that white space follows. */
EXPORT int32_t rt_score(const uint8_t *text, int64_t length, double *score) {
    return length < 1 ? IS_OTHER : parse_score(text, (size_t)length, score);
}
