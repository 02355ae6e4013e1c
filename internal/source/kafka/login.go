package kafka

import (
	"context"
	"fmt"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// mechanism is how a client says who it is, nil for not at all.
func mechanism(k *Options) sasl.Mechanism {
	password := func(context.Context) (scram.Auth, error) {
		user, password, err := k.Login()
		return scram.Auth{User: user, Pass: password}, err
	}
	switch k.SASL {
	case "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			user, password, err := k.Login()
			return plain.Auth{User: user, Pass: password}, err
		})
	case "scram-sha-256":
		return scram.Sha256(password)
	case "scram-sha-512":
		return scram.Sha512(password)
	case "oauthbearer":
		return bearer{oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			_, token, err := k.Login()
			return oauth.Auth{Token: token}, err
		})}
	}
	return nil
}

// bearer is a login by a token. A broker that does not take it answers with the reason.
type bearer struct{ sasl.Mechanism }

func (m bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	s, first, err := m.Mechanism.Authenticate(ctx, host)
	return bearerSession{s}, first, err
}

type bearerSession struct{ sasl.Session }

func (s bearerSession) Challenge(answer []byte) (done bool, next []byte, err error) {
	if done, next, err = s.Session.Challenge(answer); err != nil {
		err = loginError{fmt.Errorf("the broker does not take the token: %s", answer)}
	}
	return done, next, err
}

// A loginError is that of a user name, a password or a token that cannot be read.
type loginError struct{ error }

func (e loginError) Unwrap() error { return e.error }
