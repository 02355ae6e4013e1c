package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/sink"
)

// A finding is what config check --connect has found about the database, a table or a source.
type finding struct {
	About string `json:"about"`
	Text  string `json:"text"`
	OK    bool   `json:"ok"` // a run does not fail because of it
}

type findings []finding

// err returns an error that counts the faults, or nil.
func (all findings) err() error {
	n := int64(0)
	for _, f := range all {
		if !f.OK {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("a run would fail: %s", quantity.Count(n, "fault"))
}

// connect does what a run of a config file does before it reads, and returns what it finds.
func (e *env) connect(ctx context.Context, file string) (all findings, err error) {
	o := e.newSpec()
	o.File = file
	_, _ = o.Load() // the plan returns its error with all others
	plan, err := o.Plan(nil)
	if err != nil {
		return nil, err
	}
	var found func(about, text string, err error)
	found = func(about, text string, err error) {
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range several.Unwrap() {
				found(about, "", err)
			}
			return
		}
		if err != nil {
			text = strings.NewReplacer(":\n    ", ": ", "\n  ", "; ").Replace(err.Error())
		}
		all = append(all, finding{about, text, err == nil})
	}
	to, read, claims := plan.To, sink.ReadTables(nil), sink.Claims(nil)
	shown := "database " + to.Shown()
	options := o.SinkOptions(readerCache, e.log)
	if files := to.Files(to.Dest); len(files) > 0 && isEmpty(files[0]) {
		found(shown, "is missing: a run creates it", mayCreate(files[0]))
		read = sink.NoTables
	} else if db, failed := to.Open(ctx, to.Dest, options); failed != nil {
		found(shown, "", failed)
	} else {
		defer func() { err = errors.Join(err, db.Close()) }()
		found(shown, "can be written", nil)
		opened, failed := to.OpenClaims(ctx, to.Dest, plan.Job.Job, options)
		if failed != nil {
			return all, failed
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		if at, failed := plan.AtDatabase(ctx, db.Tables); failed != nil {
			found("tables", "", failed)
		} else {
			plan, read, claims = at, db.Tables, opened
		}
	}
	plan.Job.Log = e.log
	pipeline.Check(ctx, plan.Job, to.Caps, read, claims, found)
	return all, nil
}

// isEmpty reports whether a database file must be created.
func isEmpty(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0
}

// mayCreate returns an error if no file can be created beside a path.
func mayCreate(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".weir-")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	return err
}
