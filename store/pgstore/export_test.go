package pgstore

import "github.com/tasklock/tasklock/store/driver"

// Turn is the advisory lock of whoever commits.
func Turn(schema string) int64 { return newNames(schema).turn }

// Create is the advisory lock of whoever makes or upgrades the schema.
func Create(schema string) int64 { return newNames(schema).create }

// Listen is the advisory lock that listeners share.
func Listen(schema string) int64 { return newNames(schema).listen }

// Plan is the SQL that shows what the server does for a range.
func Plan(schema string, r driver.Range) string {
	settings, values := "", ""
	for _, set := range planOnce {
		settings += "SET " + set[0] + " = " + set[1] + ";"
	}
	for _, p := range append([][]byte{textArray([]string{""})}, bounds([]driver.Range{r})...) {
		values += "," + literal(string(p))
	}
	return settings + "PREPARE page AS " + newNames(schema).scan + "; EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) EXECUTE page (" + values[1:] + ")"
}
