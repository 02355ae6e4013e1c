package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/sink"
)

// lackingSQL returns a query for what the role must be granted to write weir's own tables, and tables of a job, and to
// stage rows in a temporary one.
func (c *client) lackingSQL(wanted []sink.TableKey) string {
	lacks := func(function, of string, privileges ...string) string {
		return fmt.Sprintf("NOT (SELECT bool_and(%s(%s, p)) FROM unnest(ARRAY['%s']) p)", function, of, strings.Join(privileges, "', '"))
	}
	grant := func(schemaName, table, lacks, names string) string {
		return fmt.Sprintf("CASE WHEN to_regclass(%s) IS NULL THEN (SELECT %s FROM pg_namespace WHERE nspname = %s AND NOT has_schema_privilege(oid, 'CREATE'))\n  WHEN %s THEN %s END",
			literal(identOf(schemaName, table)), literal("USAGE, CREATE ON SCHEMA "+ident(schemaName)), literal(schemaName), lacks, literal("SELECT, INSERT, UPDATE, DELETE ON TABLE "+names))
	}
	all := []string{grant(c.current, "weir_meta", fmt.Sprintf("EXISTS (SELECT FROM unnest(string_to_array(%s, ', ')) t WHERE %s)", literal(ownTables),
		lacks("has_table_privilege", literal(c.schema+".")+" || t", "SELECT", "INSERT", "UPDATE", "DELETE")), ownTables)}
	for _, w := range wanted {
		needs := []string{"SELECT", "INSERT", "UPDATE"}
		if w.Key != nil && len(w.Key) == 0 {
			needs = needs[1:2]
		}
		schemaName, table := c.schemaOf(w.Name)
		name := identOf(schemaName, table)
		all = append(all, grant(schemaName, table, lacks("has_any_column_privilege", "to_regclass("+literal(name)+")", needs...), name))
	}
	all = append(all, "CASE WHEN NOT has_database_privilege(current_database(), 'TEMP') THEN 'TEMP ON DATABASE ' || quote_ident(current_database()) END")
	return "SELECT " + strings.Join(all, ",\n  ")
}

// lacking returns an error with all GRANTs of the answer to lackingSQL, or nil.
func (c *client) lacking(answer [][]byte) error {
	var grants []string
	for _, what := range answer {
		if grant := fmt.Sprintf("GRANT %s TO %s", what, ident(c.config.User)); what != nil && !slices.Contains(grants, grant) {
			grants = append(grants, grant)
		}
	}
	if grants == nil {
		return nil
	}
	also := ""
	if answer[0] != nil {
		also = ", also for the tables that weir keeps (" + ownTables + ")"
	}
	return &sink.Error{Class: sink.Permanent, Reason: "permission",
		Err: fmt.Errorf("%s: role %s lacks permissions%s: %s", c.where(), c.config.User, also, strings.Join(grants, "; "))}
}
