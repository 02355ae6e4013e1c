package postgres

import (
	"context"
	"fmt"
	"unicode/utf8"
)

// heldSQL leaves the characters beyond ASCII that the database's encoding holds in a
// setting; convert_from fails for others.
const heldSQL = `DO $$ DECLARE held text := ''; b bytea; BEGIN
 FOR i IN 128..65535 LOOP
  CONTINUE WHEN i BETWEEN 55296 AND 57343;
  b := CASE WHEN i < 2048 THEN set_byte(set_byte(decode('0000', 'hex'), 0, 192 + i/64), 1, 128 + i%64)
   ELSE set_byte(set_byte(set_byte(decode('000000', 'hex'), 0, 224 + i/4096), 1, 128 + i/64%64), 2, 128 + i%64) END;
  BEGIN held := held || convert_from(b, 'UTF8'); EXCEPTION WHEN OTHERS THEN NULL; END;
 END LOOP;
 PERFORM set_config('weir.held', held, true);
END $$`

// readHeld asks once which characters the database's encoding holds, where it is not all:
// a field whose name has another cannot become a column. It takes the server a second.
func (d *DB) readHeld(ctx context.Context) error {
	if d.unicode || d.characters != nil {
		return nil
	}
	r, err := d.query(ctx, heldSQL, "SELECT current_setting('weir.held')")
	if e := pgError(err); e != nil {
		d.opt.Log.Debug(fmt.Sprintf("which characters the database's encoding holds is not known: %s", e.Message))
		return nil
	}
	if err != nil {
		return err
	}
	d.characters = map[rune]bool{}
	for text := r[1].rows[0][0]; len(text) > 0; {
		c, size := utf8.DecodeRune(text)
		d.characters[c], text = true, text[size:]
	}
	return nil
}
