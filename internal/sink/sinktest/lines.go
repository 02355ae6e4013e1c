package sinktest

import (
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A Mapper makes changes of lines whose fields are the row.
type Mapper struct {
	deletes, version int32 // numbers of the fields; -1 for none
	value            string
}

// NewMapper returns a mapper for lines that were scanned with names. deleteWhen is FIELD=VALUE or "".
func NewMapper(names *feed.Names, o fold.Options, deleteWhen string) *Mapper {
	m := &Mapper{deletes: -1, version: -1}
	if field, value, ok := strings.Cut(deleteWhen, "="); ok {
		m.deletes, m.value = names.Number(field), value
	}
	if o.Version != "" {
		m.version = names.Number(o.Version)
	}
	return m
}

// Map returns the change that a line makes.
func (m *Mapper) Map(l *feed.Line) fold.Change {
	c := fold.Change{Fields: l.Fields, Unnumbered: l.Unnumbered, Text: l.Text}
	if f := l.Field(m.version); m.version >= 0 && f != nil {
		c.Version = *f
	}
	if f := l.Field(m.deletes); m.deletes >= 0 && f != nil && string(feed.Text(nil, f.Value, f.Kind)) == m.value && (f.Kind == feed.Null || m.value != "null") || l.Deletes {
		c.Op = fold.Delete
	}
	return c
}

// A Folder folds lines whose fields are the row.
type Folder struct {
	*fold.Folder
	folders fold.Folders // it alone
	mapper  *Mapper
	scan    *feed.Scanner
	fields  []feed.Field // buffer
	set     fold.Set     // of the batch that was folded into last
	changes [1]fold.TableChange
}

// NewFolder is [fold.NewFolder] for lines. deleteWhen is FIELD=VALUE or "".
func NewFolder(t schema.Table, o fold.Options, deleteWhen string) *Folder {
	names := &feed.Names{}
	o.Deletes = o.Deletes || deleteWhen != ""
	f := fold.NewFolder(names, t, o)
	return &Folder{Folder: f, folders: fold.Folders{f}, mapper: NewMapper(names, o, deleteWhen), scan: feed.NewScanner(names)}
}

// Fold merges a line into a batch.
func (f *Folder) Fold(b *fold.Batch, text []byte, at fold.Place) error {
	var l feed.Line
	if f.fields = l.Scan(f.scan, f.fields[:0], text); l.Err != nil {
		return l.Err
	}
	if f.set.Batches == nil || f.set.Batches[0] != b {
		f.set = fold.Set{Batches: []*fold.Batch{b}, Unsplit: true}
	}
	f.changes[0].Change = f.mapper.Map(&l)
	_, err := f.folders.Add(&f.set, f.changes[:], at)
	return err
}
