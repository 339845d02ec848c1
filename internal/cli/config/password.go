package config

import (
	"net/url"
	"strings"
)

// WithoutPassword hides the secrets of a URL. An unreadable URL may have them anywhere.
// Forges take a token for the user.
func WithoutPassword(s string) string {
	u, err := url.Parse(s)
	scheme, _, remote := strings.Cut(s, "://")
	switch {
	case err == nil && u.Opaque != "": // git:https://…
		outer, inner, _ := strings.Cut(s, ":")
		return outer + ":" + WithoutPassword(inner)
	case err != nil && remote:
		return scheme + "://…"
	case err != nil:
		return s
	case strings.Contains(u.RawQuery, "password"):
		pairs := strings.Split(u.RawQuery, "&")
		for i, pair := range pairs {
			if key, _, _ := strings.Cut(pair, "="); strings.Contains(key, "password") {
				pairs[i] = key + "=xxxxx"
			}
		}
		u.RawQuery = strings.Join(pairs, "&")
	case u.User == nil:
		return s
	case u.Scheme == "http" || u.Scheme == "https":
		u.User = url.User("xxxxx")
	}
	return u.Redacted()
}
