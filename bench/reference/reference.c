// The program that weir is measured against: one thread, nothing that a feed does
// not need, libsqlite3. It maps the file, folds the messages of each batch in a
// hash table whose cells point into the file, and upserts the batch in the order
// of its keys with one prepared statement.
//
// It is no tool: names have no escapes, values are strings without escapes or
// plain numbers, the key comes first, nothing resumes, nothing is rejected.
//
//	reference FEED DB [ROWS-A-BATCH]
#include <fcntl.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_COLUMNS = 256, NAMES = 1024 };

typedef struct { const char *p; uint32_t n; } span;
typedef struct { span key; span cell[MAX_COLUMNS]; } row; // cut to the columns there are

static span names[MAX_COLUMNS]; // of the columns; 0 is the key
static int columns;
static int16_t name_table[NAMES]; // by hash; column + 1

static char *rows; // of row_size bytes each
static size_t row_size;
static int row_count, batch_rows = 100000;
static uint32_t *index_; // by hash of the key; row + 1
static uint32_t index_mask;

static sqlite3 *db;
static sqlite3_stmt *upsert;

static void die(const char *what) {
	fprintf(stderr, "%s: %s\n", what, db ? sqlite3_errmsg(db) : "failed");
	exit(1);
}

static void run(const char *sql) {
	if (sqlite3_exec(db, sql, 0, 0, 0) != SQLITE_OK) die(sql);
}

