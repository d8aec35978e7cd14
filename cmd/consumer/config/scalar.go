package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parse reads a scalar. Its error completes the sentence "KEY …" and does not
// repeat the text, which may be a secret.
type parse func(text string) (any, error)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,120}$`)

// name takes what may be the name of a queue, process or group.
func name(text string) (any, error) {
	if !namePattern.MatchString(text) {
		return nil, errors.New("must be 1 to 120 of the characters A-Z a-z 0-9 . _ -")
	}
	return text, nil
}

func anyText(text string) (any, error) { return text, nil }

func nonEmpty(text string) (any, error) {
	if text == "" {
		return nil, errors.New("must not be empty")
	}
	return text, nil
}

func keyPrefix(text string) (any, error) {
	if strings.ContainsAny(text, "{} \t\r\n") {
		return nil, errors.New("must not contain braces or spaces")
	}
	return text, nil
}

func boolean(text string) (any, error) {
	switch text {
	case "true", "True", "TRUE": // as YAML has them
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return nil, errors.New("must be true or false")
}

func integer(low, high int) parse {
	return func(text string) (any, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			if high == math.MaxInt32 {
				return nil, fmt.Errorf("must be a whole number, at least %d", low)
			}
			return nil, fmt.Errorf("must be a whole number from %d to %d", low, high)
		}
		return n, nil
	}
}

func number(low, high float64) parse {
	return func(text string) (any, error) {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || f < low || f > high {
			return nil, fmt.Errorf("must be a number from %v to %v", low, high)
		}
		return f, nil
	}
}

// longest keeps sums and products of durations far from overflow.
const longest = 10 * 365 * 24 * time.Hour

func duration(low time.Duration) parse {
	return func(text string) (any, error) {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return nil, errors.New("needs a unit: 500ms, 30s, 5m or 1h")
		}
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return nil, errors.New("must be a duration with a unit: 500ms, 30s, 5m or 1h")
		case d < low && low == 0:
			return nil, errors.New("must not be negative")
		case d < low:
			return nil, fmt.Errorf("must be at least %v", low)
		case d > longest:
			return nil, errors.New("must be at most ten years (87600h)")
		}
		return d, nil
	}
}

// whole reads a whole number of units, as the environment has them.
func whole(unit time.Duration, low int64) parse {
	return func(text string) (any, error) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < low || n > int64(longest/unit) {
			return nil, fmt.Errorf("must be a whole number from %d to %d", low, int64(longest/unit))
		}
		return time.Duration(n) * unit, nil
	}
}

// size reads a number of bytes, plain or with KiB, MiB or GiB.
func size(low int) parse {
	return func(text string) (any, error) {
		digits, shift := text, 0
		for i, unit := range []string{"KiB", "MiB", "GiB"} {
			if before, ok := strings.CutSuffix(text, unit); ok {
				digits, shift = strings.TrimSpace(before), 10*(i+1)
			}
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n > math.MaxInt>>shift || n<<shift < low {
			return nil, fmt.Errorf("must be a number of bytes, at least %d, plain or with KiB, MiB or GiB", low)
		}
		return n << shift, nil
	}
}

func oneOf(words ...string) parse {
	return func(text string) (any, error) {
		if slices.Contains(words, text) {
			return text, nil
		}
		return nil, errors.New("must be " + strings.Join(words, " or "))
	}
}

func hostPort(text string) (any, error) {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return nil, errors.New("must be host:port, for example 127.0.0.1:9090")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > math.MaxUint16 {
		return nil, errors.New("must end in a port from 0 to 65535")
	}
	return text, nil
}
