package testweir

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/weirsync/weir/internal/test/testcheck"
	_ "modernc.org/sqlite"
)

// Open opens a database: a file in the folder, in an SQLite mode such as "ro", or a connection string.
func (f *Folder) Open(to, mode string) *sql.DB {
	f.Helper()
	driver := "pgx"
	if !strings.Contains(to, "://") {
		if !strings.HasPrefix(to, "/") {
			to = f.Path(to)
		}
		driver, to = "sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(to)+"?_pragma=busy_timeout(20000)&mode="+mode
	}
	db, err := sql.Open(driver, to)
	f.Check(err)
	return db
}

// Exec runs statements in the database.
func (f *Folder) Exec(statements ...string) {
	f.Helper()
	db := f.Open(f.To, "rwc")
	defer func() { _ = db.Close() }()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			f.Fatalf("%s: %v", s, err)
		}
	}
}

// Ask returns the rows of a query's answer, separated by blanks, or the error.
func (f *Folder) Ask(query string) string {
	f.Helper()
	db := f.Open(f.To, "ro")
	defer func() { _ = db.Close() }()
	rows, err := Rows(db, query)
	if err != nil {
		return err.Error()
	}
	return strings.Join(rows, " ")
}

// Becomes waits until a query has an answer.
func (f *Folder) Becomes(want, query string) {
	f.Helper()
	testcheck.Until(f, func() string { return f.differs(want, query) })
}

// Has fails the test unless a query has an answer.
func (f *Folder) Has(want, query string) {
	f.Helper()
	if why := f.differs(want, query); why != "" {
		f.Error(why)
	}
}

// differs describes how an answer differs, "" if it does not.
func (f *Folder) differs(want, query string) string {
	f.Helper()
	if got := f.Ask(query); got != want {
		return fmt.Sprintf("%s is\n%s\nwant\n%s", query, got, want)
	}
	return ""
}

// Queries is anything that answers queries.
type Queries interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// Rows returns the rows of a query, with | between the cells.
func Rows(db Queries, query string) (all []string, err error) {
	rows, err := Cells(db, query)
	for _, cells := range rows {
		texts := make([]string, len(cells))
		for i, c := range cells {
			switch c := c.(type) {
			case nil:
				texts[i] = "NULL"
			case []byte:
				texts[i] = fmt.Sprintf("x'%x'", c)
			case float64:
				texts[i] = strconv.FormatFloat(c, 'g', -1, 64)
			default:
				texts[i] = fmt.Sprint(c)
			}
		}
		all = append(all, strings.Join(texts, "|"))
	}
	return all, err
}

// Cells returns the rows of a query.
func Cells(db Queries, query string) (all [][]any, err error) {
	rows, err := db.QueryContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	for err == nil && rows.Next() {
		cells, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		err = rows.Scan(into...)
		all = append(all, cells)
	}
	return all, errors.Join(err, rows.Err())
}
