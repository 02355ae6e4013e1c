package settings

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/feed"
)

// A constant is a raw JSON value.
type constant []byte

// maxConstant is the maximum number of nodes in a constant. An alias can stand for itself, or for many nodes.
const maxConstant = 10_000

// appendJSON appends a value as JSON. An unquoted text that is a JSON number, true, false or null keeps its type. All
// other texts are strings, including on, 0100 and 2024-01-01.
func appendJSON(dst []byte, n *yaml.Node, budget *int) ([]byte, error) {
	if *budget--; *budget < 0 {
		return nil, fmt.Errorf("the value has more than %d parts", maxConstant)
	}
	var err error
	switch n = resolved(n); n.Kind {
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, item := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, item, budget); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, ok := text(resolved(n.Content[i]))
			if !ok {
				return nil, errors.New("the name of a member must be a text")
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(feed.AppendString(dst, name), ':')
			if dst, err = appendJSON(dst, n.Content[i+1], budget); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	v, ok := text(n)
	switch {
	case !ok:
		return nil, fmt.Errorf("must be a value, not %s", kindOf(n))
	case isNull(n):
		return append(dst, "null"...), nil
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0:
		if _, number := feed.IsNumber([]byte(v)); number || v == "true" || v == "false" {
			return append(dst, v...), nil
		}
	}
	return feed.AppendString(dst, v), nil
}
