package spool

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestPlace: where a run begins in what is in the folder, by what the database knows.
func TestPlace(t *testing.T) {
	type held struct {
		begin int64
		lines string
	}
	four := held{0, "1\n2\n"}
	for name, c := range map[string]struct {
		log    held
		from   source.Cursor
		config Config // and what differs from the log's
		at     int64
		kept   bool   // the lines stay
		resume string // of the log afterwards
		warns  string
		fails  string
	}{
		"the checkpoint is within":                 {log: four, from: at("A", 2), at: 2, kept: true, resume: "r2"},
		"a power cut took what was committed":      {log: four, from: at("A", 9), at: 9, resume: "database"},
		"all was committed and removed":            {log: held{4, ""}, from: at("A", 4), at: 4, resume: "database"},
		"the folder is empty":                      {log: held{0, ""}, resume: "database"},
		"it is another job's":                      {log: four, config: Config{Job: "another"}, kept: true, fails: "sync them, or use another folder"},
		"nothing was committed yet":                {log: four, config: Config{Seq: 3}, kept: true, resume: "r2"},
		"the checkpoint is of another spool":       {log: four, from: at("B", 2), config: Config{Repeats: true}, resume: "database", warns: "the feed is asked again"},
		"the checkpoint was not of a spool":        {log: four, config: Config{Seq: 4, Repeats: true}, resume: "database", warns: "the feed is asked again"},
		"from the start":                           {log: four, config: Config{Seq: 3, FromStart: true}, resume: "database", warns: "the feed is asked again"},
		"from the start, with lines gone":          {log: held{10, "1\n2\n"}, config: Config{Seq: 3, FromStart: true}, resume: "database", warns: "the feed is asked again"},
		"the database is older, the feed repeats":  {log: held{10, "1\n2\n"}, from: at("A", 5), config: Config{Repeats: true}, resume: "database", warns: "the feed is asked again"},
		"the database is older, senders do not":    {log: held{10, "1\n2\n"}, from: at("A", 5), at: 10, kept: true, resume: "r2", warns: "the lines between are lost"},
		"the database is new, senders do not":      {log: held{10, "1\n2\n"}, config: Config{Seq: 3}, at: 10, kept: true, resume: "r2", warns: "the lines between are lost"},
		"lines were read without a spool meantime": {log: four, config: Config{Seq: 4}, kept: true, fails: "by themselves, or remove them"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, err := Folder(t.TempDir())
			testcheck.NoError(t, err)
			log, err := Open(folder, minSegment, 0)
			testcheck.NoError(t, err)
			defer log.Close()
			testcheck.NoError(t, log.Begin(Meta{ID: "A", Job: "job", Source: "feed", Seq: 3}, c.log.begin, "r0"))
			if c.log.lines != "" {
				if _, err := log.Append([]byte(c.log.lines), "r2"); err != nil {
					t.Fatal(err)
				}
			}
			config, warned := c.config, ""
			if config.Job == "" {
				config.Job = "job"
			}
			config.Source = "feed"
			config.Log = logtest.To(func(text string) { warned += text })
			got, err := place(log, &config, source.Point{Cursor: c.from, Resume: "database"}, "DIR")
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want an error with %q", err, c.fails)
				}
			} else if err != nil || got != c.at || log.Resume() != c.resume {
				t.Errorf("at %d, resume value %s, %v; want %d, %s", got, log.Resume(), err, c.at, c.resume)
			}
			if !strings.Contains(warned, c.warns) || c.warns == "" && warned != "" {
				t.Errorf("it warns %q, want %q", warned, c.warns)
			}
			if kept := log.Size() > 0; kept != c.kept {
				t.Errorf("the lines are kept: %v", kept)
			}
		})
	}
}

// at is the cursor of an offset in a log.
func at(id string, at int64) source.Cursor { return (&Queue{id: id}).cursor(at) }
