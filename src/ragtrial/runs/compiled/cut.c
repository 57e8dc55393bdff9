/* Blocks are cut where a query ends. */
#include "run.h"
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
