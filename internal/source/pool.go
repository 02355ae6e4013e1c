package source

import (
	"bufio"
	"io"
	"sync"
)

// pooledReaders is how many readers a Pool keeps: a compressed file needs two.
const pooledReaders = 8

// A Pool lends memory to streams, so that a file that is opened after another one was closed
// takes no more of its own. Any number of streams may share one.
type Pool struct {
	size int // bytes of a block unless one line is longer
	most int // bytes of the largest block that is kept; 4 of these are

	mu      sync.Mutex
	blocks  [][]byte
	bytes   int // of blocks
	readers []*bufio.Reader
}

// NewPool returns an empty pool. It keeps at most 4.5 MiB.
func NewPool() *Pool { return newPool(blockSize, recycleMax) }

func newPool(size, most int) *Pool { return &Pool{size: size, most: most} }

// block returns an empty block.
func (p *Pool) block() *Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.blocks) - 1
	if n < 0 {
		return &Block{pool: p, buf: make([]byte, p.size)}
	}
	buf := p.blocks[n]
	p.blocks, p.bytes = p.blocks[:n], p.bytes-len(buf)
	return &Block{pool: p, buf: buf}
}

// Fill returns a block of lines that no stream has read: fill writes whole lines to a buffer, and
// returns their bytes, or 0 where it is too small for one.
func (p *Pool) Fill(fill func(buf []byte) (int, error)) (*Block, error) {
	b := p.block()
	for {
		n, err := fill(b.buf)
		if err != nil {
			p.put(b)
			return nil, err
		}
		if n > 0 {
			b.Data = b.buf[:n]
			return b, nil
		}
		b.buf = make([]byte, 2*len(b.buf))
	}
}

// Release gives b's memory back. Nothing of b may be used after it.
func (b *Block) Release() {
	if b.pool != nil {
		b.pool.put(b)
	}
}

func (p *Pool) put(b *Block) {
	poison(b.buf)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(b.buf); n > 0 && n <= p.most && p.bytes+n <= 4*p.most {
		p.blocks, p.bytes = append(p.blocks, b.buf), p.bytes+n
	}
}

// reader returns a reader of r with a buffer of readSize.
func (p *Pool) reader(r io.Reader) *bufio.Reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.readers) - 1
	if n < 0 {
		return bufio.NewReaderSize(r, readSize)
	}
	br := p.readers[n]
	p.readers = p.readers[:n]
	br.Reset(r)
	return br
}

// putReader takes a reader back.
func (p *Pool) putReader(br *bufio.Reader) {
	br.Reset(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.readers) < pooledReaders {
		p.readers = append(p.readers, br)
	}
}
