//go:build !race && !invariants

package source

func poison([]byte) {}
