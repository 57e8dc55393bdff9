/* Numbers in text: scores, rounded as IEEE 754 asks, and whole numbers. Nothing here depends on the locale. */
#ifndef RAGTRIAL_NUMBER_H
#define RAGTRIAL_NUMBER_H

#include <float.h>
#include <locale.h>
#include <stdlib.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include "text.h"

enum { IS_NUMBER = 0, IS_OTHER = 1 };

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

#if !defined(_WIN32)
static locale_t plain_locale;

__attribute__((constructor)) static void make_locale(void) { plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static inline double slow_score(const char *text) {
    return plain_locale ? strtod_l(text, NULL, plain_locale) : strtod(text, NULL);
}
#else
static inline double slow_score(const char *text) { return _strtod_l(text, NULL, _create_locale(LC_ALL, "C")); }
#endif

static inline size_t digits_at(const uint8_t *text, const uint8_t *end) {
    size_t count = 0;
    while (text + count < end && is_digit(text[count])) count++;
    return count;
}

/* [sign] digits [. digits] [e [sign] digits], with white space behind it. Infinity, NaN and the like are left to Python. */
static int parse_any_score(const uint8_t *text, size_t length, double *score) {
    const uint8_t *end = text + length, *at = text + (*text == '-' || *text == '+');
    size_t count = digits_at(at, end);
    at += count;
    if (at < end && *at == '.') {
        size_t decimals = digits_at(++at, end);
        at += decimals;
        count += decimals;
    }
    if (!count) return IS_OTHER;
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        at += at < end && (*at == '-' || *at == '+');
        size_t exponent = digits_at(at, end);
        if (!exponent) return IS_OTHER;
        at += exponent;
    }
    if (at != end) return IS_OTHER;
    *score = slow_score((const char *)text);
    return IS_NUMBER;
}

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

/* At most 18 digits, with or without a sign. */
static inline int parse_whole(const uint8_t *text, size_t length, int64_t *number) {
    size_t sign = *text == '-' || *text == '+';
    if (UNLIKELY(length == sign || length > 18)) return IS_OTHER;
    int64_t value = 0;
    for (size_t i = sign; i < length; i++) {
        if (UNLIKELY(!is_digit(text[i]))) return IS_OTHER;
        value = value * 10 + (text[i] - '0');
    }
    *number = *text == '-' ? -value : value;
    return IS_NUMBER;
}

#endif
