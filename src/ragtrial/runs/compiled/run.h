/* What Python and the C files share: how a run is read, what is found in it. binding.py mirrors these structures. */
#ifndef RAGTRIAL_RUN_H
#define RAGTRIAL_RUN_H

#include <stddef.h>
#include <stdint.h>

enum { FORM_TREC = 0, FORM_MSMARCO = 1 };
enum { ORDER_SCORE = 0, ORDER_TREC = 1, ORDER_RANK = 2, ORDER_FILE = 3 };
enum { COLUMNS = 1, RANK = 2, SCORE = 3, NOT_A_NUMBER = 4, DUPLICATE = 5, RANK_TAKEN = 6, GRADE = 7, JUDGED_TWICE = 8 };
enum { MOST_FAULTS = 20, MOST_UNKNOWN = 10 };
enum { OK = 0, OUT_OF_MEMORY = 1 };
/* So many bytes beyond the end of a block may be read, and the first of them be written. */
enum { PADDING = 64 };

/* A rank that is no number; no other rank has this value. */
#define NO_RANK INT64_MIN

typedef struct {
    int32_t form, order, drop_duplicates, lenient, has_scores, unique_ranks;
} Rules;

/* Texts are given by where they begin in the block, and their length. Lines count from 0. */
typedef struct {
    int64_t line, other, number, found_at, query_at;
    int32_t found_length, query_length, error, unused;
} Fault;

typedef struct {
    int64_t line, name_at, name_length;
} Unknown;

typedef struct {
    int64_t lines, rows, duplicates, fault_count, faults_kept, unknown_kept, segment_count, hit_count;
    double read, check, join;
    int32_t *queries;
    uint64_t *keys;
    int64_t *lengths, *hit_counts;
    uint8_t *tied, *contradicted;
    int64_t *judgments;
    int32_t *ranks, *tie_first, *tie_last;
    Fault faults[MOST_FAULTS];
    Unknown unknown[MOST_UNKNOWN];
} Found;

/* Ids, packed one behind the other: id i ends before text[ends[i]]. Borrowed from Python. */
typedef struct {
    const uint8_t *text;
    const int64_t *ends;
    int64_t count;
} Names;

typedef struct Judged Judged;
typedef struct Scanner Scanner;

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#endif
