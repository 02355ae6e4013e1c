package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

// A Server plays the lines to each client that connects.
type Server struct {
	Config
	// Init must match the first line of a client. Its group "resume" is the resume value. Its group "compression" is
	// gzip, zlib (or compress) or deflate. If Init is nil, no first line is read.
	Init        *regexp.Regexp
	Compression string // if Init does not say: "", gzip, zlib or deflate
}

const (
	initTimeout = 10 * time.Second
	maxInit     = 64 << 10 // bytes
	sendBuffer  = 64 << 10 // bytes
)

// Serve accepts clients from l until ctx ends. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		clients.Go(func() {
			client, end := context.WithCancel(ctx)
			defer end()
			// A client that reads nothing must block neither the other clients nor shutdown.
			defer context.AfterFunc(client, func() { _ = conn.Close() })()
			s.Log.Info(fmt.Sprintf("%s connected", conn.RemoteAddr()))
			err := s.client(client, conn)
			_ = conn.Close()
			switch {
			case ctx.Err() != nil:
				err = errors.New("disconnected, because the replay was stopped")
			case err == nil:
				err = errors.New("all was sent")
			}
			s.Log.Info(fmt.Sprintf("%s: %v", conn.RemoteAddr(), err))
		})
	}
}

func (s *Server) client(ctx context.Context, conn net.Conn) error {
	resume, compression := "", s.Compression
	if s.Init != nil {
		line, err := readLine(conn)
		if err != nil {
			return fmt.Errorf("reading its first line: %w", err)
		}
		match := s.Init.FindStringSubmatch(line)
		if match == nil {
			_, err := io.WriteString(conn, `{"type":"error","error_msg":"the first line does not match"}`+"\n")
			return errors.Join(errors.New("its first line does not match --init"), err)
		}
		for i, name := range s.Init.SubexpNames() {
			switch {
			case name == "resume":
				resume = match[i]
			case name == "compression" && match[i] != "":
				compression = match[i]
			}
		}
	}
	return Send(ctx, s.Config, conn, compression, resume)
}

// readLine reads a line byte by byte, so it consumes nothing after it.
func readLine(conn net.Conn) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(initTimeout)); err != nil {
		return "", err
	}
	var line strings.Builder
	for b := make([]byte, 1); line.Len() < maxInit; line.WriteByte(b[0]) {
		if _, err := io.ReadFull(conn, b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return strings.TrimSuffix(line.String(), "\r"), conn.SetReadDeadline(time.Time{})
		}
	}
	return "", errors.New("the first line is too long")
}

// sender buffers lines before they are compressed and sent.
type sender struct {
	*bufio.Writer
	z interface { // nil: no compression
		flusher
		io.Closer
	}
}

// Close ends the compressed stream.
func (s *sender) Close() error {
	err := s.Flush()
	if s.z != nil {
		err = errors.Join(err, s.z.Close())
	}
	return err
}

func (s *sender) Flush() error {
	err := s.Writer.Flush()
	if err == nil && s.z != nil {
		err = s.z.Flush()
	}
	return err
}

// Send is [Play] to a writer, with compression; "" and "none" send plain lines.
func Send(ctx context.Context, c Config, w io.Writer, compression, resume string) error {
	out, err := compressed(w, compression)
	if err != nil {
		return err
	}
	if err := Play(ctx, c, out, resume); err != nil {
		return err
	}
	return out.Close()
}

func compressed(w io.Writer, how string) (*sender, error) {
	switch how {
	case "", "none":
		return &sender{Writer: bufio.NewWriterSize(w, sendBuffer)}, nil
	case "gzip":
		z := gzip.NewWriter(w)
		return &sender{bufio.NewWriterSize(z, sendBuffer), z}, nil
	case "zlib", "compress":
		z := zlib.NewWriter(w)
		return &sender{bufio.NewWriterSize(z, sendBuffer), z}, nil
	case "deflate":
		z, err := flate.NewWriter(w, flate.DefaultCompression)
		return &sender{bufio.NewWriterSize(z, sendBuffer), z}, err
	}
	return nil, fmt.Errorf("unknown compression %q", how)
}
