package tcp

import (
	"errors"
	"net"
	"reflect"
)

// Alerts of TLS.
const (
	alertInternalError = 80
	alertUserCanceled  = 90
	AlertCertRequired  = 116
)

// Alert is the number of what the other end said against TLS, 0 for other errors. crypto/tls
// has no type for it that others can name.
func Alert(err error) uint64 {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		if v := reflect.ValueOf(op.Err); v.Kind() == reflect.Uint8 {
			return v.Uint()
		}
	}
	return 0
}

// IsRefusal reports whether the other end refused TLS for a reason that stays: a version, a
// certificate, a name. Some alerts say nothing about what was agreed on.
func IsRefusal(err error) bool {
	n := Alert(err)
	return n != 0 && n != alertInternalError && n != alertUserCanceled
}
