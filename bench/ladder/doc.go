// Package ladder writes a user's own messages into their database in seven ways, from a transaction per message to
// weir, and gives advice on weir's settings. It writes next to the user's tables, in a separate folder or schema, and
// removes what it wrote.
package ladder
