package cli

import (
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/progress"
)

// shownUnmet is how many fields that no message has had are named.
const shownUnmet = 10

// tellUnmet names the fields that options name and no message has had. One that is likely to be
// mistyped is a warning; others may just be missing from what this run has read.
func (e *env) tellUnmet(unmet []progress.Unmet) {
	var absent []string
	for i := range unmet {
		text, mistyped := unmetText(&unmet[i])
		if i == shownUnmet {
			absent = append(absent, fmt.Sprintf("and %d more", len(unmet)-i))
			break
		}
		if mistyped {
			e.log.Warn("no message had the field " + text)
		} else {
			absent = append(absent, text)
		}
	}
	if len(absent) > 0 {
		e.log.Info("no message had " + strings.Join(absent, ", "))
	}
}

// unmetText names such a field, and the one that it is likely to mean where mistyped is true.
func unmetText(u *progress.Unmet) (text string, mistyped bool) {
	meant := config.DidYouMean(u.Name, u.Beside)
	return fmt.Sprintf("%q (%s)%s", u.Field, u.Option, meant), meant != ""
}
