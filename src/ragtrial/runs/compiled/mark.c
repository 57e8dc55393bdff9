/* What the library says of itself, and a door for tests of numbers. */
#include "number.h"

#ifndef RAGTRIAL_MARK
#define RAGTRIAL_MARK ""
#endif

/* The check sum of the sources that this was built from. */
EXPORT const char *rt_mark(void) { return RAGTRIAL_MARK; }

/* The score in a text that white space follows: 0, or why it is none. */
EXPORT int rt_score(const uint8_t *text, int64_t length, double *score) {
    return length < 1 ? IS_NO_NUMBER : parse_score(text, (size_t)length, score);
}
