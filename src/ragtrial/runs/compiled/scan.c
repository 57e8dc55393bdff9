/* Blocks of run files: lines, columns, numbers; the rows of a query go to rank_query together. */
#include "columns.h"
#include "number.h"
#include "scanner.h"

static void fault_at(Scanner *scanner, int64_t line, int error, const Columns *columns, int column) {
    Fault fault = {.line = line, .error = error};
    if (error == COLUMNS) {
        fault.other = columns->count;
    } else {
        fault.found_at = columns->begin[column] - scanner->text;
        fault.found_length = (int32_t)columns->length[column];
    }
    add_fault(&scanner->found, fault);
}

static inline void add_row(Scanner *scanner, int64_t line, const Columns *columns, int document) {
    Rows *rows = &scanner->rows;
    rows->at[rows->count] = (uint32_t)(columns->begin[document] - scanner->text);
    rows->length[rows->count] = (uint32_t)columns->length[document];
    rows->line[rows->count++] = (uint32_t)line;
}

static inline void take_trec(Scanner *scanner, int64_t line, const Columns *columns) {
    Rows *rows = &scanner->rows;
    int64_t *rank = &rows->rank[rows->count];
    if (UNLIKELY(columns->count < 6 || (columns->count > 6 && !scanner->rules.lenient))) {
        fault_at(scanner, line, COLUMNS, columns, 0);
        return;
    }
    if (UNLIKELY(parse_rank(columns->begin[3], columns->length[3], rank) != IS_NUMBER)) {
        if (!scanner->rules.lenient || scanner->rules.order == ORDER_RANK) {
            fault_at(scanner, line, RANK, columns, 3);
            return;
        }
        *rank = NO_RANK;
    }
    int kind = parse_score(columns->begin[4], columns->length[4], &rows->score[rows->count]);
    if (UNLIKELY(kind != IS_NUMBER)) {
        fault_at(scanner, line, kind == IS_NAN ? NOT_A_NUMBER : SCORE, columns, 4);
        return;
    }
    add_row(scanner, line, columns, 2);
}

static void take_msmarco(Scanner *scanner, int64_t line, const Columns *columns) {
    if (columns->count != 3) {
        fault_at(scanner, line, COLUMNS, columns, 0);
        return;
    }
    const uint8_t *text = columns->begin[2];
    size_t length = columns->length[2], zeros = 0, at = 0;
    while (at < length && is_digit(text[at])) at++;
    while (zeros < length && text[zeros] == '0') zeros++;
    int64_t *rank = &scanner->rows.rank[scanner->rows.count];
    *rank = 0;
    if (at == length && length < 1000) parse_whole(text, length, rank);
    int is_longest = length - zeros == 19 && memcmp(text + zeros, "9223372036854775807", 19) == 0;
    if (*rank < 1 || (*rank == INT64_MAX && !is_longest)) {
        fault_at(scanner, line, RANK, columns, 2);
        return;
    }
    add_row(scanner, line, columns, 1);
}

/* The query whose lines are being read. */
typedef struct {
    const uint8_t *name;
    size_t length;
    int64_t first_line;
} Current;

static int finish(Scanner *scanner, const Current *current, double *begun) {
    double now = seconds_now();
    scanner->found.read += now - *begun;
    int failed = current->name ? rank_query(scanner, current->name, current->length, current->first_line) : OK;
    scanner->rows.count = 0;
    *begun = seconds_now();
    return failed;
}

static int scan_lines(Scanner *scanner, const uint8_t *at, const uint8_t *end) {
    Columns columns;
    Current current = {NULL, 0, 0};
    double begun = seconds_now();
    int is_trec = scanner->rules.form == FORM_TREC, wanted = is_trec ? 6 : 3;
    int64_t line = 0;
    for (const uint8_t *stop; at < end; at = stop + 1, line++) {
        stop = take_line(at, wanted, &columns);
        if (UNLIKELY(!columns.count)) continue;
        size_t length = columns.length[0];
        if (length != current.length || !same_bytes(columns.begin[0], current.name, length)) {
            if (finish(scanner, &current, &begun)) return OUT_OF_MEMORY;
            current = (Current){columns.begin[0], length, line};
        }
        if (UNLIKELY(make_room(scanner, scanner->rows.count + 1))) return OUT_OF_MEMORY;
        if (is_trec) take_trec(scanner, line, &columns);
        else take_msmarco(scanner, line, &columns);
    }
    scanner->found.lines = at > end ? line - 1 : line; /* the last one may have no line feed */
    return finish(scanner, &current, &begun);
}

/* Reads the block text[0:size], of which PADDING bytes more can be read, and the first be written. */
EXPORT int rt_scan(Scanner *scanner, uint8_t *text, int64_t size) {
    start_anew(&scanner->found);
    scanner->text = scanner->base = text;
    scanner->row_line = 0;
    text[size] = '\n';
    return scan_lines(scanner, text, text + size);
}
