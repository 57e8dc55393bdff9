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

/* What flags say of a row: the first three compare it with the row before of the same segment. The last two may be set
   without need. */
enum { RISES = 1, TIES = 2, FALLS_BACK = 4, MAY_REPEAT = 8, MAY_BE_JUDGED = 16 };

enum { SEEN = 1 << 15 };

/* Texts are given by where they begin in the block, and their length. Lines count from 0. A segment is the consecutive
   rows of one query. The arrays are Python's, with room for as many entries as there can be rows, and one more; `seen`
   has SEEN. Bit `hash & judged_mask` of `judged` is set for the documents that may be judged. */
typedef struct {
    int64_t lines, rows, segments;
    int64_t *line, *at, *length, *number;
    double *score;
    uint64_t *hash;
    uint8_t *flags;
    int64_t *first_row, *name_at, *name_length;
    uint64_t *seen;
    const uint8_t *judged;
    uint64_t judged_mask;
} Split;

/* How many hashes the table of those seen has; the first row of the segment. */
typedef struct {
    int64_t taken, first_row;
} Segment;

/* The check sum of the sources that this was built from. */
EXPORT const char *rt_mark(void) { return RAGTRIAL_MARK; }

static void begin_segment(Split *split, Segment *segment) {
    if (segment->taken > SEEN / 4) {
        memset(split->seen, 0, SEEN * sizeof *split->seen);
        segment->taken = 0;
    }
    segment->first_row = split->rows;
}

/* Whether the segment may have had the hash before: always once the table is half full. */
static inline uint8_t repeats(Split *split, Segment *segment, uint64_t hash) {
    uint64_t key = hash + UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)split->segments;
    if (UNLIKELY(segment->taken > SEEN / 2 || !key)) return MAY_REPEAT;
    uint64_t slot = key & (SEEN - 1);
    for (; split->seen[slot]; slot = (slot + 1) & (SEEN - 1))
        if (split->seen[slot] == key) return MAY_REPEAT;
    split->seen[slot] = key;
    segment->taken++;
    return 0;
}

static inline uint8_t compared(const Form *form, const Split *split, int64_t row) {
    uint8_t falls = split->number[row] < split->number[row - 1] ? FALLS_BACK : 0;
    if (form->score < 0) return falls;
    double score = split->score[row], before = split->score[row - 1];
    return falls | (uint8_t)((score > before) * RISES) | (uint8_t)((score == before) * TIES);
}

static inline int take_row(const uint8_t *text, const Form *form, const Columns *columns, Split *split,
                           Segment *segment) {
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
    uint64_t hash = split->hash[row] = hash_of(document, length), bit = hash & split->judged_mask;
    uint8_t judged = (uint8_t)(split->judged[bit >> 3] >> (bit & 7) & 1) * MAY_BE_JUDGED;
    uint8_t steps = row > segment->first_row ? compared(form, split, row) : 0;
    split->flags[row] = judged | steps | repeats(split, segment, hash);
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
    Segment segment = {SEEN, 0};
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
            begin_segment(split, &segment);
        }
        split->line[split->rows] = line;
        if (UNLIKELY(take_row(text, form, &columns, split, &segment))) return IS_OTHER;
    }
    split->lines = line;
    return IS_NUMBER;
}

static const uint8_t *line_start(const uint8_t *text, const uint8_t *at) {
    while (at - text >= 64) {
        uint64_t line_feeds = mask_of(at - 64).line_feeds;
        if (line_feeds) return at - __builtin_clzll(line_feeds);
        at -= 64;
    }
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
