// Package torture has the tests that kill weir, its databases and its disks, and look
// whether anything is lost, doubled or out of step. docs/dev/measurements.md has what
// they found. The environment variable TORTURE multiplies how long they take.
package torture
