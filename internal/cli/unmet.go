package cli

import (
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/progress"
)

// shownUnmet is the maximum number of fields that are named.
const shownUnmet = 10

// logUnmet names the fields that options name and no message had. It warns if a field is probably mistyped; others may
// just be missing from the input of this run.
func (e *env) logUnmet(unmet []progress.Unmet) {
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

// unmetText describes such a field. If it is probably mistyped, the text suggests the right one.
func unmetText(u *progress.Unmet) (text string, mistyped bool) {
	meant := config.DidYouMean(u.Name, u.Siblings)
	return fmt.Sprintf("%q (%s)%s", u.Field, u.Option, meant), meant != ""
}
