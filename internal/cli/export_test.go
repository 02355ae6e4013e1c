package cli

import (
	"fmt"
	"strings"
)

// Parses parses the arguments of weir. whole also checks the number of operands.
func Parses(args []string, whole bool) error {
	root := newEnv().root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if c == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("there is no command %s", rest[0])
	}
	if err := c.ParseFlags(rest); err != nil || !whole {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}
