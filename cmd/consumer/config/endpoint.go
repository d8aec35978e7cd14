package config

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/internal/nearest"
)

// scheme is what a transport's URL may begin with.
type scheme struct {
	prefix string // redis://, embedded://redis
	family string // the process section that belongs to it
	built  bool
}

func schemes(further []string) []scheme {
	all := []scheme{
		{"redis://", "redis", true},
		{"rediss://", "redis", true},
		{"embedded://redis", "redis", true},
		{"redis+sentinel://", "redis", false},
		{"redis+cluster://", "redis", false},
		{"amqp://", "amqp", false},
		{"amqps://", "amqp", false},
		{"kafka://", "kafka", false},
		{"kafka+tls://", "kafka", false},
		{"embedded://kafka", "kafka", false},
	}
	for _, s := range further {
		if !slices.ContainsFunc(all, func(k scheme) bool { return k.prefix == s+"://" }) {
			all = append(all, scheme{s + "://", s, true})
		}
	}
	return all
}

// findScheme matches a URL that endpointURL took.
func findScheme(all []scheme, address string) scheme {
	for _, s := range all {
		if address == s.prefix || strings.HasSuffix(s.prefix, "://") && strings.HasPrefix(address, s.prefix) {
			return s
		}
	}
	return scheme{}
}

// endpointURL checks a transport's URL. No fault shows a part of it that may be
// a password; url.Parse's own errors would.
func endpointURL(all []scheme) parse {
	return func(text string) (any, error) {
		word, rest, ok := strings.Cut(text, "://")
		if !ok {
			return nil, errors.New("has no scheme: write for example redis://127.0.0.1:6379/0")
		}
		s := findScheme(all, text)
		switch {
		case s.prefix == "" && word == "embedded":
			return nil, errors.New("must be embedded://redis or embedded://kafka")
		case s.prefix == "":
			return nil, unknownScheme(word, all)
		case s.family != "redis" || strings.HasPrefix(text, "embedded:"):
			return text, nil
		}
		if rest == "" || strings.HasPrefix(rest, "/") {
			return nil, errors.New("has no host: write for example redis://127.0.0.1:6379/0")
		}
		if s.built {
			return text, redisURL(text)
		}
		return text, nil
	}
}

func redisURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("is not a valid URL; special characters in the password must be percent-encoded (@ is %40, / is %2F, # is %23)")
	}
	if u.Hostname() == "" {
		return errors.New("has no host: write for example redis://127.0.0.1:6379/0")
	}
	if strings.Contains(u.Host, ",") {
		return errors.New("has several hosts, as only redis+sentinel:// and redis+cluster:// do")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > math.MaxUint16 {
			return errors.New("must have a port from 1 to 65535")
		}
	}
	if db := strings.Trim(u.Path, "/"); strings.Trim(db, "0123456789") != "" {
		return errors.New("must end in the number of a database, for example /0")
	}
	if _, err := redis.ParseURL(text); err != nil {
		what := strings.TrimPrefix(err.Error(), "redis: ")
		if !strings.HasPrefix(what, "unexpected option") {
			what, _, _ = strings.Cut(what, ": ") // without the value
		}
		return fmt.Errorf("has a wrong parameter: %s", what)
	}
	return nil
}

func unknownScheme(word string, all []scheme) error {
	known := make([]string, len(all))
	for i, s := range all {
		known[i], _, _ = strings.Cut(s.prefix, "://")
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if !namePattern.MatchString(strings.ReplaceAll(word, "+", "-")) || len(word) > 20 {
		return fmt.Errorf("has an unknown scheme; known are %s", strings.Join(known, ", "))
	}
	if best, ok := nearest.Of(word, known); ok {
		return fmt.Errorf("has the unknown scheme %q; did you mean %q?", word, best)
	}
	return fmt.Errorf("has the unknown scheme %q; known are %s", word, strings.Join(known, ", "))
}

// httpURL checks where an http handler posts to.
func httpURL(text string) (any, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("must be an http:// or https:// URL with a host")
	}
	return text, nil
}
