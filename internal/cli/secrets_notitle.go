//go:build !linux && !darwin

package cli

// hideSecrets does nothing on systems where ps does not read the memory of args.
func hideSecrets([]string) {}
