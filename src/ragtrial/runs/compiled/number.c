/* Numbers that are not plain: exponents, many digits, infinity, and what is none. */
#define _GNU_SOURCE
#include "number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include "powers.h"

/* The parts of a decimal: digits * 10^power, if it has at most 19 digits that count. */
typedef struct {
    uint64_t digits;
    int64_t power;
    int negative, is_exact;
} Decimal;

#if !defined(_WIN32)
static locale_t plain_locale;

__attribute__((constructor)) static void make_locale(void) { plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static double slow_score(const char *text) {
    return plain_locale ? strtod_l(text, NULL, plain_locale) : strtod(text, NULL);
}
#else
static double slow_score(const char *text) { return _strtod_l(text, NULL, _create_locale(LC_ALL, "C")); }
#endif

static int is_word(const uint8_t *text, size_t length, const char *word) {
    if (length != strlen(word)) return 0;
    for (size_t i = 0; i < length; i++)
        if ((text[i] | 0x20) != (uint8_t)word[i]) return 0;
    return 1;
}

static int parse_word(const uint8_t *text, size_t length, double *score) {
    int negative = length && *text == '-', sign = length && (*text == '-' || *text == '+');
    text += sign;
    length -= (size_t)sign;
    if (is_word(text, length, "inf") || is_word(text, length, "infinity")) {
        *score = negative ? -HUGE_VAL : HUGE_VAL;
        return IS_NUMBER;
    }
    if (length < 3 || !is_word(text, 3, "nan")) return IS_NO_NUMBER;
    return length == 3 || (length > 4 && text[3] == '(' && text[length - 1] == ')') ? IS_NAN : IS_NO_NUMBER;
}

static const uint8_t *take_digits(const uint8_t *at, const uint8_t *end, Decimal *decimal, int *count) {
    for (; at < end && is_digit(*at); at++) {
        if (*count == 0 && *at == '0') continue; /* zeros in front count for nothing */
        if ((*count)++ < 19) decimal->digits = decimal->digits * 10 + (uint64_t)(*at - '0');
    }
    return at;
}

/* The exponent, held below 10^9. False if there is none where one must be. */
static int take_exponent(const uint8_t *at, const uint8_t *end, int64_t *exponent) {
    int negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    if (at == end) return 0;
    for (; at < end; at++) {
        if (!is_digit(*at)) return 0;
        if (*exponent < 100000000) *exponent = *exponent * 10 + (*at - '0');
    }
    if (negative) *exponent = -*exponent;
    return 1;
}

static int take_decimal(const uint8_t *at, const uint8_t *end, Decimal *decimal) {
    int count = 0;
    int64_t exponent = 0;
    decimal->negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    const uint8_t *first = at;
    at = take_digits(at, end, decimal, &count);
    size_t all = (size_t)(at - first);
    if (at < end && *at == '.') {
        const uint8_t *point = ++at;
        at = take_digits(at, end, decimal, &count);
        decimal->power = -(int64_t)(at - point);
        all += (size_t)(at - point);
    }
    if (all == 0) return 0;
    if (at < end && (((*at | 0x20) != 'e') || !take_exponent(at + 1, end, &exponent))) return 0;
    decimal->power += exponent;
    decimal->is_exact = count <= 19;
    return 1;
}

/* The nearest double to digits * 10^power by one or two multiplications (Lemire 2021); false if they cannot tell. */
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

int parse_any_score(const uint8_t *text, size_t length, double *score) {
    Decimal decimal = {0, 0, 0, 0};
    double value;
    if (!take_decimal(text, text + length, &decimal)) return parse_word(text, length, score);
    if (decimal.is_exact && decimal.digits == 0)
        *score = decimal.negative ? -0.0 : 0.0;
    else if (decimal.is_exact && nearest(decimal.digits, decimal.power, &value))
        *score = decimal.negative ? -value : value;
    else
        *score = slow_score((const char *)text);
    return IS_NUMBER;
}

int parse_whole(const uint8_t *text, size_t length, int64_t *number) {
    const uint8_t *at = text, *end = text + length;
    int negative = length && *at == '-';
    at += length && (*at == '-' || *at == '+');
    int64_t value = 0;
    int after_digit = 0;
    for (; at < end; at++) {
        if (*at == '_' && after_digit) {
            after_digit = 0;
            continue;
        }
        if (!is_digit(*at)) return IS_NO_NUMBER;
        int digit = *at - '0';
        value = value > (INT64_MAX - digit) / 10 ? INT64_MAX : value * 10 + digit;
        after_digit = 1;
    }
    if (!after_digit) return IS_NO_NUMBER;
    *number = negative ? -value : value;
    return IS_NUMBER;
}
