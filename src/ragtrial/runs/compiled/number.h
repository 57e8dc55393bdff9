/* Numbers in text: scores, rounded as IEEE 754 asks, and whole numbers. Nothing here depends on the locale. */
#ifndef RAGTRIAL_NUMBER_H
#define RAGTRIAL_NUMBER_H

#include <float.h>
#include <locale.h>
#include <stdlib.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include "powers.h"
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

/* The nearest double to digits * 10^power by one or two multiplications (Lemire 2021); false if these
   cannot tell. */
static int nearest(uint64_t digits, int64_t power, double *value) {
#if defined(__SIZEOF_INT128__)
    if (power < LEAST_POWER || power > MOST_POWER) return 0;
    const uint64_t *five = POWERS[power - LEAST_POWER];
    int shift = __builtin_clzll(digits);
    digits <<= shift;
    unsigned __int128 product = (unsigned __int128)digits * five[0];
    uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    if ((high & 0x1FF) == 0x1FF) {
        uint64_t more = (uint64_t)(((unsigned __int128)digits * five[1]) >> 64);
        low += more;
        high += more > low;
    }
    if (low == UINT64_MAX && (power < -27 || power > 55)) return 0;
    int upper = (int)(high >> 63);
    uint64_t mantissa = high >> (upper + 9);
    int64_t exponent = (((152170 + 65536) * power) >> 16) + 63 + upper - shift + 1023;
    if (exponent <= 0 || exponent >= 2046) return 0;
    if (low <= 1 && power >= -4 && power <= 23 && (mantissa & 3) == 1 && (mantissa << (upper + 9)) == high)
        mantissa &= ~UINT64_C(1); /* exactly between two: to the even one */
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    if (mantissa >= UINT64_C(1) << 53) {
        mantissa = UINT64_C(1) << 52;
        exponent++;
    }
    uint64_t bits = (mantissa & ~(UINT64_C(1) << 52)) | (uint64_t)exponent << 52;
    memcpy(value, &bits, 8);
    return 1;
#else
    (void)digits, (void)power, (void)value;
    return 0;
#endif
}

/* The digits at a place, added to a number of at most 19 that count; how many there are. */
static inline size_t take_digits(const uint8_t *at, const uint8_t *end, uint64_t *digits, int *count) {
    const uint8_t *first = at;
    for (; at < end && is_digit(*at); at++) {
        if (*count == 0 && *at == '0') continue; /* zeros in front count for nothing */
        if ((*count)++ < 19) *digits = *digits * 10 + (uint64_t)(*at - '0');
    }
    return (size_t)(at - first);
}

/* [sign] digits [. digits] [e [sign] digits], with white space behind it. Infinity, NaN and the like are left to Python. */
static int parse_any_score(const uint8_t *text, size_t length, double *score) {
    const uint8_t *end = text + length, *at = text + (*text == '-' || *text == '+');
    uint64_t digits = 0, exponent = 0;
    int count = 0, exponent_digits = 0, is_small = 0;
    size_t all = take_digits(at, end, &digits, &count), decimals = 0;
    at += all;
    if (at < end && *at == '.') {
        decimals = take_digits(++at, end, &digits, &count);
        at += decimals;
    }
    if (!(all + decimals)) return IS_OTHER;
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        is_small = at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        size_t more = take_digits(at, end, &exponent, &exponent_digits);
        if (!more) return IS_OTHER;
        at += more;
    }
    if (at != end) return IS_OTHER;
    int64_t power = (is_small ? -(int64_t)exponent : (int64_t)exponent) - (int64_t)decimals;
    if (count > 19 || exponent_digits > 9 || !digits || !nearest(digits, power, score)) *score = slow_score((const char *)text);
    else if (*text == '-') *score = -*score;
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
