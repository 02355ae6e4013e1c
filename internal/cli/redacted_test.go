package cli

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/settings"
)

func TestRedacted_KnowsEveryFormOfAPassword(t *testing.T) {
	const canary = "c4nary"
	f := func(to, want string) {
		t.Helper()
		if got := settings.Redacted(to); got != want {
			t.Errorf("%s: %s, want %s", to, got, want)
		}
		for _, d := range drivers {
			if _, _, err := d.Parse(to); err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("%s: %v", to, err)
			}
		}
		plan := &settings.Plan{To: settings.Destination{Dest: to}, Mapping: &mapping.Mapping{}}
		if got := describeRun(&settings.Spec{}, plan).To; got != want {
			t.Errorf("%s: the page shows %s, want %s", to, got, want)
		}
	}
	f("flights.db", "flights.db")
	f("postgres://weir@db.example:5432/air?sslmode=require", "postgres://weir@db.example:5432/air?sslmode=require")
	f("host=db user=weir dbname=air", "host=db user=weir dbname=air")
	f("postgres://app:c4nary@db/air", "postgres://app:xxxxx@db/air")
	f("postgres://app:c4n@ry/c4nary@db/air", "postgres://app:xxxxx@db/air")
	f("postgres://app:12#c4nary@db/air", "postgres://app:xxxxx@db/air")
	f("postgres://app:12/c4nary@db/air", "postgres://app:xxxxx@db/air")
	f("postgres://app:c4nary?x@db/air", "postgres://app:xxxxx@db/air")
	f("postgres://app:c4nary@%zz/air", "postgres://app:xxxxx@%zz/air")
	f("postgres://app:c4nary@db:port/air", "postgres://app:xxxxx@db:port/air")
	f("postgres://db/air?user=app&password=c4nary&sslmode=require", "postgres://db/air?user=app&password=xxxxx&sslmode=require")
	f("postgres://db/air?pass%77ord=c4nary", "postgres://db/air?pass%77ord=xxxxx")
	f("postgres://db/air?sslkey=key.pem&sslpassword=c4nary", "postgres://db/air?sslkey=key.pem&sslpassword=xxxxx")
	f("host=db password=c4nary dbname=air", "host=db password=xxxxx dbname=air")
	f("host=db password = 'a c4nary' dbname=air", "host=db password = xxxxx dbname=air")
	f(`host=db password='a\' c4nary' port=x`, "host=db password=xxxxx port=x")
	f(`host=db password=a\ c4nary port=x`, "host=db password=xxxxx port=x")
	f("host=db password=a&c4nary'c4nary dbname=air", "host=db password=xxxxx dbname=air")
	f("host=db password=x://c4nary port=x", "host=db password=xxxxx port=x")
	f("password='c4nary", "password=xxxxx")
	f("host=db PASSWORD=c4nary", "host=db PASSWORD=xxxxx")
	f("postgres:host=db password=c4nary", "postgres:host=db password=xxxxx")
	f("postgres:app:c4nary@db/air", "postgres:xxxxx@db/air")
	f("postgres:/app:c4n@ry@db/air", "postgres:xxxxx@db/air")
	f("postgres//app:c4nary@db/air", "postgres//app:xxxxx@db/air")
}
