// Package ladder writes a user's own messages into their database in seven ways, from a transaction
// for each message to weir, and advises on weir's settings. It writes next to the user's tables, in a
// folder or schema of its own, and removes what it wrote.
package ladder
