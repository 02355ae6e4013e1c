package postgres

import "context"

// Execute implements [sink.Housekeeper].
func (d *DB) Execute(ctx context.Context, sql string) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	s := &script{}
	s.addAll("BEGIN", briefly, block(sql), "COMMIT")
	_, err := d.run(ctx, s)
	if err == nil {
		return nil
	}
	if undo := d.rollback(context.WithoutCancel(ctx)); undo != nil {
		d.drop()
	}
	return d.sinkError(err)
}

// block returns a statement that executes SQL of the user's. In a DO block it may be several statements, and cannot end
// the transaction.
func block(sql string) string {
	return "DO " + literal("BEGIN EXECUTE "+literal(sql)+"; END")
}
