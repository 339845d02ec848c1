// Package schedule says when jobs fire: the first fire time of a cron
// expression after an instant, with a rule for clocks that change.
package schedule