static uint64_t hash(const char *p, size_t n) {
	uint64_t h = 0x9e3779b97f4a7c15u ^ n, w;
	for (; n >= 8; p += 8, n -= 8) {
		memcpy(&w, p, 8);
		h = (h ^ w) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	w = 0;
	memcpy(&w, p, n);
	h = (h ^ w) * 0xff51afd7ed558ccdu;
	return h ^ h >> 29;
}

static int same(span a, span b) { return a.n == b.n && !memcmp(a.p, b.p, a.n); }

// column returns the number of a name, which it gives one where it is new.
static int column(span name) {
	uint32_t i = hash(name.p, name.n) & (NAMES - 1);
	for (; name_table[i]; i = (i + 1) & (NAMES - 1))
		if (same(names[name_table[i] - 1], name)) return name_table[i] - 1;
	if (columns == MAX_COLUMNS) die("too many columns");
	names[columns] = name;
	name_table[i] = ++columns;
	return columns - 1;
}

static row *at(int i) { return (row *)(rows + i * row_size); }

static row *find(span key) {
	uint32_t i = hash(key.p, key.n) & index_mask;
	for (; index_[i]; i = (i + 1) & index_mask)
		if (same(at(index_[i] - 1)->key, key)) return at(index_[i] - 1);
	row *r = at(row_count++);
	memset(r, 0, row_size);
	r->key = key;
	index_[i] = row_count;
	return r;
}

static int by_key(const void *a, const void *b) {
	const row *x = *(row *const *)a, *y = *(row *const *)b;
	uint32_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
	int c = memcmp(x->key.p, y->key.p, n);
	return c ? c : (int)x->key.n - (int)y->key.n;
}

// prepare makes the table and the statement for the columns that there are.
static void prepare(int had) {
	char *sql = malloc(1 << 20), *s = sql;
	if (!had) {
		s += sprintf(s, "CREATE TABLE t (");
		for (int i = 0; i < columns; i++) s += sprintf(s, "\"%.*s\" TEXT%s, ", names[i].n, names[i].p, i ? "" : " NOT NULL");
		sprintf(s, "PRIMARY KEY (\"%.*s\"))", names[0].n, names[0].p);
		run(sql);
	}
	for (int i = had; had && i < columns; i++) {
		sprintf(sql, "ALTER TABLE t ADD COLUMN \"%.*s\" TEXT", names[i].n, names[i].p);
		run(sql);
	}
	s = sql + sprintf(sql, "INSERT INTO t VALUES (?");
	for (int i = 1; i < columns; i++) s += sprintf(s, ", ?");
	s += sprintf(s, ") ON CONFLICT DO UPDATE SET ");
	for (int i = 1; i < columns; i++)
		s += sprintf(s, "%s\"%.*s\" = coalesce(excluded.\"%.*s\", \"%.*s\")", i > 1 ? ", " : "", names[i].n, names[i].p, names[i].n, names[i].p, names[i].n, names[i].p);
	sqlite3_finalize(upsert);
	if (sqlite3_prepare_v2(db, sql, -1, &upsert, 0) != SQLITE_OK) die(sql);
	free(sql);
}

static void flush(void) {
	static int had;
	if (!row_count) return;
	run("BEGIN IMMEDIATE");
	if (columns != had) prepare(had);
	had = columns;
	row **sorted = malloc(row_count * sizeof *sorted);
	for (int i = 0; i < row_count; i++) sorted[i] = at(i);
	qsort(sorted, row_count, sizeof *sorted, by_key);
	for (int i = 0; i < row_count; i++) {
		row *r = sorted[i];
		sqlite3_bind_text(upsert, 1, r->key.p, r->key.n, SQLITE_STATIC);
		for (int c = 1; c < columns; c++)
			if (r->cell[c].p)
				sqlite3_bind_text(upsert, c + 1, r->cell[c].p, r->cell[c].n, SQLITE_STATIC);
			else
				sqlite3_bind_null(upsert, c + 1);
		if (sqlite3_step(upsert) != SQLITE_DONE) die("upsert");
		sqlite3_reset(upsert);
	}
	free(sorted);
	run("COMMIT");
	row_count = 0;
	memset(index_, 0, (index_mask + 1) * sizeof *index_);
}

// value reads a string or a plain word, and moves p behind it.
static span value(const char **p, const char *end) {
	span v;
	if (**p == '"') {
		v.p = *p + 1;
		const char *q = memchr(v.p, '"', end - v.p);
		if (!q) die("a string without an end");
		v.n = q - v.p;
		*p = q + 1;
	} else {
		v.p = *p;
		while (*p < end && **p != ',' && **p != '}') ++*p;
		v.n = *p - v.p;
	}
	return v;
}

static void message(const char *p, const char *end) {
	static int guess[MAX_COLUMNS + 1]; // what followed a column last time
	int last = 0;
	row *r = 0;
	if (*p++ != '{') die("no object");
	for (; p < end && *p != '}'; p += *p == ',') {
		span name = value(&p, end);
		if (*p++ != ':') die("no value");
		span v = value(&p, end);
		int c = guess[last];
		if (c >= columns || !same(names[c], name)) guess[last] = c = column(name);
		last = c + 1;
		if (c == 0)
			r = find(v);
		else if (r)
			r->cell[c] = v;
		else
			die("the key is not first");
	}
}

int main(int argc, char **argv) {
	if (argc < 3) return fprintf(stderr, "usage: reference FEED DB [ROWS]\n"), 2;
	if (argc > 3) batch_rows = atoi(argv[3]);
	int fd = open(argv[1], O_RDONLY);
	struct stat st;
	if (fd < 0 || fstat(fd, &st)) die(argv[1]);
	const char *p = mmap(0, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0), *end = p + st.st_size;
	if (p == MAP_FAILED) die("mmap");
	madvise((void *)p, st.st_size, MADV_SEQUENTIAL);

	row_size = sizeof(span) * 65; // a key and 64 columns, of which the feeds have 38
	rows = malloc(row_size * batch_rows);
	for (index_mask = 1; index_mask < 2 * (uint32_t)batch_rows; index_mask *= 2) {}
	index_ = calloc(index_mask, sizeof *index_);
	index_mask--;
	if (!rows || !index_) die("memory");

	if (sqlite3_open(argv[2], &db) != SQLITE_OK) die(argv[2]);
	run("PRAGMA journal_mode = WAL");
	run("PRAGMA synchronous = NORMAL");
	run("PRAGMA cache_size = -65536");
	long lines = 0;
	while (p < end) {
		const char *nl = memchr(p, '\n', end - p);
		if (!nl) nl = end;
		if (nl > p) message(p, nl), lines++;
		if (columns > 64) die("more than 64 columns");
		p = nl + 1;
		if (row_count == batch_rows) flush();
	}
	flush();
	sqlite3_finalize(upsert);
	sqlite3_close(db);
	printf("%ld lines\n", lines);
	return 0;
}
