package core

import (
	"regexp"
	"strings"
	"testing"
)

func TestMatchTypeTakesAStarForAnyRunOfCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, jobType string
		want             bool
	}{
		{"order.paid", "order.paid", true},
		{"order.paid", "order.paid.x", false},
		{"order.*", "order.", true},
		{"order.*", "order.paid.notify", true},
		{"order.*", "order", false},
		{"*", "", true},
		{"*", "anything.at.all", true},
		{"*.paid", "order.paid", true},
		{"*.paid", "order.paid.x", false},
		{"a*b*c", "abc", true},
		{"a*b*c", "a1b2b3c", true},
		{"a*b*c", "acb", false},
		{"a*a", "a", false}, // the ends must not overlap
		{"a*a", "aa", true},
		{"a**b", "ab", true},
		{"*ab", "aab", true},
		{"x*ab*ab", "xab", false},
		{"订单.*", "订单.支付", true},
		{"Order.*", "order.paid", false},
	} {
		if got := MatchType(c.pattern, c.jobType); got != c.want {
			t.Errorf("MatchType(%q, %q) = %v", c.pattern, c.jobType, got)
		}
	}
}

func TestPatternsMeetWhenSomeTypeMatchesBoth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"order.*", "order.paid", true},
		{"order.*", "user.*", false},
		{"order.*", "*.paid", true},
		{"order.*.a", "order.*.b", false},
		{"order.*x", "order.*yx", true},
		{"a", "a", true},
		{"a", "b", false},
		{"*", "b", true},
		{"a*b*c", "a*x*c", true},
		{"or*", "order.*", true},
	} {
		if patternsMeet(c.a, c.b) != c.want || patternsMeet(c.b, c.a) != c.want {
			t.Errorf("patternsMeet(%q, %q) is not %v both ways", c.a, c.b, c.want)
		}
	}
}

func TestPatternsAgreeWithRegularExpressions(t *testing.T) {
	t.Parallel()
	patterns, types := words("ab*", 4), words("ab", 8)
	matches := make([][]bool, len(patterns))
	for i, pattern := range patterns {
		expression := regexp.MustCompile("^" + strings.ReplaceAll(pattern, "*", ".*") + "$")
		matches[i] = make([]bool, len(types))
		for k, jobType := range types {
			matches[i][k] = MatchType(pattern, jobType)
			if want := expression.MatchString(jobType); matches[i][k] != want {
				t.Fatalf("MatchType(%q, %q) is not %v", pattern, jobType, want)
			}
		}
	}
	for i, a := range patterns {
		for j, b := range patterns {
			both := false
			for k := range types {
				both = both || matches[i][k] && matches[j][k]
			}
			if patternsMeet(a, b) != both {
				t.Fatalf("patternsMeet(%q, %q) is not %v", a, b, both)
			}
		}
	}
}

// words lists every word of up to longest letters.
func words(letters string, longest int) []string {
	all := []string{""}
	for start := 0; longest > 0; longest-- {
		end := len(all)
		for _, word := range all[start:end] {
			for _, letter := range letters {
				all = append(all, word+string(letter))
			}
		}
		start = end
	}
	return all
}

func TestPatternTableFindsTheMostLiteralPattern(t *testing.T) {
	t.Parallel()
	var table patternTable[string]
	for _, pattern := range []string{"*", "order.*", "order.paid.*", "order.paid", "*.paid.x.*.y", "order.*.a"} {
		err := table.add(pattern, "value of "+pattern)
		// "*" ties with "*.paid.x.*.y", and "order.*" with "order.*.a".
		if tied := pattern == "*.paid.x.*.y" || pattern == "order.*.a"; (err != nil) != tied {
			t.Errorf("add %q: %v", pattern, err)
		}
	}
	for jobType, want := range map[string]string{
		"order.paid":        "order.paid",
		"order.paid.notify": "order.paid.*",
		"order.shipped":     "order.*",
		"user.made":         "*",
	} {
		value, pattern, ok := table.find(jobType)
		if !ok || pattern != want || value != "value of "+want {
			t.Errorf("find %q = %q, %q, %v; want %q", jobType, value, pattern, ok, want)
		}
	}
}

func TestPatternTableRefusesTwinsAndTiesByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, second string
		mentions      []string // none = no error
	}{
		{"a.b", "a.b", []string{`"a.b"`, "twice"}},
		{"a.*", "a.*", []string{`"a.*"`, "twice"}},
		{"a.*.x", "a.*x", []string{`"a.*.x"`, `"a.*x"`, "tie"}},
		{"a.*.x", "a.*.y", nil},
		{"a.*", "a.b.*", nil},
		{"a.*", "a.b", nil},
		{"a", "", []string{"empty"}},
	} {
		var table patternTable[int]
		if err := table.add(c.first, 1); err != nil {
			t.Fatal(err)
		}
		err := table.add(c.second, 2)
		if (err != nil) != (c.mentions != nil) {
			t.Errorf("%q after %q: %v", c.second, c.first, err)
			continue
		}
		for _, word := range c.mentions {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q after %q: %q does not mention %s", c.second, c.first, err, word)
			}
		}
	}
}
