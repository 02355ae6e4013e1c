package replay_test

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/replay"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// some accepts a number of bytes, and then stops the replay.
type some struct {
	bytes.Buffer
	most int
	stop context.CancelFunc
}

func (s *some) Flush() error { return nil }

// feed writes a text to a file.
func feed(t *testing.T, text string) (path string) {
	path = filepath.Join(t.TempDir(), "feed.jsonl")
	testcheck.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (s *some) Write(p []byte) (int, error) {
	if s.Len() >= s.most {
		s.stop()
	}
	return s.Buffer.Write(p)
}

// TestPlay_LoopResumes: a client resumes where it was, and then gets all lines again.
func TestPlay_LoopResumes(t *testing.T) {
	file := feed(t, `{"pitr":"100","id":1}`+"\n"+`{"pitr":"101","id":2}`+"\n")
	for resume, want := range map[string]string{
		"":    `{"pitr":"100","id":1} {"pitr":"101","id":2} {"pitr":"100","id":1} {"pitr":"101","id":2}`,
		"101": `{"pitr":"101","id":2} {"pitr":"100","id":1} {"pitr":"101","id":2}`,
	} {
		ctx, stop := context.WithCancel(t.Context())
		out := &some{most: 200, stop: stop}
		c := replay.Config{Files: []string{file}, TimeField: "pitr", ResumeField: "pitr", Speed: math.Inf(1), Loop: true}
		err := replay.Play(ctx, c, out, resume)
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.HasPrefix(got, want) {
			t.Errorf("from %q: %v\n%s, want\n%s", resume, err, got, want)
		}
		if err := replay.Play(t.Context(), c, out, "102"); err == nil || !strings.Contains(err.Error(), "no lines to send") {
			t.Errorf("from a value that no line has: %v", err)
		}
	}
}

// TestPlay_LoopKeepsThePace: each loop is sent at the recorded pace, a second after the one before it.
func TestPlay_LoopKeepsThePace(t *testing.T) {
	file := feed(t, `{"t":100}`+"\n"+`{"t":130}`+"\n")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		begun, out := time.Now(), &some{most: 5 * len(`{"t":100}`+"\n"), stop: stop}
		err := replay.Play(ctx, replay.Config{Files: []string{file}, TimeField: "t", Speed: 1, Loop: true}, out, "")
		if took := time.Since(begun); took != 92*time.Second || out.Len() != 6*len(`{"t":100}`+"\n") {
			t.Errorf("%v: %q after %v", err, out, took)
		}
	})
}

// TestPlay_StampsOnlyTheTime: everything around a time, and nested fields with its name, are unchanged.
func TestPlay_StampsOnlyTheTime(t *testing.T) {
	line := ` {"a":{"t":1,"b":[{"t":2},"\"}"]}, "t" : "%s-01-01T00:00:00Z" ,"c":[1]} ` + "\n"
	file := feed(t, strings.Replace(line, "%s", "2020", 1))
	synctest.Test(t, func(t *testing.T) { // whose time begins in 2000
		ctx, stop := context.WithCancel(t.Context())
		out := &some{most: len(line), stop: stop}
		err := replay.Play(ctx, replay.Config{Files: []string{file}, TimeField: "t", Speed: math.Inf(1), Stamp: true}, out, "")
		if want := strings.Replace(line, "%s", "2000", 1); err != nil || out.String() != want {
			t.Errorf("%v: %q, want %q", err, out, want)
		}
	})
}

// stalling accepts lines, but stalls for a minute after the first ten.
type stalling struct{ sent []time.Time }

func (s *stalling) Flush() error { return nil }

func (s *stalling) Write(p []byte) (int, error) {
	s.sent = append(s.sent, time.Now())
	if len(s.sent) == 10 {
		time.Sleep(time.Minute)
	}
	return len(p), nil
}

// TestPlay_RateAtEveryInstant: lines that a client did not read for a while are not sent all at once when it does.
func TestPlay_RateAtEveryInstant(t *testing.T) {
	file := feed(t, strings.Repeat(`{"id":1}`+"\n", 500))
	synctest.Test(t, func(t *testing.T) {
		out := &stalling{}
		testcheck.NoError(t, replay.Play(t.Context(), replay.Config{Files: []string{file}, Rate: 100}, out, ""))
		for i, from := range out.sent {
			for j, to := range out.sent[i:] {
				if most := 100*to.Sub(from).Seconds() + 6; float64(j) > most {
					t.Fatalf("%d lines within %v", j, to.Sub(from))
				}
			}
		}
		if took := out.sent[len(out.sent)-1].Sub(out.sent[0]); took < 64*time.Second || took > 66*time.Second {
			t.Errorf("500 lines took %v", took)
		}
	})
}
