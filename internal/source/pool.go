package source

import "sync"

const blockSize = 256 << 10 // bytes of a block, unless one line is longer

// A Pool lends blocks to streams. Any number of streams may share one.
type Pool struct {
	size int // bytes of a block, unless one line is longer
	most int // size of the largest block kept; at most 4 of these are kept

	mu     sync.Mutex
	blocks [][]byte
	bytes  int // total size of blocks
}

// NewPool returns an empty pool. It keeps at most 4 MiB.
func NewPool() *Pool { return NewPoolOf(blockSize, 4*blockSize) }

// NewPoolOf returns an empty pool of blocks of size bytes. It keeps blocks of up to most bytes.
func NewPoolOf(size, most int) *Pool { return &Pool{size: size, most: most} }

// Size returns the size of a new block in bytes.
func (p *Pool) Size() int { return p.size }

// Block returns an empty block.
func (p *Pool) Block() *Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.blocks) - 1
	if n < 0 {
		return &Block{pool: p, Buf: make([]byte, p.size)}
	}
	buf := p.blocks[n]
	p.blocks, p.bytes = p.blocks[:n], p.bytes-len(buf)
	return &Block{pool: p, Buf: buf}
}

// Fill returns a block of lines that come from no stream. fill writes whole lines to a buffer and returns their length,
// or 0 if the buffer is too small for one.
func (p *Pool) Fill(fill func(buf []byte) (int, error)) (*Block, error) {
	b := p.Block()
	for {
		n, err := fill(b.Buf)
		if err != nil {
			p.put(b)
			return nil, err
		}
		if n > 0 {
			b.Data = b.Buf[:n]
			return b, nil
		}
		b.Buf = make([]byte, 2*len(b.Buf))
	}
}

func (p *Pool) put(b *Block) {
	poison(b.Buf)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(b.Buf); n > 0 && n <= p.most && p.bytes+n <= 4*p.most {
		p.blocks, p.bytes = append(p.blocks, b.Buf), p.bytes+n
	}
}
