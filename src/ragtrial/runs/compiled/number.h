/* Numbers in text: scores, rounded as IEEE 754 asks, and whole numbers. Nothing here depends on the locale. */
#ifndef RAGTRIAL_NUMBER_H
#define RAGTRIAL_NUMBER_H

#include <float.h>
#include <stdint.h>

#include "run.h"
#include "text.h"

enum { IS_NUMBER = 0, IS_NO_NUMBER = 1, IS_NAN = 2 };

/* Any text; slower. The byte behind it must be white space. */
int parse_any_score(const uint8_t *text, size_t length, double *score);

/* Sign, digits, single underscores between digits. Held at the nearest that fits, never INT64_MIN. */
int parse_whole(const uint8_t *text, size_t length, int64_t *number);

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Digits with a point, up to 2^53 and 22 decimals, are one exact division (Clinger 1990); the rest goes on. */
static inline int parse_score(const uint8_t *text, size_t length, double *score) {
    const uint8_t *at = text, *end = text + length;
    int negative = *at == '-';
    at += negative;
    uint64_t digits = 0;
    const uint8_t *first = at;
    while (at < end && is_digit(*at)) digits = digits * 10 + (uint64_t)(*at++ - '0');
    size_t count = (size_t)(at - first), decimals = 0;
    if (at < end && *at == '.') {
        const uint8_t *point = ++at;
        while (at < end && is_digit(*at)) digits = digits * 10 + (uint64_t)(*at++ - '0');
        decimals = (size_t)(at - point);
    }
    count += decimals;
    if (UNLIKELY(at < end || count == 0 || count > 19 || digits > (UINT64_C(1) << 53) || FLT_EVAL_METHOD != 0))
        return parse_any_score(text, length, score);
    double value = (double)digits / TENS[decimals];
    *score = negative ? -value : value;
    return IS_NUMBER;
}

static inline int parse_rank(const uint8_t *text, size_t length, int64_t *rank) {
    if (UNLIKELY(length > 18)) return parse_whole(text, length, rank);
    int64_t number = 0;
    for (size_t i = 0; i < length; i++) {
        if (UNLIKELY(!is_digit(text[i]))) return parse_whole(text, length, rank);
        number = number * 10 + (text[i] - '0');
    }
    *rank = number;
    return IS_NUMBER;
}

#endif
