/* Bytes of text: white space, 64 bytes at a time; ids compared and hashed. */
#ifndef RAGTRIAL_TEXT_H
#define RAGTRIAL_TEXT_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Space, tab, line feed, vertical tab, form feed, carriage return: what Python's bytes.split() splits at. */
static inline int is_space(uint8_t byte) { return byte == ' ' || (uint8_t)(byte - 9) <= 4; }

static inline int is_digit(uint8_t byte) { return (uint8_t)(byte - '0') <= 9; }

/* Bit i describes byte i of the 64 from text on. */
typedef struct {
    uint64_t spaces, line_feeds;
} Mask;

#if defined(__SSE2__)
static inline Mask mask_of(const uint8_t *text) {
    const __m128i space = _mm_set1_epi8(' '), feed = _mm_set1_epi8('\n'), nine = _mm_set1_epi8(9);
    const __m128i four = _mm_set1_epi8(4);
    Mask mask = {0, 0};
    for (int i = 0; i < 4; i++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(text + 16 * i));
        __m128i moved = _mm_sub_epi8(bytes, nine);
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(moved, four), moved);
        __m128i spaces = _mm_or_si128(control, _mm_cmpeq_epi8(bytes, space));
        mask.spaces |= (uint64_t)(uint32_t)_mm_movemask_epi8(spaces) << (16 * i);
        mask.line_feeds |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, feed)) << (16 * i);
    }
    return mask;
}
#else
static inline Mask mask_of(const uint8_t *text) {
    Mask mask = {0, 0};
    for (int i = 0; i < 64; i++) {
        mask.spaces |= (uint64_t)is_space(text[i]) << i;
        mask.line_feeds |= (uint64_t)(text[i] == '\n') << i;
    }
    return mask;
}
#endif

/* The first white space from text on; there must be some, and 64 bytes behind it that can be read. */
static inline const uint8_t *space_after(const uint8_t *text) {
#if defined(__SSE2__)
    const __m128i space = _mm_set1_epi8(' '), nine = _mm_set1_epi8(9), four = _mm_set1_epi8(4);
    for (;; text += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)text);
        __m128i moved = _mm_sub_epi8(bytes, nine);
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(moved, four), moved);
        int bits = _mm_movemask_epi8(_mm_or_si128(control, _mm_cmpeq_epi8(bytes, space)));
        if (bits) return text + __builtin_ctz((unsigned)bits);
    }
#else
    while (!is_space(*text)) text++;
    return text;
#endif
}

static inline uint64_t load8(const uint8_t *text) {
    uint64_t value;
    memcpy(&value, text, 8);
    return value;
}

static inline uint64_t load4(const uint8_t *text) {
    uint32_t value;
    memcpy(&value, text, 4);
    return value;
}

static inline int same_bytes(const uint8_t *a, const uint8_t *b, size_t length) {
    if (length >= 8 && length <= 16) return load8(a) == load8(b) && load8(a + length - 8) == load8(b + length - 8);
    if (length >= 4 && length < 8) return load4(a) == load4(b) && load4(a + length - 4) == load4(b + length - 4);
    if (length > 16) return memcmp(a, b, length) == 0;
    return length == 0 || (a[0] == b[0] && a[length >> 1] == b[length >> 1] && a[length - 1] == b[length - 1]);
}

/* Different numbers become different ones (the finalizer of MurmurHash3). */
static inline uint64_t mixed(uint64_t number) {
    number = (number ^ number >> 33) * UINT64_C(0xFF51AFD7ED558CCD);
    number = (number ^ number >> 33) * UINT64_C(0xC4CEB9FE1A85EC53);
    return number ^ number >> 33;
}

/* 64 bits; ids of one length up to 8 have different ones. Reads no byte outside of the id. */
static inline uint64_t hash_of(const uint8_t *text, size_t length) {
    uint64_t hash = UINT64_C(0x9E3779B97F4A7C15) * (length + 1), last = 0;
    for (; length > 8; text += 8, length -= 8) hash = mixed(hash ^ load8(text)) + UINT64_C(0xA0761D6478BD642F);
    if (length == 8) last = load8(text);
    else if (length >= 4) last = load4(text) | load4(text + length - 4) << 32;
    else if (length) last = (uint64_t)text[0] << 16 | (uint64_t)text[length >> 1] << 8 | text[length - 1];
    return mixed(hash ^ last);
}

#endif
