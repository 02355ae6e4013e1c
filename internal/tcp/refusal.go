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

// Alert returns the number of the TLS alert that the other end sent, 0 for other errors. crypto/tls does not export a
// type for it.
func Alert(err error) uint64 {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		if v := reflect.ValueOf(op.Err); v.Kind() == reflect.Uint8 {
			return v.Uint()
		}
	}
	return 0
}

// IsRefusal reports whether the other end permanently refuses TLS because of a version, a certificate or a name.
// Other alerts are about neither.
func IsRefusal(err error) bool {
	n := Alert(err)
	return n != 0 && n != alertInternalError && n != alertUserCanceled
}
