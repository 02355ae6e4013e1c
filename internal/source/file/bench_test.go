package file_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/testcheck"
)

func BenchmarkNext(b *testing.B) {
	data := bytes.Repeat(feed(10_000), 64<<20/len(feed(10_000))+1)[:64<<20]
	for _, c := range []struct {
		name string
		file []byte
	}{{"plain", data}, {"gzip", gz(b, data)}, {"zstd", zst(b, data)}} {
		b.Run(c.name, func(b *testing.B) {
			path := tempFile(b, c.file)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				s := open(b, path, source.Options{}, place{})
				readToEnd(b, s)
			}
		})
	}
}

// readToEnd reads a stream and closes it.
func readToEnd(b *testing.B, s *file.Stream) {
	for {
		block, err := s.Next(context.Background())
		if err == io.EOF {
			break
		}
		testcheck.NoError(b, err)
		block.Release()
	}
	s.Close()
}
