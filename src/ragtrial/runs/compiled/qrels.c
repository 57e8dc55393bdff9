/* Qrels files: rows checked, grouped by query in the order in which queries first come, ids packed. */
#include <stdlib.h>

#include "columns.h"
#include "number.h"
#include "scanner.h"
#include "table.h"

typedef struct {
    uint32_t query, document_length;
    int64_t document_at, line;
    int32_t grade;
} Row;

/* binding.py mirrors the first part. Query ids have line feeds between them. */
typedef struct {
    int64_t rows, queries, query_size, document_size, fault_count, faults_kept;
    uint8_t *query_text, *document_text;
    int64_t *ends, *starts;
    int32_t *grades;
    Fault faults[MOST_FAULTS];
    /* while reading */
    const uint8_t *text;
    Row *row;
    Name *name;
    uint64_t *query_slots, *pair_slots, mask;
    Found found;
} Qrels;

EXPORT void rt_qrels_free(Qrels *qrels) {
    if (!qrels) return;
    void *all[] = {qrels->query_text, qrels->document_text, qrels->ends,        qrels->starts, qrels->grades,
                   qrels->row,        qrels->name,          qrels->query_slots, qrels->pair_slots, qrels};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static uint32_t query_number(Qrels *qrels, Name name) {
    uint64_t hash = hash_of(name.text, name.length), at = hash & qrels->mask, slot;
    for (; (slot = qrels->query_slots[at]); at = (at + 1) & qrels->mask) {
        if (TAG_OF(slot) != TAG_OF(hash)) continue;
        uint32_t other = (uint32_t)slot - 1;
        if (is_same(qrels->name[other], name)) return other;
    }
    qrels->query_slots[at] = TAG_OF(hash) | (uint64_t)(qrels->queries + 1);
    qrels->name[qrels->queries] = name;
    qrels->query_size += (int64_t)name.length + 1;
    return (uint32_t)qrels->queries++;
}

/* The earlier row of the same pair of query and document, or NULL; this row, the next one, is noted then. */
static const Row *earlier_row(Qrels *qrels, const Row *row) {
    const uint8_t *document = qrels->text + row->document_at;
    uint64_t hash = folded(hash_of(document, row->document_length) ^ SEED_B, SEED_A + row->query);
    uint64_t at = hash & qrels->mask, slot;
    for (; (slot = qrels->pair_slots[at]); at = (at + 1) & qrels->mask) {
        if (TAG_OF(slot) != TAG_OF(hash)) continue;
        const Row *other = &qrels->row[(uint32_t)slot - 1];
        if (other->query == row->query && other->document_length == row->document_length &&
            same_bytes(document, qrels->text + other->document_at, row->document_length))
            return other;
    }
    qrels->pair_slots[at] = TAG_OF(hash) | (uint64_t)(qrels->rows + 1);
    return NULL;
}

static void fault(Qrels *qrels, int64_t line, int error, int64_t other, const Columns *columns, int column) {
    Fault told = {.line = line, .error = error, .other = other};
    if (error != COLUMNS) {
        told.found_at = columns->begin[column] - qrels->text;
        told.found_length = (int32_t)columns->length[column];
    }
    if (error == JUDGED_TWICE) {
        told.query_at = columns->begin[0] - qrels->text;
        told.query_length = (int32_t)columns->length[0];
    }
    add_fault(&qrels->found, told);
}

static int parse_grade(const uint8_t *text, size_t length, int32_t *grade) {
    int64_t number;
    if (memchr(text, '_', length) || parse_whole(text, length, &number)) return IS_NO_NUMBER;
    if (number < INT32_MIN || number > INT32_MAX) return IS_NO_NUMBER;
    *grade = (int32_t)number;
    return IS_NUMBER;
}

static void take_row(Qrels *qrels, int64_t line, const Columns *columns) {
    Row *row = &qrels->row[qrels->rows];
    if (columns->count != 4) {
        fault(qrels, line, COLUMNS, columns->count, columns, 0);
        return;
    }
    if (parse_grade(columns->begin[3], columns->length[3], &row->grade)) {
        fault(qrels, line, GRADE, 0, columns, 3);
        return;
    }
    Name name = {columns->begin[0], columns->length[0]};
    int is_last = qrels->rows && is_same(qrels->name[row[-1].query], name);
    row->query = is_last ? row[-1].query : query_number(qrels, name);
    row->document_at = columns->begin[2] - qrels->text;
    row->document_length = (uint32_t)columns->length[2];
    row->line = line;
    const Row *earlier = earlier_row(qrels, row);
    if (earlier) {
        fault(qrels, line, JUDGED_TWICE, earlier->line, columns, 2);
        return;
    }
    qrels->document_size += row->document_length;
    qrels->rows++;
}

static int make_arrays(Qrels *qrels, size_t lines) {
    uint64_t slots = slots_for(lines);
    qrels->mask = slots - 1;
    qrels->row = malloc((lines + 1) * sizeof *qrels->row);
    qrels->name = malloc((lines + 1) * sizeof *qrels->name);
    qrels->query_slots = calloc(slots, sizeof *qrels->query_slots);
    qrels->pair_slots = calloc(slots, sizeof *qrels->pair_slots);
    return qrels->row && qrels->name && qrels->query_slots && qrels->pair_slots ? OK : OUT_OF_MEMORY;
}

static int make_columns(Qrels *qrels) {
    size_t rows = (size_t)qrels->rows + 1, queries = (size_t)qrels->queries + 2;
    qrels->ends = malloc(rows * sizeof *qrels->ends);
    qrels->grades = malloc(rows * sizeof *qrels->grades);
    qrels->starts = calloc(queries, sizeof *qrels->starts);
    qrels->query_text = malloc((size_t)qrels->query_size + 1);
    qrels->document_text = malloc((size_t)qrels->document_size + 1);
    if (!qrels->ends || !qrels->grades || !qrels->starts || !qrels->query_text || !qrels->document_text)
        return OUT_OF_MEMORY;
    return OK;
}

/* Rows by query, stable. Until it ends, starts[q + 1] is where the next row of query q goes. */
static int pack(Qrels *qrels) {
    if (make_columns(qrels)) return OUT_OF_MEMORY;
    uint8_t *to = qrels->query_text;
    for (int64_t i = 0; i < qrels->queries; i++) {
        memcpy(to, qrels->name[i].text, qrels->name[i].length);
        to += qrels->name[i].length;
        *to++ = '\n';
    }
    int64_t *sorted = malloc(((size_t)qrels->rows + 1) * sizeof *sorted);
    if (!sorted) return OUT_OF_MEMORY;
    for (int64_t i = 0; i < qrels->rows; i++) qrels->starts[qrels->row[i].query + 2]++;
    for (int64_t i = 1; i <= qrels->queries + 1; i++) qrels->starts[i] += qrels->starts[i - 1];
    for (int64_t i = 0; i < qrels->rows; i++) sorted[qrels->starts[qrels->row[i].query + 1]++] = i;
    int64_t size = 0;
    for (int64_t i = 0; i < qrels->rows; i++) {
        const Row *row = &qrels->row[sorted[i]];
        memcpy(qrels->document_text + size, qrels->text + row->document_at, row->document_length);
        qrels->ends[i] = size += row->document_length;
        qrels->grades[i] = row->grade;
    }
    free(sorted);
    return OK;
}

/* NULL if there is no memory. PADDING bytes more than text[0:size] can be read, and the first be written. */
EXPORT Qrels *rt_qrels_new(uint8_t *text, int64_t size) {
    Qrels *qrels = calloc(1, sizeof *qrels);
    if (!qrels) return NULL;
    qrels->text = text;
    text[size] = '\n';
    size_t lines = 1;
    for (const uint8_t *at = text; (at = memchr(at, '\n', (size_t)(text + size - at))); at++) lines++;
    int failed = make_arrays(qrels, lines);
    const uint8_t *stop = NULL;
    int64_t line = 0;
    Columns columns;
    for (const uint8_t *at = text; !failed && at < text + size; at = stop + 1, line++) {
        stop = take_line(at, 4, &columns);
        if (columns.count) take_row(qrels, line, &columns);
    }
    if (!failed) failed = pack(qrels);
    if (failed) {
        rt_qrels_free(qrels);
        return NULL;
    }
    qrels->fault_count = qrels->found.fault_count;
    qrels->faults_kept = qrels->found.faults_kept;
    memcpy(qrels->faults, qrels->found.faults, sizeof qrels->faults);
    return qrels;
}
