package pgstore

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/store/driver"
)

// DefaultSchema holds the records unless the URL names another.
const DefaultSchema = "tasklock"

// maxSchema is the longest name that PostgreSQL does not cut.
const maxSchema = 63

// parse reads a connection string. The parser's errors may quote the string with
// a password in an unexpected place: so parse does not pass them on.
func parse(text string) (cfg *pgconn.Config, schema string, err error) {
	cfg, err = pgconn.ParseConfig(text)
	if err != nil {
		return nil, "", invalidURL("cannot be read" + reason(err) + "; it is postgres://USER@HOST:PORT/DATABASE?schema=NAME, with special characters as %XX")
	}
	schema = cfg.RuntimeParams["schema"]
	delete(cfg.RuntimeParams, "schema")
	if schema == "" {
		schema = DefaultSchema
	}
	if len(schema) > maxSchema || strings.ContainsFunc(schema, func(r rune) bool { return r < ' ' || strings.ContainsRune(`'\$@`, r) }) {
		return nil, "", invalidURL(fmt.Sprintf("must have as schema a name of at most %d bytes, without ' \\ $ and @", maxSchema))
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "tasklock"
	}
	if cfg.ValidateConnect == nil && several(cfg) { // one may be a standby, whose answers are old
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	// Our literals rely on these. Poolers know and keep both.
	cfg.RuntimeParams["client_encoding"] = "UTF8"
	cfg.RuntimeParams["standard_conforming_strings"] = "on"
	return cfg, schema, nil
}

// An invalidURL is a malformed URL. It is driver.ErrInvalid.
type invalidURL string

func (e invalidURL) Error() string { return "the PostgreSQL URL " + string(e) }

// Is makes errors.Is(err, driver.ErrInvalid) true.
func (e invalidURL) Is(target error) bool { return target == driver.ErrInvalid }

// several reports whether more than one server is named.
func several(cfg *pgconn.Config) bool {
	return slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != cfg.Host || f.Port != cfg.Port })
}

// reason is the part of a parse error that cannot quote the string.
func reason(err error) string {
	var number *strconv.NumError
	var file *os.PathError
	switch {
	case errors.As(err, &file):
		return ": " + file.Error()
	case errors.As(err, &number):
		return ": a number is none"
	}
	for _, word := range []string{"service", "sslmode", "sslrootcert", "target_session_attrs", "host", "port"} {
		if msg := errors.Unwrap(err); msg != nil && strings.Contains(msg.Error(), word) {
			return ": look at " + word
		}
	}
	return ""
}

// place names the store, without secrets.
func place(cfg *pgconn.Config, schema string) string {
	host := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	if strings.HasPrefix(cfg.Host, "/") {
		host = cfg.Host
	}
	return fmt.Sprintf("schema %s of database %s at %s", schema, cfg.Database, host)
}

// administration is the URL of the same place for the role ADMIN.
func administration(cfg *pgconn.Config, schema string) string {
	port, options := strconv.Itoa(int(cfg.Port)), url.Values{"schema": {schema}}
	u := url.URL{Scheme: "postgres", User: url.User("ADMIN"), Host: net.JoinHostPort(cfg.Host, port), Path: "/" + cfg.Database}
	if strings.HasPrefix(cfg.Host, "/") { // the folder of a socket
		u.Host = ""
		options.Set("host", cfg.Host)
		options.Set("port", port)
	}
	u.RawQuery = options.Encode()
	return u.String()
}

// names are the SQL names of one store.
type names struct {
	schema string // as it is
	quoted string // as an identifier, of the channel too
	text   string // as a literal
	turn   int64  // advisory lock of the session that commits
	listen int64  // advisory lock that listeners share
	create int64  // advisory lock of the session that changes the schema
	greet  string
	read   string
	scan   string

	durable map[string]string // statements, by what the role may do
	save    string            // a call of the procedure
}

func newNames(schema string) names {
	n := names{schema: schema, quoted: `"` + strings.ReplaceAll(schema, `"`, `""`) + `"`}
	n.text = literal(schema)
	n.turn, n.listen, n.create = advisory("turn", schema), advisory("listen", schema), advisory("create", schema)
	for to, sql := range map[*string]string{&n.greet: strings.ReplaceAll(sqlGreet, "@settings", settings()), &n.read: sqlRead, &n.scan: sqlRead + sqlRanges} {
		*to = n.sql(sql)
	}
	n.durable = map[string]string{"sequence": n.sql(fmt.Sprintf(sqlDurable, sqlSequence)), "message": fmt.Sprintf(sqlDurable, sqlMessage)}
	n.save = n.sql(sqlSave())
	return n
}

// sql puts the schema's name in place of "@".
func (n names) sql(text string) string { return strings.ReplaceAll(text, "@", n.quoted) }

// advisory numbers a lock of ours among all those of a database.
func advisory(what, schema string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("tasklock " + what + " " + schema))
	return int64(h.Sum64())
}

// literal quotes a text for SQL, with standard_conforming_strings on.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
