package kafka

import "testing"

func BenchmarkAppendKey(b *testing.B) {
	for name, key := range map[string]string{"plain": `{"order_id":5,"line_no":1}`,
		"schema": `{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"order_id"},{"type":"int32","optional":false,"field":"line_no"}],"optional":false,"name":"mirror.shop.lines.Key"},"payload":{"order_id":5,"line_no":1}}`} {
		b.Run(name, func(b *testing.B) {
			keys, buf := newKeyReader(), []byte(nil)
			for b.Loop() {
				buf = keys.appendKey(buf[:0], []byte(key), "")
			}
		})
	}
}
